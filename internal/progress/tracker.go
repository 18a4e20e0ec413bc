package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Identity is the canonical identity of a call within its run.
type Identity struct {
	Call       uint64 // sequence of its tool.reserved
	ToolCallID string // the framework's own, byte for byte
}

// String writes the identity as "<call> <tool call id>", as the store keeps it.
func (i Identity) String() string { return strconv.FormatUint(i.Call, 10) + " " + i.ToolCallID }

// ParseIdentity reads what [Identity.String] writes. The error does not repeat
// the text.
func ParseIdentity(text string) (Identity, error) {
	call, id, found := strings.Cut(text, " ")
	sequence, err := strconv.ParseUint(call, 10, 64)
	if !found || err != nil || sequence == 0 || id == "" {
		return Identity{}, fmt.Errorf("identity of a call: want %q, got something else of %d bytes", "<call> <tool call id>", len(text))
	}
	return Identity{Call: sequence, ToolCallID: id}, nil
}

// Tracker keeps the identities of completed calls in order of reservation, and
// nothing else of them. The zero value is empty. It is not safe for use by
// several goroutines.
type Tracker struct{ completed []Identity }

// Complete adds the identity of a completed call, and reports whether it was
// not there yet.
func (t *Tracker) Complete(id Identity) bool {
	at, found := slices.BinarySearchFunc(t.completed, id, compareIdentities)
	if !found {
		t.completed = slices.Insert(t.completed, at, id)
	}
	return !found
}

// Completed gives a copy of the identities in order of reservation.
func (t *Tracker) Completed() []Identity { return slices.Clone(t.completed) }

func compareIdentities(a, b Identity) int {
	return cmp.Or(cmp.Compare(a.Call, b.Call), strings.Compare(a.ToolCallID, b.ToolCallID))
}

package harness

import (
	"fmt"

	"runledger/internal/events"
)

// MaxToolCallID bounds a framework's tool call id, in bytes. The longest that
// real frameworks send have some 1,300.
const MaxToolCallID = 2048

// CheckToolCallID reports whether a framework's tool call id may be used, byte
// for byte as it is: 1 to MaxToolCallID of the characters A-Z a-z 0-9 and
// _ - . | / + = ~ @. A colon separates the segments of a key and is refused
// unless allowColon lets it in (some providers put one there; the id is the
// last segment, so the key stays unambiguous). Everything else is refused
// always; nothing is made or mended.
func CheckToolCallID(id string, allowColon bool) error {
	if id == "" || len(id) > MaxToolCallID {
		return fmt.Errorf("tool call id: want 1 to %d bytes, got %d", MaxToolCallID, len(id))
	}
	for i := range len(id) {
		if !safeInID(id[i], allowColon) {
			return fmt.Errorf("tool call id: want A-Z a-z 0-9 _ - . | / + = ~ @, got %q at byte %d", id[i], i)
		}
	}
	return nil
}

func safeInID(c byte, allowColon bool) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	case c == ':':
		return allowColon
	}
	switch c {
	case '_', '-', '.', '|', '/', '+', '=', '~', '@':
		return true
	}
	return false
}

// ToolCallKeyFactory builds canonical keys, {prefix}:{runId}:{toolCallId}, from
// segments that are safe, and from nothing else.
type ToolCallKeyFactory struct {
	prefix     string
	allowColon bool
}

// NewToolCallKeyFactory takes a prefix of the form of a name (see
// events.ValidName), and whether tool call ids may hold a colon.
func NewToolCallKeyFactory(prefix string, allowColon bool) (ToolCallKeyFactory, error) {
	if !events.ValidName(prefix) {
		return ToolCallKeyFactory{}, fmt.Errorf("key prefix: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", prefix)
	}
	return ToolCallKeyFactory{prefix: prefix, allowColon: allowColon}, nil
}

// Key gives the canonical key with the run as Redis hash tag, so that all keys
// of a run lie in one slot: prefix:{runId}:toolCallId.
func (f ToolCallKeyFactory) Key(runID, toolCallID string) (string, error) {
	if !events.ValidName(runID) {
		return "", fmt.Errorf("run id: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", runID)
	}
	if err := CheckToolCallID(toolCallID, f.allowColon); err != nil {
		return "", err
	}
	return f.prefix + ":{" + runID + "}:" + toolCallID, nil
}

package replay

import (
	"fmt"
	"strings"
	"unicode"

	"runledger/internal/events"
)

// What says which kind of difference was found. The set is closed.
type What string

// The kinds of difference.
const (
	Changed    What = "CHANGED"      // a fact is not the one that the rules give
	Missing    What = "MISSING"      // a fact of a history is not there, and a later one is
	Misplaced  What = "OUT_OF_PLACE" // a fact of a history stands after a later one
	Added      What = "PUT_IN"       // a fact that nothing led to
	Newer      What = "NEWER"        // a fact that a newer version of this program wrote
	Unreadable What = "UNREADABLE"   // a message of RUNS that is no fact
	Unanswered What = "UNANSWERED"   // an event below its partition's position has no answer
	CutOff     What = "CUT_OFF"      // a history ends before what followed by itself
	OtherStore What = "STORE"        // the store stands at another last fact

	OtherPolicy   What = "POLICY"   // a policy that a run needs is not there, or is another than its digest says
	OtherDispatch What = "DISPATCH" // a dispatch is not the one that a reservation leads to, or there is none
	Gap           What = "GAP"      // a stream lost what it must keep
	LetterPutIn   What = "LETTER"   // a dead letter that no event leads to
)

// Field is one attribute or member in which a fact is another than expected.
// Values are shortened to what a person reads.
type Field struct {
	Name     string `json:"name"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// Difference is one thing that is not as the rules make it from the events.
type Difference struct {
	What     What        `json:"what"`
	Run      string      `json:"run,omitempty"`
	Sequence uint64      `json:"sequence,omitempty"` // of the fact in its run; 0 outside a history
	Kind     events.Kind `json:"fact,omitempty"`
	Stream   uint64      `json:"stream_sequence,omitempty"` // where RUNS has it, or the fact after the gap
	Event    uint64      `json:"event,omitempty"`           // the cause, in IN
	Verb     events.Verb `json:"verb,omitempty"`            // of the cause
	Fields   []Field     `json:"fields,omitempty"`
	Why      string      `json:"why"`
}

// String tells the difference in one sentence, and each field on a line below.
func (d Difference) String() string {
	var out strings.Builder
	out.WriteString(string(d.What))
	if d.Run != "" {
		fmt.Fprintf(&out, "  run %s", shown(d.Run))
	}
	switch {
	case d.Sequence > 0 && d.Kind != "":
		fmt.Fprintf(&out, ", fact %d (%s)", d.Sequence, shown(string(d.Kind)))
	case d.Sequence > 0:
		fmt.Fprintf(&out, ", fact %d", d.Sequence)
	case d.Kind != "":
		fmt.Fprintf(&out, ", %s outside its history", shown(string(d.Kind)))
	}
	if d.Stream > 0 {
		fmt.Fprintf(&out, ", RUNS %d", d.Stream)
	}
	if d.Event > 0 {
		fmt.Fprintf(&out, ", cause IN %d", d.Event)
		if d.Verb != "" {
			fmt.Fprintf(&out, " (%s)", shown(string(d.Verb)))
		}
	}
	fmt.Fprintf(&out, ": %s", printable(strings.ReplaceAll(d.Why, "\n", "; ")))
	for i, f := range d.Fields {
		if i == mostFields {
			fmt.Fprintf(&out, "\n    … and %d more", len(d.Fields)-i)
			break
		}
		fmt.Fprintf(&out, "\n    %s\n      expected %s\n      got      %s", shown(f.Name), f.Expected, f.Got)
	}
	return out.String()
}

// mostFields bounds the fields that a difference shows.
const mostFields = 8

// mostShown bounds a value in a difference, in bytes. Facts hold nothing that
// must not be shown; agents choose some of it.
const mostShown = 160

// shown makes a value fit for a terminal and a line.
func shown(value string) string {
	if value == "" {
		return "(nothing)"
	}
	cut := ""
	if len(value) > mostShown {
		cut = fmt.Sprintf("… (%d bytes)", len(value))
		value = value[:mostShown]
	}
	return printable(value) + cut
}

// printable puts a mark in place of what a terminal may take for a command, or
// writes in another direction: agents and executors choose some of what is shown.
func printable(value string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(value, "\uFFFD"))
}

package demo

import (
	"fmt"
	"io"

	"runledger/internal/events"
)

// WriteFact writes one fact of any run for a person to read, on one line: when,
// which run, its place in that, what it is, and what it says. What agents chose
// of it is shortened and made safe for a terminal.
func WriteFact(w io.Writer, f *events.Fact) error {
	p := newPalette()
	what, detail := describe(p, f)
	switch b := f.Payload.(type) {
	case *events.RunRejected:
		what, detail.text, detail.style = string(b.Intent), string(b.Code), p.warn
	case *events.ToolLate:
		detail.text, detail.style = string(b.Outcome)+"  "+shorten(b.ToolCallID), p.warn
	default:
	}
	place := "-"
	if f.Sequence > 0 {
		place = fmt.Sprint(f.Sequence)
	}
	line := fmt.Sprintf("%s  %s %s  %s  ",
		p.faint.Render(f.Time.UTC().Format("2006-01-02 15:04:05.000")), pad(shorten(f.Run), mostShown),
		p.faint.Render(fmt.Sprintf("%5s", place)), pad(string(f.Kind()), len(events.KindProgressAccepted)))
	if what != "" {
		line += p.title.Render(shorten(what)) + "  "
	}
	return writeText(w, line+detail.style.Render(detail.text)+"\n")
}

func pad(text string, width int) string { return fmt.Sprintf("%-*s", width, text) }

package demo

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"runledger/internal/audit"
)

// shownViolations is how many of the report's violations a summary spells out.
const shownViolations = 10

// WriteSummary writes the figures for a person to read.
func WriteSummary(w io.Writer, r *audit.Report) error {
	p := newPalette()
	number := func(n int64) cell { return cell{text: fmt.Sprint(n), style: p.title, right: true} }
	row := func(label string, n int64, detail string, style lipgloss.Style) []cell {
		cells := []cell{{text: label, style: p.faint}, number(n)}
		if detail != "" {
			cells = append(cells, cell{text: printable(detail), style: style})
		}
		return cells
	}
	held := p.good
	if !r.OK() {
		held = p.bad
	}
	rejected := r.Calls - r.Reserved
	text := p.title.Render("Summary") + p.faint.Render(fmt.Sprintf("  counted from the streams, %.2f s", r.Seconds)) + "\n" +
		aligned("  ", [][]cell{
			row("runs", r.Runs, counts(r.Terminated), p.plain),
			row("calls", r.Calls, "", p.plain),
			row("reserved", r.Reserved, fmt.Sprintf("READY %d, ERROR %d", r.Ready, r.Error), p.plain),
			row("evidence", r.EvidenceFound, fmt.Sprintf("found, and %d calls without", r.NoEvidence), p.plain),
			row("rejected", rejected, counts(r.Rejected), p.plain),
			row("facts", r.Facts, fmt.Sprintf("%s, %s", some(r.SequenceGaps, "sequence gap"), some(r.DuplicateDispatches, "duplicate dispatch")), held),
		})
	for i, violation := range r.Violations {
		if i == shownViolations {
			break
		}
		text += p.bad.Render("  ✗ "+printable(violation)) + "\n"
	}
	if more := r.ViolationCount - shownViolations; more > 0 {
		text += p.bad.Render(fmt.Sprintf("  ✗ and %d more", more)) + "\n"
	}
	return writeText(w, text)
}

// counts lists what there is most of first.
func counts(of map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), strings.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %d", name, of[name])
	}
	return strings.Join(parts, ", ")
}

// some says how many, or that there is none.
func some(n int64, what string) string {
	if n == 0 {
		return "no " + what
	}
	return fmt.Sprintf("%d × %s", n, what)
}

package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"runledger/internal/events"
)

// describe gives what a fact is about, and what it says.
func describe(p palette, f *events.Fact) (what string, detail cell) {
	detail = cell{style: p.faint}
	switch b := f.Payload.(type) {
	case *events.ToolReserved:
		what, detail.text = b.Tool, shorten(b.ToolCallID)
	case *events.ToolRejected:
		what, detail.text, detail.style = b.Tool, string(b.Code)+"  "+shorten(b.ToolCallID), p.warn
	case *events.ToolSettled:
		what, detail.text, detail.style = b.Tool, settled(b), p.good
		if b.Status != events.StatusReady {
			detail.style = p.bad
		}
	case *events.ModelGranted:
		what, detail.text = string(b.Operation), fmt.Sprintf("attempt %d  %s", b.Attempt, shorten(b.OperationID))
	case *events.ModelRejected:
		what, detail.text, detail.style = string(b.Operation), string(b.Code)+"  "+shorten(b.OperationID), p.warn
	case *events.ModelRecorded:
		what, detail.text, detail.style = string(b.Operation), recordedAttempt(b), p.good
		if b.Outcome != events.AttemptSucceeded {
			detail.style = p.bad
		}
	case *events.ProgressAccepted:
		what, detail.text, detail.style = step(b.Step, b.Final), plural(int64(b.Claims), "claim"), p.good
	case *events.ProgressInvalid:
		what, detail.text, detail.style = step(b.Step, false), violations(b), p.warn
	default:
		detail.text = describeRun(f)
		if f.Kind() == events.KindRunReleased {
			detail.style = p.warn
		}
	}
	return what, detail
}

// describeRun says what a fact about the run as a whole tells.
func describeRun(f *events.Fact) string {
	switch b := f.Payload.(type) {
	case *events.RunStarted:
		return "deadline in " + b.Deadline.Sub(f.Time).Round(time.Second).String() + ", policy " + shortDigest(b.Policy)
	case *events.RunReleased:
		return string(b.Reason) + ", to be finished within " + b.GraceUntil.Sub(f.Time).Round(time.Second).String()
	case *events.RunEnding:
		return string(b.Outcome) + ", " + b.Reason
	case *events.RunProgress:
		return observed(b)
	case *events.RunTerminated:
		return used(b.Usage)
	}
	return ""
}

func settled(b *events.ToolSettled) string {
	if b.Status != events.StatusReady {
		return fmt.Sprintf("%s  %s", b.Status, b.Code)
	}
	return fmt.Sprintf("%s  %s  %s of %s", b.Status, b.Evidence, byteCount(int64(len(b.Result))), byteCount(b.RawBytes))
}

func recordedAttempt(b *events.ModelRecorded) string {
	text := string(b.Outcome)
	if b.Failure != "" {
		text += "  " + string(b.Failure)
	}
	if b.Usage == nil {
		return text + "  usage unknown"
	}
	text += fmt.Sprintf("  %d tokens in, %d out", b.Usage.InputTokens, b.Usage.OutputTokens)
	if b.Limit != "" {
		text += ", which passes " + printable(b.Limit)
	}
	return text
}

func step(number int, final bool) string {
	if final {
		return fmt.Sprintf("step %d, final", number)
	}
	return fmt.Sprintf("step %d", number)
}

// violations spells out the first one, which is what an agent mends first.
func violations(b *events.ProgressInvalid) string {
	if len(b.Violations) == 0 {
		return printable(b.Code)
	}
	first := b.Violations[0]
	text := string(first.Code)
	if first.ToolCallID != "" {
		text += "  " + shorten(first.ToolCallID)
	}
	if more := len(b.Violations) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ", " + plural(int64(b.RepairsLeft), "repair") + " left"
}

func observed(b *events.RunProgress) string {
	text := fmt.Sprintf("%d observed", len(b.Observed))
	for _, reason := range slices.Sorted(maps.Keys(b.LeftOut)) {
		text += fmt.Sprintf(", %d left out as %s", b.LeftOut[reason], printable(reason))
	}
	if b.Steps > 0 {
		text += ", " + plural(int64(b.Steps), "step")
	}
	if b.Final {
		text += ", final"
	}
	return text
}

func used(u events.Usage) string {
	parts := []string{plural(u.ToolCalls, "tool call")}
	if u.ModelCalls > 0 {
		parts = append(parts, plural(u.ModelCalls, "model call"), plural(u.TotalTokens, "token"))
	}
	if u.UnknownUsage > 0 {
		parts[len(parts)-1] += fmt.Sprintf(" and %d × unknown", u.UnknownUsage)
	}
	return strings.Join(append(parts, byteCount(u.RunBytes)), ", ")
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// shortDigest is the first twelve digits, enough to tell policies apart.
func shortDigest(digest string) string {
	digits := printable(strings.TrimPrefix(digest, "sha256:"))
	return digits[:min(len(digits), 12)]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

func byteCount(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/1024)
}

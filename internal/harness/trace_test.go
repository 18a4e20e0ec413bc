package harness_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// trace tells one answer in a line that a person can read.
func trace(s step) string {
	switch {
	case s.fact == nil && s.reason == "":
		return "nothing new"
	case s.fact == nil:
		return strings.TrimSpace("kept for the operator: " + string(s.reason) + " " + remark(s.reason, s.detail))
	}
	f := s.fact
	number := "  --"
	if f.Sequence > 0 {
		number = fmt.Sprintf("%4d", f.Sequence)
	}
	line := fmt.Sprintf("%s  %-17s %s", number, f.Kind(), words(f))
	if f.Sequence == 0 {
		line += ", to " + f.Agent + " alone"
	}
	if !f.Cause.Decision {
		line += "  (due)"
	}
	return line
}

// remark repeats the detail where it is short and ours.
func remark(reason harness.Reason, detail string) string {
	if reason == harness.ReasonRefusedCancel {
		return "(" + detail + ")"
	}
	return ""
}

func words(f *events.Fact) string {
	switch p := f.Payload.(type) {
	case *events.RunStarted:
		return fmt.Sprintf("%s for %s until %s, records until %s", p.RunID, p.Agent, clock(p.Deadline), clock(p.ExpiresAt))
	case *events.RunRejected:
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Intent, p.Code, p.Limit))
	case *events.ToolReserved:
		return fmt.Sprintf("%s %s at %s until %s, %d bytes", p.ToolCallID, p.Tool, p.Executor, clock(p.Deadline), p.RequestBytes)
	case *events.ToolRejected:
		line := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", p.ToolCallID, p.Tool, p.Code, p.Limit)), " ")
		if p.SameArguments != nil {
			line += map[bool]string{true: ", the same arguments", false: ", other arguments"}[*p.SameArguments]
		}
		return line
	case *events.ToolSettled:
		return settled(p)
	case *events.ToolLate:
		return fmt.Sprintf("%s %s, %d bytes raw", p.ToolCallID, p.Outcome, p.RawBytes)
	case *events.ModelGranted:
		return fmt.Sprintf("%s %s, attempt %d", p.OperationID, p.Operation, p.Attempt)
	case *events.ModelRejected:
		return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s", p.Intent, p.OperationID, p.Operation, p.Code, p.Limit)), " ")
	case *events.ModelRecorded:
		return recorded(p)
	case *events.ProgressAccepted:
		return fmt.Sprintf("step %d, %d claims%s", p.Step, p.Claims, map[bool]string{true: ", final"}[p.Final])
	case *events.ProgressInvalid:
		return invalid(p)
	case *events.RunReleased:
		return fmt.Sprintf("%s, to finish until %s", p.Reason, clock(p.GraceUntil))
	case *events.RunEnding:
		return strings.TrimSpace(fmt.Sprintf("%s by %s %s", p.Outcome, p.Reason, p.Limit))
	case *events.RunProgress:
		var observed []string
		for _, o := range p.Observed {
			observed = append(observed, o.ToolCallID+" "+string(o.Evidence))
		}
		line := fmt.Sprintf("observed [%s], left out %s", strings.Join(observed, ", "), counts(p.LeftOut))
		if p.Steps > 0 {
			line += fmt.Sprintf("; %d steps%s", p.Steps, map[bool]string{true: ", the last final"}[p.Final])
		}
		return line
	case *events.RunTerminated:
		return terminatedWords(p)
	}
	return "?"
}

func terminatedWords(p *events.RunTerminated) string {
	line := fmt.Sprintf("%s at %s; %d calls, %s; %d bytes", p.Outcome, clock(p.EndedAt), p.Usage.ToolCalls, counts(p.Calls), p.Usage.RunBytes)
	if p.Usage.ModelCalls > 0 {
		line += fmt.Sprintf("; %d model calls, %d of unknown usage, %d+%d tokens, %d in all",
			p.Usage.ModelCalls, p.Usage.UnknownUsage, p.Usage.InputTokens, p.Usage.OutputTokens, p.Usage.TotalTokens)
	}
	return line
}

func recorded(p *events.ModelRecorded) string {
	line := fmt.Sprintf("%s %s, attempt %d %s", p.OperationID, p.Operation, p.Attempt, p.Outcome)
	if p.Failure != "" {
		line += " " + string(p.Failure)
	}
	if p.Usage == nil {
		line += ", usage unknown"
	} else {
		line += fmt.Sprintf(", %d+%d tokens, %d in all", p.Usage.InputTokens, p.Usage.OutputTokens, p.Usage.Total())
	}
	if p.Limit != "" {
		line += ", over " + p.Limit
	}
	return line
}

func invalid(p *events.ProgressInvalid) string {
	wrong := make([]string, 0, len(p.Violations))
	for _, v := range p.Violations {
		place := ""
		if v.Claim >= 0 {
			place = fmt.Sprintf(" in claim %d", v.Claim+1)
		}
		if v.ToolCallID != "" {
			place += " of " + v.ToolCallID
		}
		wrong = append(wrong, string(v.Code)+place)
	}
	if len(wrong) == 0 {
		return fmt.Sprintf("step %d %s", p.Step, p.Code)
	}
	return fmt.Sprintf("step %d: %s; %d repairs left", p.Step, strings.Join(wrong, ", "), p.RepairsLeft)
}

func settled(p *events.ToolSettled) string {
	line := fmt.Sprintf("%s %s", p.ToolCallID, p.Status)
	if p.Status == events.StatusReady {
		line += fmt.Sprintf(" %s %s", p.Evidence, p.Result)
	} else {
		line = strings.TrimSpace(fmt.Sprintf("%s %s %s", line, p.Code, p.Limit))
	}
	if p.RawBytes > 0 {
		line += fmt.Sprintf(", %d bytes raw", p.RawBytes)
		if !p.RawStored {
			line += " not kept"
		}
	}
	return line
}

// clock tells an instant as time since the script began.
func clock(t time.Time) string { return t.Sub(noon).String() }

func counts(m map[string]int64) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", key, m[key]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

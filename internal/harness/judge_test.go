package harness_test

import (
	"fmt"
	"time"

	"runledger/internal/events"
)

// judge reads the stored facts of one run and says what is wrong with them. It
// keeps its own books, written from the rules' sentences, and shares nothing
// with the code that made the facts but their types.
type judge struct {
	faults []string
	facts  []*events.Fact

	limits    events.Limits
	deadline  time.Time
	calls     map[uint64]*judged // by sequence of the reservation
	ids       map[string]bool
	open      int
	byTool    map[string]int64
	bytes     int64
	exhausted bool
	outcome   events.Outcome
	progress  bool
	over      bool
	decided   uint64
}

type judged struct {
	reserved *events.ToolReserved
	settled  *events.ToolSettled
}

func (j *judge) fault(f *events.Fact, format string, args ...any) {
	j.faults = append(j.faults, fmt.Sprintf("fact %d (%s): ", f.Sequence, f.Kind())+fmt.Sprintf(format, args...))
}

// read judges a history, given as decoded facts with the digest of each.
func (j *judge) read(facts []*events.Fact, digests []string) {
	j.calls, j.ids, j.byTool = map[uint64]*judged{}, map[string]bool{}, map[string]int64{}
	for i, f := range facts {
		if f.Sequence != uint64(i+1) {
			j.fault(f, "want sequence %d", i+1)
		}
		if i > 0 && f.PreviousDigest != digests[i-1] {
			j.fault(f, "the chain is broken")
		}
		if i > 0 && f.Time.Before(facts[i-1].Time) {
			j.fault(f, "time goes back")
		}
		if f.Cause.Decision {
			if f.Cause.Sequence <= j.decided {
				j.fault(f, "event %d has more than one decision", f.Cause.Sequence)
			}
			j.decided = f.Cause.Sequence
		}
		if (i == 0) != (f.Kind() == events.KindRunStarted) {
			j.fault(f, "run.started is the first fact, and only the first")
		}
		if j.over {
			j.fault(f, "it follows run.terminated")
		}
		if _, ends := f.Payload.(*events.RunEnding); j.exhausted && j.outcome == "" && !ends {
			j.fault(f, "a used limit is not followed by the ending")
		}
		j.payload(f)
	}
	j.facts = facts
}

func (j *judge) payload(f *events.Fact) {
	switch p := f.Payload.(type) {
	case *events.RunStarted:
		j.limits, j.deadline = p.Limits, p.Deadline
	case *events.ToolReserved:
		j.reserve(f, p)
	case *events.ToolRejected:
		if j.outcome != "" {
			j.fault(f, "it follows run.ending")
		}
		j.exhausted = j.exhausted || p.Code == events.CodeBudgetExhausted
	case *events.ToolSettled:
		j.settle(f, p)
	case *events.RunEnding:
		if j.outcome != "" {
			j.fault(f, "a second outcome")
		}
		if j.exhausted != (p.Outcome == events.OutcomeBudgetExhausted) {
			j.fault(f, "outcome %s, exhausted %v", p.Outcome, j.exhausted)
		}
		if p.Outcome == events.OutcomeTimedOut && f.Time.Before(j.deadline) {
			j.fault(f, "timed out before its deadline")
		}
		j.outcome = p.Outcome
	case *events.RunProgress:
		j.observe(f, p)
	case *events.RunTerminated:
		if p.Outcome != j.outcome || j.open != 0 || !j.progress {
			j.fault(f, "outcome %s of %s, %d open, progress %v", p.Outcome, j.outcome, j.open, j.progress)
		}
		if p.Usage.ToolCalls != int64(len(j.calls)) || p.Usage.RunBytes != j.bytes || p.Calls["READY"]+p.Calls["ERROR"] != int64(len(j.calls)) {
			j.fault(f, "tells usage %+v and calls %v, want %d calls and %d bytes", p.Usage, p.Calls, len(j.calls), j.bytes)
		}
		j.over = true
	default:
		j.fault(f, "this kind has no place in a history")
	}
}

func (j *judge) reserve(f *events.Fact, p *events.ToolReserved) {
	if j.outcome != "" || !f.Time.Before(j.deadline) {
		j.fault(f, "reserved at %s after the end", f.Time)
	}
	if j.ids[p.ToolCallID] {
		j.fault(f, "id %s is reserved twice", p.ToolCallID)
	}
	j.ids[p.ToolCallID] = true
	j.calls[f.Sequence] = &judged{reserved: p}
	j.open++
	j.byTool[p.Tool]++
	j.bytes += p.RequestBytes
	if int64(len(j.calls)) > j.limits.ToolCalls || j.byTool[p.Tool] > j.limits.CallsPerTool || j.bytes > j.limits.RunBytes {
		j.fault(f, "a limit is passed: %d calls, %v, %d bytes", len(j.calls), j.byTool, j.bytes)
	}
}

func (j *judge) settle(f *events.Fact, p *events.ToolSettled) {
	call := j.calls[p.Call]
	if call == nil || call.settled != nil || call.reserved.ToolCallID != p.ToolCallID {
		j.fault(f, "call %d is not open", p.Call)
		return
	}
	call.settled = p
	j.open--
	j.bytes += int64(len(p.Result))
	if p.RawStored {
		j.bytes += p.RawBytes
	}
	if j.bytes > j.limits.RunBytes {
		j.fault(f, "%d bytes are over the limit", j.bytes)
	}
	switch {
	case p.Status == "READY" && p.Code == "" && (p.Evidence == "EVIDENCE_FOUND" || p.Evidence == "NO_EVIDENCE") && p.Result != nil:
		if !f.Cause.Decision || f.Cause.Source != "/executors/"+call.reserved.Executor || !f.Time.Before(call.reserved.Deadline) || j.outcome != "" {
			j.fault(f, "READY by %+v at %s", f.Cause, f.Time)
		}
	case p.Status == "ERROR" && p.Code != "" && p.Evidence == "ERROR" && p.Result == nil:
		if (j.outcome != "") != (p.Code == "RUN_TERMINATED") {
			j.fault(f, "code %s with outcome %q", p.Code, j.outcome)
		}
	default:
		j.fault(f, "no end of a call: %+v", p)
	}
	j.exhausted = j.exhausted || p.Code == events.CodeBudgetExhausted
}

func (j *judge) observe(f *events.Fact, p *events.RunProgress) {
	if j.outcome == "" || j.open != 0 || j.progress {
		j.fault(f, "progress out of place")
	}
	j.progress = true
	at := uint64(0)
	ready := 0
	for _, call := range j.calls {
		if call.settled != nil && call.settled.Status == "READY" {
			ready++
		}
	}
	for _, o := range p.Observed {
		call := j.calls[o.Call]
		if call == nil || call.settled == nil || call.settled.Status != "READY" || call.settled.Evidence != o.Evidence || o.Call <= at {
			j.fault(f, "observed %+v", o)
		}
		at = o.Call
	}
	if len(p.Observed) != ready {
		j.fault(f, "observed %d of %d READY calls", len(p.Observed), ready)
	}
}

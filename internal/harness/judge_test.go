package harness_test

import (
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// judge reads the stored facts of one run and says what is wrong with them. It
// keeps its own books, written from the rules' sentences, and shares nothing
// with the code that made the facts but their types.
type judge struct {
	policy harness.ProgressLimits
	faults []string
	facts  []*events.Fact

	limits    events.Limits
	deadline  time.Time
	calls     map[uint64]*judged // by sequence of the reservation
	ids       map[string]bool
	open      int
	byTool    map[string]int64
	bytes     int64
	models    map[string]*judgedModel // by operation id
	usage     events.Usage            // of models
	exhausted bool
	must      events.ReleaseReason // what the run must be released for, next
	released  events.ReleaseReason
	grace     time.Time
	step      int
	final     bool
	invalid   int
	repeats   map[string]int // how often each call came to each end
	outcome   events.Outcome
	progress  bool
	over      bool
	decided   uint64
}

// judgedModel is a model operation as its facts tell it.
type judgedModel struct {
	granted *events.ModelGranted  // the last
	ended   *events.ModelRecorded // of the last; nil while it is open
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
	j.models, j.repeats = map[string]*judgedModel{}, map[string]int{}
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
		if j.must != "" && j.outcome == "" && f.Cause.Decision {
			j.fault(f, "the run must be released as %s first", j.must)
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
	case *events.ModelGranted:
		j.grant(f, p)
	case *events.ModelRejected:
		if j.outcome != "" {
			j.fault(f, "it follows run.ending")
		}
		j.exhausted = j.exhausted || p.Code == events.CodeBudgetExhausted
	case *events.ModelRecorded:
		j.record(f, p)
	case *events.ProgressAccepted:
		if j.outcome != "" || j.final || p.Step != j.step+1 {
			j.fault(f, "step %d after step %d, final %v", p.Step, j.step, j.final)
		}
		j.step, j.final = p.Step, p.Final
	case *events.ProgressInvalid:
		j.wrongReport(f, p)
	case *events.RunReleased:
		if j.outcome != "" || p.Reason != j.must || j.released != "" || !p.GraceUntil.Equal(f.Time.Add(j.policy.Grace)) {
			j.fault(f, "released as %s until %s; must be %q, was %q", p.Reason, p.GraceUntil, j.must, j.released)
		}
		j.released, j.grace, j.must = p.Reason, p.GraceUntil, ""
	case *events.RunEnding:
		j.end(f, p)
	case *events.RunProgress:
		j.observe(f, p)
	case *events.RunTerminated:
		if p.Outcome != j.outcome || j.open != 0 || !j.progress {
			j.fault(f, "outcome %s of %s, %d open, progress %v", p.Outcome, j.outcome, j.open, j.progress)
		}
		if p.Usage.ToolCalls != int64(len(j.calls)) || p.Usage.RunBytes != j.bytes || p.Calls["READY"]+p.Calls["ERROR"] != int64(len(j.calls)) {
			j.fault(f, "tells usage %+v and calls %v, want %d calls and %d bytes", p.Usage, p.Calls, len(j.calls), j.bytes)
		}
		if u := p.Usage; u.ModelCalls != j.usage.ModelCalls || u.UnknownUsage != j.usage.UnknownUsage || u.InputTokens != j.usage.InputTokens ||
			u.OutputTokens != j.usage.OutputTokens || u.TotalTokens != j.usage.TotalTokens {
			j.fault(f, "tells usage of models %+v, want %+v", u, j.usage)
		}
		j.over = true
	default:
		j.fault(f, "this kind has no place in a history")
	}
}

func (j *judge) reserve(f *events.Fact, p *events.ToolReserved) {
	if j.outcome != "" || !f.Time.Before(j.deadline) || j.released != "" {
		j.fault(f, "reserved at %s after the end or release", f.Time)
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
	end := fmt.Sprint(call.reserved.Tool, call.reserved.ArgumentsDigest, p.Status, p.Code, p.RawDigest)
	if j.repeats[end]++; j.repeats[end] > j.policy.MaxRepeats && j.released == "" && j.outcome == "" && j.must == "" {
		j.must = events.ReleaseStalled
	}
}

// end judges the outcome against what led to it.
func (j *judge) end(f *events.Fact, p *events.RunEnding) {
	if j.outcome != "" {
		j.fault(f, "a second outcome")
	}
	if j.exhausted != (p.Outcome == events.OutcomeBudgetExhausted) {
		j.fault(f, "outcome %s, exhausted %v", p.Outcome, j.exhausted)
	}
	if p.Outcome == events.OutcomeTimedOut && f.Time.Before(j.deadline) {
		j.fault(f, "timed out before its deadline")
	}
	if p.Outcome == events.OutcomeSuccess && j.released == events.ReleaseProtocolViolated && !j.final {
		j.fault(f, "SUCCESS without a final report that holds")
	}
	if released := p.Reason == string(events.ReleaseProtocolViolated) || p.Reason == string(events.ReleaseStalled); released {
		graceOver := !f.Cause.Decision && !f.Time.Before(j.grace)
		noReport := f.Cause.Decision && !j.final && j.released == events.ReleaseProtocolViolated
		if p.Outcome != events.OutcomeFailed || p.Reason != string(j.released) || !graceOver && !noReport {
			j.fault(f, "%s by %s of a run released as %q until %s", p.Outcome, p.Reason, j.released, j.grace)
		}
	}
	j.outcome = p.Outcome
}

// mayRetry is the table of the requirement, once more: how often, and after what.
func mayRetry(op events.Operation, attempts int, failure events.FailureClass) bool {
	switch {
	case attempts != 1 || op != "INTENT_ROUTER" && op != "SEMANTIC_GUARD":
		return false
	case failure == "TRANSPORT" || failure == "TIMEOUT" || failure == "RATE_LIMITED" || failure == "UNAVAILABLE":
		return true
	}
	return failure == "INVALID_RESPONSE" && op == "INTENT_ROUTER"
}

func (j *judge) grant(f *events.Fact, p *events.ModelGranted) {
	if j.outcome != "" || j.released != "" || !f.Time.Before(j.deadline) {
		j.fault(f, "granted at %s after the end or release", f.Time)
	}
	switch before := j.models[p.OperationID]; {
	case before == nil && p.Attempt == 1:
	case before == nil || before.ended == nil || before.granted.Operation != p.Operation || p.Attempt != before.granted.Attempt+1 ||
		!mayRetry(p.Operation, before.granted.Attempt, before.ended.Failure):
		j.fault(f, "attempt %d of %s after %+v", p.Attempt, p.Operation, before)
	}
	j.models[p.OperationID] = &judgedModel{granted: p}
	j.usage.ModelCalls++
	j.usage.UnknownUsage++
	if j.usage.ModelCalls > j.limits.ModelCalls || j.overTokens() != "" {
		j.fault(f, "a limit is passed: %+v", j.usage)
	}
}

func (j *judge) record(f *events.Fact, p *events.ModelRecorded) {
	op := j.models[p.OperationID]
	if j.outcome != "" || op == nil || op.ended != nil || op.granted.Attempt != p.Attempt || op.granted.Operation != p.Operation {
		j.fault(f, "attempt %d of %s is not open: %+v", p.Attempt, p.OperationID, op)
		return
	}
	op.ended = p
	if p.Usage != nil {
		j.usage.UnknownUsage--
		j.usage.InputTokens += p.Usage.InputTokens
		j.usage.OutputTokens += p.Usage.OutputTokens
		j.usage.TotalTokens += max(p.Usage.TotalTokens, p.Usage.InputTokens+p.Usage.OutputTokens)
	}
	if over := j.overTokens(); p.Limit != over {
		j.fault(f, "names limit %q, want %q", p.Limit, over)
	}
	j.exhausted = j.exhausted || p.Limit != ""
}

func (j *judge) overTokens() string {
	switch {
	case j.usage.InputTokens > j.limits.InputTokens:
		return "input_tokens"
	case j.usage.OutputTokens > j.limits.OutputTokens:
		return "output_tokens"
	case j.usage.TotalTokens > j.limits.TotalTokens:
		return "total_tokens"
	}
	return ""
}

func (j *judge) wrongReport(f *events.Fact, p *events.ProgressInvalid) {
	if j.outcome != "" {
		j.fault(f, "it follows run.ending")
	}
	protocol := p.Code == events.InvalidProgressProtocol
	if protocol != (len(p.Violations) > 0) {
		j.fault(f, "code %s with %d violations", p.Code, len(p.Violations))
	}
	if protocol {
		j.invalid++
	}
	if want := max(j.policy.MaxRepairs-j.invalid, 0); p.RepairsLeft != want {
		j.fault(f, "%d repairs left, want %d", p.RepairsLeft, want)
	}
	if j.invalid > j.policy.MaxRepairs && j.released == "" {
		j.must = events.ReleaseProtocolViolated
	}
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
	if p.Steps != j.step || p.Final != j.final {
		j.fault(f, "tells %d steps, final %v, want %d, %v", p.Steps, p.Final, j.step, j.final)
	}
	if len(p.Observed) != ready {
		j.fault(f, "observed %d of %d READY calls", len(p.Observed), ready)
	}
}

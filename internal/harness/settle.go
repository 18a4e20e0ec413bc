package harness

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/events"
)

// decideResult settles the call that a result answers. Only the executor that
// was given the call, answering that very dispatch, can settle it; whatever
// cannot be attributed so is kept for the operator.
func (r *Rules) decideResult(s *State, in *events.Inbound, now time.Time) Decision {
	p, ok := in.Payload.(*events.ToolResult)
	if !ok {
		return Decision{DeadLetter: ReasonInvalidData, Detail: problem(in)}
	}
	if p.RunID != in.Run {
		return Decision{DeadLetter: ReasonRunMismatch}
	}
	if s.Run == nil {
		return Decision{DeadLetter: ReasonUnknownRun}
	}
	call := s.record(p.ToolCallID)
	switch {
	case call == nil && !now.Before(s.Run.ExpiresAt):
		return Decision{DeadLetter: ReasonExpiredCall}
	case call == nil:
		return Decision{DeadLetter: ReasonUnknownCall}
	case call.Executor != in.Principal:
		return Decision{DeadLetter: ReasonForeignExecutor}
	case p.DispatchID != events.DispatchID(call.RunID, call.Call):
		return Decision{DeadLetter: ReasonUnknownCall, Detail: "the dispatch id is not that of the call"}
	case call.Expired(now):
		return Decision{DeadLetter: ReasonExpiredCall}
	case call.Status == events.StatusProjecting:
		return Decision{Fact: s.fact(in, now, true, r.settle(s.Run, call, p))}
	case isCause(call.ResultCause, in):
		return Decision{} // the event that settled it, again
	}
	return outside(in, s.Run.Agent, now, lateKey(call), &events.ToolLate{
		RunID: in.Run, ToolCallID: call.ToolCallID, Call: call.Call, Outcome: p.Outcome, RawBytes: rawSize(p),
	})
}

// lateKey makes the answer to late results of a call unique: it is told once.
func lateKey(call *Record) string { return "late-" + strconv.FormatUint(call.Call, 10) }

func rawSize(p *events.ToolResult) int64 {
	if p.Outcome == events.ResultTooLarge {
		return p.Size
	}
	return int64(len(p.Result))
}

// settle judges a result: its size, its outcome, its projection, and the run's
// bytes, in this order.
func (r *Rules) settle(run *Run, call *Record, p *events.ToolResult) *events.ToolSettled {
	settled := &events.ToolSettled{
		ToolCallID: call.ToolCallID, Tool: call.Tool, Call: call.Call, RawBytes: rawSize(p),
	}
	limits := r.Policy.Bytes
	if p.Outcome == events.ResultTooLarge || settled.RawBytes > limits.RawResponse ||
		settled.RawBytes > limits.Record-call.RequestBytes {
		return fail(settled, events.CodeResultTooLarge)
	}
	if CheckRunBytes(run.Limits, run.Usage, settled.RawBytes) != nil {
		return exhaust(settled)
	}
	settled.RawStored = true
	settled.RawDigest = events.DigestBytes(p.Result)
	if p.Outcome == events.ResultFailed {
		return fail(settled, events.CodeToolExecutionFailed)
	}
	projection, err := r.project(call.Tool, p.Result)
	if err != nil {
		return fail(settled, events.CodeProjectionFailed)
	}
	if int64(len(projection.Result)) > limits.AgentResult {
		return fail(settled, events.CodeResultTooLarge)
	}
	if CheckRunBytes(run.Limits, run.Usage, settled.RawBytes+int64(len(projection.Result))) != nil {
		return exhaust(settled)
	}
	settled.Status, settled.Evidence, settled.Result = events.StatusReady, projection.Evidence, projection.Result
	return settled
}

// project runs the tool's projector. One that fails, panics, or gives what is no
// JSON or a status that a READY call cannot have, is an error: no evidence comes
// of it. The result comes without white space between its tokens, which is how
// the fact writes it, so that the bytes that are counted are those that are told.
func (r *Rules) project(tool string, raw []byte) (p Projection, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("projector of %s panicked", tool)
		}
	}()
	if p, err = r.Policy.Tools[tool].Projector.Project(raw); err != nil {
		return p, err
	}
	if p.Evidence != events.EvidenceFound && p.Evidence != events.EvidenceNone {
		return p, fmt.Errorf("projector of %s: want evidence %s or %s, got %q", tool, events.EvidenceFound, events.EvidenceNone, p.Evidence)
	}
	p.Result, err = jsontext.AppendFormat(nil, p.Result, jsontext.PreserveRawStrings(true))
	return p, err
}

func fail(settled *events.ToolSettled, code events.Code) *events.ToolSettled {
	settled.Status, settled.Evidence = events.StatusError, events.EvidenceError
	settled.Code, settled.Message = code, code.Message()
	return settled
}

// exhaust settles a call whose result would pass the run's bytes: the result is
// neither counted nor kept, and the run's end follows.
func exhaust(settled *events.ToolSettled) *events.ToolSettled {
	settled.Limit = string(LimitRunBytes)
	settled.RawStored, settled.RawDigest = false, ""
	return fail(settled, events.CodeBudgetExhausted)
}

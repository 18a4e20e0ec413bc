package harness

import (
	"strconv"
	"time"

	"runledger/internal/events"
)

// Decide answers one inbound event. The state must hold what [Needs] named, and
// [Due] must be dry at now. It changes nothing.
func (r *Rules) Decide(s *State, in *events.Inbound, now time.Time) Decision {
	switch in.Verb {
	case events.VerbRunStart:
		return r.decideStart(s, in, now)
	case events.VerbToolCall:
		return r.decideCall(s, in, now)
	case events.VerbToolResult:
		return r.decideResult(s, in, now)
	case events.VerbModelCall:
		return r.decideModelCall(s, in, now)
	case events.VerbModelReport:
		return r.decideModelReport(s, in, now)
	case events.VerbProgressReport:
		return r.decideProgress(s, in, now)
	case events.VerbRunCancel, events.VerbRunFinish:
		return r.decideEnd(s, in, now)
	default: // a tick asks for nothing beyond what is due
		return Decision{}
	}
}

// decideStart accepts a run whose identity, deadline and limits hold.
func (r *Rules) decideStart(s *State, in *events.Inbound, now time.Time) Decision {
	p, _ := in.Payload.(*events.RunStart)
	if s.Run != nil && s.Run.Agent == in.Principal && isCause(s.Run.StartCause, in) {
		return Decision{} // the event that started this run, again
	}
	if code, detail := r.checkStart(s, in, p, now); code != "" {
		return rejectRun(in, now, code, detail)
	}
	deadline := p.Deadline.UTC().Truncate(time.Millisecond)
	return Decision{Fact: &events.Fact{
		Agent: in.Principal, Run: in.Run, Sequence: 1, Time: now,
		Cause: cause(in, true), Rules: events.RulesVersion,
		Payload: &events.RunStarted{
			RunID: in.Run, SessionID: p.SessionID, Agent: in.Principal, Policy: r.Policy.Digest,
			Deadline: deadline, ExpiresAt: deadline.Add(r.Policy.TTL).Truncate(time.Millisecond), Limits: p.Limits,
		},
	}}
}

func (r *Rules) checkStart(s *State, in *events.Inbound, p *events.RunStart, now time.Time) (events.Code, string) {
	if in.Problem != nil || p == nil {
		return events.CodeInvalidEnvelope, problem(in)
	}
	if p.RunID != in.Run {
		return events.CodeRunMismatch, ""
	}
	if s.Run != nil {
		return events.CodeRunExists, ""
	}
	if err := CheckSessionID(p.SessionID); err != nil {
		return events.CodeInvalidIdentity, err.Error()
	}
	if name, _, bad := firstNotPositive(p.Limits); bad {
		return events.CodeInvalidLimits, string(name)
	}
	if name, _, bad := firstAbove(p.Limits, r.Policy.Ceilings); bad {
		return events.CodeInvalidLimits, string(name)
	}
	deadline := p.Deadline.Truncate(time.Millisecond)
	if !deadline.After(now) || deadline.After(now.Add(r.Policy.LongestRun)) {
		return events.CodeInvalidDeadline, ""
	}
	return "", ""
}

// decideEnd ends a run by its owner's finish, or by a cancellation of its owner
// or an operator.
func (r *Rules) decideEnd(s *State, in *events.Inbound, now time.Time) Decision {
	code, detail := checkEnd(s, in)
	switch {
	case code != "" && in.Role == events.RoleOperator:
		return Decision{DeadLetter: ReasonRefusedCancel, Detail: string(code)} // facts answer agents only
	case code != "":
		return rejectRun(in, now, code, detail)
	}
	ending := &events.RunEnding{}
	switch p := in.Payload.(type) {
	case *events.RunFinish:
		ending.Outcome, ending.Reason = s.Run.finish(p.Outcome)
	case *events.RunCancel:
		ending.Outcome, ending.Reason = events.OutcomeCancelled, string(p.Reason)
		if in.Role == events.RoleOperator {
			ending.Reason = string(events.CancelOperatorRequested)
		}
	}
	return Decision{Fact: s.fact(in, now, true, ending)}
}

// ReasonFinished is the reason of a run that its owner finished.
const ReasonFinished = "FINISHED_BY_AGENT"

// finish gives the outcome that a finish has: SUCCESS of a run that was
// released because its reports were wrong needs a final report that holds.
func (r *Run) finish(asked events.Outcome) (events.Outcome, string) {
	if asked == events.OutcomeSuccess && r.Released == events.ReleaseProtocolViolated && !r.Final {
		return events.OutcomeFailed, string(r.Released)
	}
	return asked, ReasonFinished
}

func checkEnd(s *State, in *events.Inbound) (events.Code, string) {
	runID := ""
	switch p := in.Payload.(type) {
	case *events.RunFinish:
		runID = p.RunID
	case *events.RunCancel:
		runID = p.RunID
	}
	if code, detail := s.refuse(in, runID); code != "" {
		return code, detail
	}
	if cancel, ok := in.Payload.(*events.RunCancel); ok && in.Role == events.RoleAgent && cancel.Reason == events.CancelOperatorRequested {
		return events.CodeInvalidEnvelope, "only an operator may give the reason of an operator"
	}
	if s.Run.Phase != PhaseRunning {
		return events.CodeRunNotActive, ""
	}
	return "", ""
}

// rejectRun answers a refused intent about a run. The answer belongs to no
// history, and goes to whoever asked.
func rejectRun(in *events.Inbound, now time.Time, code events.Code, detail string) Decision {
	payload := &events.RunRejected{RunID: in.Run, Intent: in.Verb, Code: code, Message: code.Message()}
	if code == events.CodeInvalidLimits {
		payload.Limit = detail
	}
	d := outside(in, in.Principal, now, inboundKey(in), payload)
	d.Detail = detail
	return d
}

// inboundKey makes the answer to an event outside any history unique.
func inboundKey(in *events.Inbound) string {
	return "in-" + strconv.FormatUint(in.Sequence, 10)
}

func problem(in *events.Inbound) string {
	if in.Problem == nil {
		return "no data"
	}
	return in.Problem.Error()
}

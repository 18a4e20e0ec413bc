package harness

import (
	"time"

	"runledger/internal/events"
)

// ProgressRules judge what a run makes of its calls. They are pure.
type ProgressRules interface {
	// Project turns the completed calls into what the run observed, at most max.
	Project(run *Run, completed []Record, now time.Time, max int) *events.RunProgress
	// Check names what does not hold in a report of the run's next step. record
	// finds a call of this run, nil if there is none.
	Check(report *events.ProgressReport, record func(toolCallID string) *Record, now time.Time) []events.Violation
}

// Rules decide by one policy. They are immutable and hold no state of a run.
type Rules struct {
	Policy   *Policy
	Progress ProgressRules
}

// Reason says why an event is kept for the operator instead of being decided.
// The set is closed.
type Reason string

// Why an inbound event goes to INVALID.
const (
	ReasonUndecodable     Reason = "UNDECODABLE"      // no CloudEvent, or an unknown subject
	ReasonInvalidData     Reason = "INVALID_DATA"     // data do not fit the schema, and no fact answers this verb
	ReasonUnknownRun      Reason = "UNKNOWN_RUN"      // a result for a run that is not there
	ReasonUnknownCall     Reason = "UNKNOWN_CALL"     // a result for a call that was never dispatched
	ReasonForeignExecutor Reason = "FOREIGN_EXECUTOR" // a result from an executor that was not given the call
	ReasonRunMismatch     Reason = "RUN_MISMATCH"     // a result whose data name another run
	ReasonExpiredCall     Reason = "EXPIRED_CALL"     // a result for a call whose record has expired
	ReasonLateAgain       Reason = "LATE_AGAIN"       // a further late result; the first was told
	ReasonRefusedCancel   Reason = "REFUSED_CANCEL"   // an operator's cancellation of a run that is not there or has ended
	ReasonStoreConflict   Reason = "STORE_CONFLICT"   // the store holds something else under the run's keys
	ReasonBrokenInvariant Reason = "BROKEN_INVARIANT" // the rules contradict the run's own history
)

// Decision is the answer to one inbound event: a fact, a dead letter, or, with
// neither, nothing new (the event was answered before, or asks for nothing).
type Decision struct {
	Fact       *events.Fact
	DeadLetter Reason
	Detail     string // for the operator alone
}

// fact builds the next fact of the run's history.
func (s *State) fact(in *events.Inbound, now time.Time, decision bool, payload events.Payload) *events.Fact {
	return &events.Fact{
		Agent: s.Run.Agent, Run: s.Run.ID,
		Sequence: s.Run.Sequence + 1, PreviousDigest: s.Run.Digest,
		Time: now, Cause: cause(in, decision), Rules: events.RulesVersion, Payload: payload,
	}
}

// outside builds a fact that belongs to no history; key makes it unique.
func outside(in *events.Inbound, agent string, now time.Time, key string, payload events.Payload) Decision {
	return Decision{Fact: &events.Fact{
		Agent: agent, Run: in.Run, OutsideKey: key,
		Time: now, Cause: cause(in, true), Rules: events.RulesVersion, Payload: payload,
	}}
}

// answer places an answer to an agent: in the run's history where the run is
// the speaker's own and still open to facts, outside it otherwise, so that
// nobody can lengthen another's history and nothing follows an end.
func (s *State) answer(in *events.Inbound, now time.Time, payload events.Payload, detail string) Decision {
	d := Decision{}
	if run := s.Run; run == nil || run.Agent != in.Principal || run.Phase != PhaseRunning {
		d = outside(in, in.Principal, now, inboundKey(in), payload)
	} else {
		d.Fact = s.fact(in, now, true, payload)
	}
	d.Detail = detail
	return d
}

// refuse checks what every intent about a run must pass before its own checks:
// its data, its run, and who owns that. runID is the one in the data.
func (s *State) refuse(in *events.Inbound, runID string) (events.Code, string) {
	switch {
	case in.Problem != nil || in.Payload == nil:
		return events.CodeInvalidEnvelope, problem(in)
	case runID != in.Run:
		return events.CodeRunMismatch, ""
	case s.Run == nil:
		return events.CodeRunNotFound, ""
	case in.Role == events.RoleAgent && s.Run.Agent != in.Principal:
		return events.CodeRunNotOwned, ""
	}
	return "", ""
}

// inactive refuses what comes after the end. A run that ended by its deadline
// answers DEADLINE_EXCEEDED, whoever noticed it first.
func (r *Run) inactive(now time.Time) events.Code {
	switch {
	case r.Termination.Outcome == events.OutcomeTimedOut:
		return events.CodeDeadlineExceeded
	case r.Phase != PhaseRunning:
		return events.CodeRunNotActive
	case !now.Before(r.Deadline): // not while Due is dry, but never let anything past it
		return events.CodeDeadlineExceeded
	}
	return ""
}

func cause(in *events.Inbound, decision bool) events.Cause {
	return events.Cause{Source: in.Source, ID: in.ID, Sequence: in.Sequence, Decision: decision, Trace: in.Trace}
}

// Now gives the instant of a decision: the latest of the clock, the event's own
// time and the run's last instant, so that time never goes back within a run.
// Instants have whole milliseconds.
func Now(clock time.Time, run *Run, in *events.Inbound) time.Time {
	now := clock
	if in != nil && in.Time.After(now) {
		now = in.Time
	}
	now = now.UTC().Truncate(time.Millisecond)
	if run != nil && run.At.After(now) {
		now = run.At
	}
	return now
}

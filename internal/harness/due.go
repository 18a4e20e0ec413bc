package harness

import (
	"time"

	"runledger/internal/events"
)

// Due gives the next fact that follows by itself at now, or nil when nothing
// does. in is the event that was at hand when it was noticed, and names the
// fact's cause. It changes nothing; the state must hold what [Needs] named.
func (r *Rules) Due(s *State, in *events.Inbound, now time.Time) *events.Fact {
	if s.Run == nil {
		return nil
	}
	var payload events.Payload
	switch s.Run.Phase {
	case PhaseRunning:
		payload = r.dueRunning(s.Run, now)
	case PhaseEnding:
		payload = r.dueEnding(s, now)
	case PhaseTerminated: // nothing follows the end
	}
	if payload == nil {
		return nil
	}
	return s.fact(in, now, false, payload)
}

// dueRunning finds what ends a run or a call: a limit that was reached, a call
// that nobody answered in time, the deadline, and what releases a run, and the
// end of its grace.
func (r *Rules) dueRunning(run *Run, now time.Time) events.Payload {
	if run.Exhausted != "" {
		return &events.RunEnding{
			Outcome: events.OutcomeBudgetExhausted, Reason: string(events.CancelBudgetExhausted),
			Limit: string(run.Exhausted),
		}
	}
	if call := firstOverdue(run, now); call != nil {
		return settleUnanswered(call, events.CodeToolTimeout)
	}
	if !now.Before(run.Deadline) {
		return &events.RunEnding{Outcome: events.OutcomeTimedOut, Reason: string(events.CancelDeadlineExceeded)}
	}
	if run.Released != "" && !now.Before(run.GraceUntil) {
		return &events.RunEnding{Outcome: events.OutcomeFailed, Reason: string(run.Released)}
	}
	if reason := r.releasedBecause(run); reason != "" {
		return &events.RunReleased{Reason: reason, GraceUntil: now.Add(r.Policy.Progress.Grace)}
	}
	return nil
}

// firstOverdue gives the open call whose deadline passed first.
func firstOverdue(run *Run, now time.Time) *Record {
	var first *Record
	for _, c := range run.Open {
		if !now.Before(c.Deadline) && (first == nil || c.Deadline.Before(first.Deadline)) {
			first = c
		}
	}
	return first
}

// dueEnding takes an ending run one step further.
func (r *Rules) dueEnding(s *State, now time.Time) events.Payload {
	run := s.Run
	if len(run.Open) > 0 {
		return settleUnanswered(run.Open[0], events.CodeRunTerminated)
	}
	if !run.ProgressTold {
		progress := r.Progress.Project(run, s.Completed, now, r.Policy.Observed)
		progress.Steps, progress.Final = run.Step, run.Final
		return progress
	}
	calls := make(map[string]int64, len(run.Calls))
	for status, n := range run.Calls {
		calls[string(status)] = n
	}
	return &events.RunTerminated{
		Outcome: run.Termination.Outcome, Reason: run.Termination.Reason, EndedAt: run.Termination.At,
		Usage: run.Used(), Calls: calls,
	}
}

func settleUnanswered(call *Record, code events.Code) *events.ToolSettled {
	return fail(&events.ToolSettled{ToolCallID: call.ToolCallID, Tool: call.Tool, Call: call.Call}, code)
}

package harness

import (
	"fmt"
	"time"

	"runledger/internal/events"
)

// decideProgress checks a progress report of the run's next step against the
// run's records. What does not hold is told as an INVALID_PROGRESS_PROTOCOL
// observation, which the agent may repair.
func (r *Rules) decideProgress(s *State, in *events.Inbound, now time.Time) Decision {
	p, _ := in.Payload.(*events.ProgressReport)
	runID, step := in.Run, 0
	if p != nil {
		runID, step = p.RunID, p.Step
	}
	own := s.Run != nil && s.Run.Agent == in.Principal
	if own && in.ID == s.Run.ReportID && in.Source == s.Run.ReportSource {
		return Decision{} // the report that was answered last, again: it is not wrong for that
	}
	code, detail := s.refuse(in, runID)
	if own && (code == "" || code == events.CodeInvalidEnvelope) {
		if ended := s.Run.inactive(now); ended != "" {
			code = ended
		}
	}
	switch {
	case code == events.CodeInvalidEnvelope && own:
		return r.invalidProgress(s, in, now, step, []events.Violation{{Code: events.ViolationEnvelope, Claim: -1}}, detail)
	case code != "":
		payload := &events.ProgressInvalid{RunID: in.Run, Code: string(code), Message: code.Message(), Step: step}
		if own {
			payload.RepairsLeft = r.repairsLeft(s.Run.Invalid)
		}
		return s.answer(in, now, payload, detail)
	}
	if violations := r.checkProgress(s, p, now); len(violations) > 0 {
		return r.invalidProgress(s, in, now, step, violations, "")
	}
	return Decision{Fact: s.fact(in, now, true, &events.ProgressAccepted{Step: p.Step, Claims: len(p.Claims), Final: p.Final})}
}

func (r *Rules) checkProgress(s *State, p *events.ProgressReport, now time.Time) []events.Violation {
	whole := func(code events.ViolationCode) []events.Violation { return []events.Violation{{Code: code, Claim: -1}} }
	switch {
	case s.Run.Final:
		return whole(events.ViolationAlreadyFinal)
	case p.Step != s.Run.Step+1:
		return whole(events.ViolationStep)
	}
	return r.Progress.Check(p, s.record, now)
}

// invalidProgress is the observation; it tells how often the agent may still be
// wrong.
func (r *Rules) invalidProgress(s *State, in *events.Inbound, now time.Time, step int, violations []events.Violation, detail string) Decision {
	return s.answer(in, now, &events.ProgressInvalid{
		RunID: in.Run, Code: events.InvalidProgressProtocol, Message: invalidProgressMessage, Step: step,
		Violations: violations, RepairsLeft: r.repairsLeft(s.Run.Invalid + 1),
	}, detail)
}

// repairsLeft gives how often a run with that many wrong reports may still be
// wrong without being released.
func (r *Rules) repairsLeft(wrong int) int { return max(r.Policy.Progress.MaxRepairs-wrong, 0) }

const invalidProgressMessage = "The report does not hold; repair what is named and report the same step again."

// accepted takes a report that holds.
func (r *Run) accepted(f *events.Fact, p *events.ProgressAccepted) error {
	if p.Step != r.Step+1 || r.Final {
		return fmt.Errorf("want step %d, and none after a final report", r.Step+1)
	}
	r.Step, r.Final = p.Step, p.Final
	r.ReportSource, r.ReportID = f.Cause.Source, f.Cause.ID
	return nil
}

// wrong counts a report that does not hold. Any other refusal is no wrong report.
func (r *Run) wrong(f *events.Fact, p *events.ProgressInvalid) {
	if p.Code == events.InvalidProgressProtocol {
		r.Invalid++
	}
	r.ReportSource, r.ReportID = f.Cause.Source, f.Cause.ID
}

// releasedBecause gives why a running run must be released; empty if nothing
// asks for it.
func (r *Rules) releasedBecause(run *Run) events.ReleaseReason {
	switch limits := r.Policy.Progress; {
	case run.Released != "":
		return ""
	case run.Invalid > limits.MaxRepairs:
		return events.ReleaseProtocolViolated
	case run.mostRepeated() > limits.MaxRepeats:
		return events.ReleaseStalled
	}
	return ""
}

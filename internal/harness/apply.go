package harness

import (
	"errors"
	"fmt"
	"slices"

	"runledger/internal/events"
)

// ErrBrokenInvariant says that a fact does not follow from the history before
// it. It stops that run, loudly, and is no fault of an agent.
var ErrBrokenInvariant = errors.New("broken invariant")

// Stored is where the stream put a fact, and the fact's digest.
type Stored struct {
	Sequence uint64 // in RUNS
	Digest   string
}

// Apply takes the state past a fact that the stream has stored. It gives the
// record that the fact touched, nil if none. A fact outside every history
// changes nothing. The error is ErrBrokenInvariant; the state must then be
// dropped.
func (s *State) Apply(f *events.Fact, at Stored) (*Record, error) {
	if f.Sequence == 0 {
		return nil, nil
	}
	if err := s.checkNext(f); err != nil {
		return nil, fmt.Errorf("%w: run %s, fact %d (%s): %w", ErrBrokenInvariant, f.Run, f.Sequence, f.Kind(), err)
	}
	if s.Run == nil {
		s.Run = &Run{ID: f.Run, Agent: f.Agent, Phase: PhaseRunning, StartCause: f.Cause, Calls: map[events.Status]int64{}}
	}
	run := s.Run
	run.Sequence, run.Stream, run.Digest, run.At = f.Sequence, at.Sequence, at.Digest, f.Time
	if f.Cause.Decision {
		run.Inbound = f.Cause.Sequence
	}
	touched, err := s.applyPayload(f)
	if err != nil {
		return nil, fmt.Errorf("%w: run %s, fact %d (%s): %w", ErrBrokenInvariant, f.Run, f.Sequence, f.Kind(), err)
	}
	if touched != nil {
		if s.Records == nil {
			s.Records = make(map[string]*Record)
		}
		s.Records[touched.ToolCallID] = touched
	}
	return touched, nil
}

// checkNext holds the chain: sequence, digest, time, and nothing after the end.
func (s *State) checkNext(f *events.Fact) error {
	if s.Run == nil {
		if f.Sequence != 1 || f.Kind() != events.KindRunStarted || f.PreviousDigest != "" {
			return errors.New("a history begins with run.started")
		}
		return nil
	}
	switch run := s.Run; {
	case f.Run != run.ID || f.Agent != run.Agent:
		return fmt.Errorf("want a fact of run %s of %s", run.ID, run.Agent)
	case f.Sequence != run.Sequence+1:
		return fmt.Errorf("want sequence %d", run.Sequence+1)
	case f.PreviousDigest != run.Digest:
		return fmt.Errorf("want the digest of fact %d, %s, got %s", run.Sequence, run.Digest, f.PreviousDigest)
	case f.Time.Before(run.At):
		return fmt.Errorf("time goes back from %s", run.At.Format(events.TimeFormat))
	case run.Phase == PhaseTerminated:
		return errors.New("the run has terminated")
	case f.Kind() == events.KindRunStarted:
		return errors.New("a history begins with run.started, once")
	case f.Cause.Decision && f.Cause.Sequence <= run.Inbound:
		return fmt.Errorf("event %d was decided before", f.Cause.Sequence)
	}
	return nil
}

func (s *State) applyPayload(f *events.Fact) (*Record, error) {
	run := s.Run
	if run.Phase != PhaseRunning && asksForARunningRun(f.Kind()) {
		return nil, errors.New("only a running run takes this into its history")
	}
	switch p := f.Payload.(type) {
	case *events.RunStarted:
		run.SessionID, run.Policy, run.Limits = p.SessionID, p.Policy, p.Limits
		run.StartedAt, run.Deadline, run.ExpiresAt = f.Time, p.Deadline, p.ExpiresAt
	case *events.ToolReserved:
		return run.reserve(f, p)
	case *events.ToolRejected:
		run.refused(p.Code, p.Limit)
	case *events.ToolSettled:
		return run.settle(f, p)
	case *events.ModelGranted:
		return nil, s.grant(f, p)
	case *events.ModelRejected:
		run.refused(p.Code, p.Limit)
	case *events.ModelRecorded:
		return nil, s.recordAttempt(f, p)
	case *events.ProgressAccepted:
		return nil, run.accepted(f, p)
	case *events.ProgressInvalid:
		run.wrong(f, p)
	default:
		return nil, run.leave(f)
	}
	return nil, nil
}

// refused notes a limit that a call or an attempt would have passed.
func (r *Run) refused(code events.Code, limit string) {
	if code == events.CodeBudgetExhausted {
		r.Exhausted = LimitName(limit)
	}
}

// leave takes a run through its release and its ending.
func (r *Run) leave(f *events.Fact) error {
	switch p := f.Payload.(type) {
	case *events.RunReleased:
		if r.Released != "" {
			return errors.New("a run is released once")
		}
		r.Released, r.GraceUntil = p.Reason, p.GraceUntil
	case *events.RunEnding:
		if r.Phase != PhaseRunning {
			return errors.New("the outcome is fixed already")
		}
		r.Phase = PhaseEnding
		r.Termination = Termination{Outcome: p.Outcome, Reason: p.Reason, At: f.Time}
	case *events.RunProgress:
		if r.Phase != PhaseEnding || len(r.Open) > 0 || r.ProgressTold {
			return errors.New("progress is told once, after the ending, with every call settled")
		}
		r.ProgressTold = true
	case *events.RunTerminated:
		if r.Phase != PhaseEnding || !r.ProgressTold || p.Outcome != r.Termination.Outcome {
			return errors.New("a run terminates once, as its ending says, after its progress")
		}
		r.Phase = PhaseTerminated
	default:
		return errors.New("this kind of fact belongs to no history")
	}
	return nil
}

// asksForARunningRun reports whether a fact of that kind stands before
// run.ending or nowhere. Those of calls and of the ending check for themselves.
func asksForARunningRun(kind events.Kind) bool {
	switch kind {
	case events.KindToolRejected, events.KindModelGranted, events.KindModelRejected, events.KindModelRecorded,
		events.KindProgressAccepted, events.KindProgressInvalid, events.KindRunReleased:
		return true
	default:
		return false
	}
}

func (r *Run) reserve(f *events.Fact, p *events.ToolReserved) (*Record, error) {
	if r.Phase != PhaseRunning || r.Exhausted != "" || r.Released != "" || r.openCall(p.ToolCallID) != nil {
		return nil, errors.New("only a running run with budget left reserves, and a call id once")
	}
	if err := CheckToolCall(r.Limits, r.Usage, p.Tool, p.RequestBytes); err != nil {
		return nil, err
	}
	addToolCall(&r.Usage, p.Tool, p.RequestBytes)
	record := &Record{
		RunID: r.ID, ToolCallID: p.ToolCallID, Tool: p.Tool, Executor: p.Executor,
		Call: f.Sequence, Status: events.StatusProjecting,
		ReservedAt: f.Time, Deadline: p.Deadline, ExpiresAt: r.ExpiresAt, Cause: f.Cause,
		RequestBytes: p.RequestBytes, RequestDigest: p.RequestDigest, ArgumentsDigest: p.ArgumentsDigest,
	}
	r.Open = append(r.Open, record)
	return record, nil
}

func (r *Run) settle(f *events.Fact, p *events.ToolSettled) (*Record, error) {
	at := slices.IndexFunc(r.Open, func(c *Record) bool { return c.Call == p.Call && c.ToolCallID == p.ToolCallID })
	if at < 0 {
		return nil, fmt.Errorf("call %d is not open", p.Call)
	}
	if !settles(p.Status, p.Evidence) {
		return nil, fmt.Errorf("a call settles as READY with evidence found or none, or as ERROR, not as %s with %s", p.Status, p.Evidence)
	}
	record := *r.Open[at] // the open one may be looked at elsewhere
	r.Open = slices.Delete(r.Open, at, at+1)
	record.Status, record.Evidence, record.Code, record.SettledAt = p.Status, p.Evidence, p.Code, f.Time
	record.RawBytes, record.RawDigest, record.RawStored = p.RawBytes, p.RawDigest, p.RawStored
	record.AgentResult = p.Result
	if f.Cause.Decision {
		record.ResultCause = f.Cause
	}
	counted := int64(len(p.Result))
	if p.RawStored {
		counted += p.RawBytes
	}
	if err := CheckRunBytes(r.Limits, r.Usage, counted); err != nil {
		return nil, err
	}
	r.Usage.RunBytes += counted
	r.Calls[p.Status]++
	r.repeated(&record)
	if p.Limit != "" {
		r.Exhausted = LimitName(p.Limit)
	}
	return &record, nil
}

// settles reports whether a call may end so. PROJECTING is no end, and what a
// READY call found decides what it may be used for.
func settles(status events.Status, evidence events.Evidence) bool {
	if status == events.StatusReady {
		return evidence == events.EvidenceFound || evidence == events.EvidenceNone
	}
	return status == events.StatusError && evidence == events.EvidenceError
}

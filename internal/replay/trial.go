package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"
)

// trial is one run on its way through a verification.
type trial struct {
	id    string
	state harness.State
	rules *harness.Rules // nil while it has not begun, or where its policy is gone

	cause     *events.Inbound // of its last fact
	last      head            // its last fact
	partition int             // of its events; -1 while none was seen
	blamed    uint64          // the last fact that was reported as changed
	told      map[string]bool // keys of the late results that were told

	suspect *suspect    // a fact that is not the expected one; the next one tells why
	behind  []deferred  // answers outside the history that came behind the suspect
	gap     *Difference // facts that are missing, or come later
	beyond  Unchecked   // why nothing more of it is judged
	link    link        // where its beginning has aged out
	ordinal uint64      // of cause, in its partition; 0 where it is not known
}

// deferred is an answer outside a history that waits to be judged.
type deferred struct {
	head    head
	message stream.Message
}

// next is the sequence of the run's next fact.
func (r *trial) next() uint64 {
	if r.state.Run == nil {
		return 1
	}
	return r.state.Run.Sequence + 1
}

func (v *verifier) begin(id string) *trial {
	r, known := v.resting.Peek(id)
	if !known {
		r = &trial{id: id, partition: -1}
	}
	v.resting.Remove(id)
	v.runs[id] = r
	v.report.Runs++
	return r
}

// trial gives the run that a fact or event is about, as it stood before that
// message of RUNS. One that is not held is made again from its facts.
func (v *verifier) trial(ctx context.Context, h head, before uint64) (*trial, error) {
	if r := v.runs[h.run]; r != nil {
		return r, nil
	}
	if !h.outside && h.sequence == 1 {
		return v.begin(h.run), nil
	}
	if r, ok := v.resting.Get(h.run); ok {
		return r, nil
	}
	r := &trial{id: h.run, partition: -1}
	err := v.cfg.Streams.Said(ctx, h.run, before, func(m stream.Message) error { return v.said(ctx, r, &m) })
	switch {
	case errors.Is(err, errHistory):
		r.beyond = UncheckedAfterDifference
	case errors.Is(err, errBeginning):
		r.state, r.rules = harness.State{}, nil
	case err != nil:
		return nil, fmt.Errorf("read the history of run %s: %w", h.run, err)
	}
	if errors.Is(err, errBeginning) || r.state.Run == nil && r.beyond == "" && !h.outside {
		aged, err := v.mayHaveAged(ctx, h.run)
		if err != nil {
			return nil, fmt.Errorf("look for the start of run %s: %w", h.run, err)
		}
		if aged {
			r.beyond = UncheckedHistoryAged // its first facts are those that aged out
		}
	}
	if r.beyond == "" && (r.state.Run == nil || r.state.Run.Phase == harness.PhaseTerminated) {
		v.resting.Add(h.run, r)
		return r, nil
	}
	v.runs[h.run] = r
	v.report.Runs++
	return r, nil
}

var (
	errHistory   = errors.New("history does not hold together")
	errBeginning = errors.New("history does not begin with its first fact")
)

// said takes one earlier message about a run.
func (v *verifier) said(ctx context.Context, r *trial, m *stream.Message) error {
	address, err := v.subjects.ParseFact(m.Subject)
	if err != nil {
		return nil //nolint:nilerr // it was judged, or lies before the stretch
	}
	if address.OutsideKey != "" {
		r.tell(address.Kind, m.Subject)
		return nil
	}
	return v.recorded(ctx, r, m)
}

// tell notes that a late result was told.
func (r *trial) tell(kind events.Kind, subject string) {
	if kind != events.KindToolLate {
		return
	}
	if r.told == nil {
		r.told = make(map[string]bool)
	}
	r.told[subject[strings.LastIndexByte(subject, '.')+1:]] = true
}

// recorded takes a fact as it stands, and holds the chain alone. The error is
// errHistory or errBeginning where it does not hold.
func (v *verifier) recorded(ctx context.Context, r *trial, m *stream.Message) error {
	f, digest, err := events.DecodeFact(v.subjects, m.Subject, m.Header, m.Data)
	if err != nil {
		return fmt.Errorf("%w: %w", errHistory, err)
	}
	if r.state.Run == nil && f.Sequence > 1 {
		return errBeginning
	}
	return v.apply(ctx, r, f, harness.Stored{Sequence: m.Sequence, Digest: digest})
}

// apply takes the run past a fact. The error is errHistory where the fact does
// not follow.
func (v *verifier) apply(ctx context.Context, r *trial, f *events.Fact, at harness.Stored) error {
	touched, err := r.state.Apply(f, at)
	if err != nil {
		return fmt.Errorf("%w: %w", errHistory, err)
	}
	if touched != nil {
		touched.AgentResult = nil // no decision looks at it
	}
	r.state.Completed = nil
	if started, ok := f.Payload.(*events.RunStarted); ok {
		began := Difference{Run: r.id, Sequence: f.Sequence, Kind: f.Kind(), Stream: at.Sequence, Event: f.Cause.Sequence}
		if r.rules, err = v.rulesOf(ctx, started.Policy, began); err != nil {
			return err
		}
		v.in.dropKnown(r.id)
	}
	return nil
}

// ended puts a run aside whose chain is closed. Late events find it there, or
// make it again.
func (v *verifier) ended(ctx context.Context, r *trial) error {
	if r.state.Run.Phase != harness.PhaseTerminated {
		return nil
	}
	v.report.Ended++
	v.report.Events += v.in.dropTicks(r.id)
	delete(v.runs, r.id)
	v.resting.Add(r.id, r)
	if v.store == nil {
		return nil
	}
	return v.compareStore(ctx, r)
}

// breakOff ends the judging of a run: after its first difference nothing that
// follows could be told apart from what that led to.
func (v *verifier) breakOff(r *trial) { v.leave(r, UncheckedAfterDifference) }

// leave ends the judging of a run, whose facts that wait are not checked.
func (v *verifier) leave(r *trial, why Unchecked) {
	waiting := int64(len(r.behind))
	if r.suspect != nil {
		waiting++
	}
	v.report.unchecked(why, waiting)
	v.report.FactsUnchecked += waiting
	r.beyond, r.state, r.rules, r.suspect, r.behind = why, harness.State{}, nil, nil, nil
	v.in.drop(r.id)
	v.runs[r.id] = r
	v.resting.Remove(r.id)
}

// known reports whether a run began with that very event, come again: it asks for
// nothing more, at any time.
func (v *verifier) known(address events.Address, m *stream.Message) bool {
	r := v.runs[address.Run]
	if r == nil {
		r, _ = v.resting.Peek(address.Run)
	}
	if r == nil || r.state.Run == nil || address.Principal != r.state.Run.Agent {
		return false
	}
	in, err := v.in.decode(*m)
	began := r.state.Run.StartCause
	return err == nil && in.ID == began.ID && in.Source == began.Source
}

// tooMany leaves a run of which more events wait than are held.
func (v *verifier) tooMany(run string) {
	r := v.runs[run]
	if r == nil {
		r = &trial{id: run, partition: -1}
	}
	v.report.unchecked(UncheckedTooMany, int64(len(v.in.pending[run])))
	v.leave(r, UncheckedTooMany)
}

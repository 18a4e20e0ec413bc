package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/processor"
	"runledger/internal/stream"
)

// before judges the events of a run before that sequence which no fact has
// answered: the rules must leave them without one.
func (v *verifier) before(ctx context.Context, r *trial, sequence uint64) error {
	for a := v.in.first(r.id, sequence); a != nil; a = v.in.first(r.id, sequence) {
		if err := v.unanswered(ctx, r, a, false); err != nil {
			return err
		}
		v.in.answered(r.id, a.sequence)
	}
	return nil
}

// rest judges the events that are left when all facts have been read.
func (v *verifier) rest(ctx context.Context, r *trial) error {
	for a := v.in.first(r.id, v.cfg.Stretch.EventsTo+1); a != nil; a = v.in.first(r.id, v.cfg.Stretch.EventsTo+1) {
		r.partition = a.partition
		switch {
		case r.beyond != "":
			v.report.unchecked(r.beyond, 1)
		case a.sequence > v.cfg.Stretch.Positions[a.partition]:
			v.report.unchecked(UncheckedUndecided, 1)
		default:
			if err := v.unanswered(ctx, r, a, true); err != nil {
				return err
			}
		}
		if r.beyond == "" {
			v.in.answered(r.id, a.sequence)
			continue
		}
		v.in.drop(r.id)
	}
	return nil
}

// unanswered judges one event that has no fact. last says that no fact of the
// run follows.
func (v *verifier) unanswered(ctx context.Context, r *trial, a *arrival, last bool) error {
	m, err := v.in.message(ctx, a)
	if errors.Is(err, stream.ErrNotFound) { // it was there when IN was read
		v.report.unchecked(UncheckedEventAged, 1)
		return nil
	}
	if err != nil {
		return err
	}
	in, err := v.in.decode(m)
	if err != nil {
		return v.undecodable(ctx, m)
	}
	if a.told {
		return v.told(ctx, in)
	}
	if s := v.cfg.Stretch; r.state.Run == nil && s.FactsKept > 1 && !in.Time.After(s.FactsKeptAt) {
		v.report.unchecked(UncheckedHistoryAged, 1) // what answered it, or the run itself, may have aged out
		return nil
	}
	rules := r.rules
	if r.state.Run == nil {
		all, err := v.book.every(ctx)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			rules = all[0]
		}
	}
	if rules == nil {
		v.report.unchecked(UncheckedPolicyGone, 1)
		return nil
	}
	at := harness.Now(in.Time, r.state.Run, in)
	if r.state.Run != nil {
		if due := v.due(r, in, at); due != nil {
			return v.overdue(ctx, r, in, due, last)
		}
	}
	return v.withoutFact(ctx, r, in, rules, at)
}

// overdue judges an event after which something should have been told. A tick
// may have been passed over while its run was given up, and a later one did it.
func (v *verifier) overdue(ctx context.Context, r *trial, in *events.Inbound, due *events.Fact, last bool) error {
	if in.Verb == events.VerbTick && !last {
		v.report.Events++
		v.report.Ignored++
		return nil
	}
	if given, err := v.givenUp(ctx, in); given || err != nil {
		return err
	}
	v.differ(Difference{
		What: CutOff, Run: r.id, Sequence: due.Sequence, Kind: due.Kind(), Event: in.Sequence, Verb: in.Verb,
		Why: "the event was decided, and what was due then is not there: " + describe(due),
	})
	v.breakOff(r)
	return nil
}

// withoutFact judges an event that leads to nothing, or to a dead letter.
func (v *verifier) withoutFact(ctx context.Context, r *trial, in *events.Inbound, rules *harness.Rules, at time.Time) error {
	decision := rules.Decide(&r.state, in, at)
	if f := decision.Fact; f != nil && r.told[f.OutsideKey] && f.Kind() == events.KindToolLate {
		decision = harness.Decision{DeadLetter: harness.ReasonLateAgain}
	}
	switch {
	case decision.DeadLetter != "":
		return v.letter(ctx, r, in, rules, decision.DeadLetter)
	case decision.Fact == nil:
		v.report.Events++
		v.report.Ignored++
		return nil
	}
	if given, err := v.givenUp(ctx, in); given || err != nil {
		return err
	}
	v.differ(Difference{
		What: Unanswered, Run: r.id, Sequence: decision.Fact.Sequence, Kind: decision.Fact.Kind(), Event: in.Sequence, Verb: in.Verb,
		Why: "the event was decided, and its answer is not there: " + describe(decision.Fact),
	})
	if decision.Fact.Sequence > 0 {
		v.breakOff(r)
		return nil
	}
	r.tell(decision.Fact.Kind(), decision.Fact.Subject(v.subjects))
	return nil
}

// letter holds that an event is kept for the operator, for that reason.
func (v *verifier) letter(ctx context.Context, r *trial, in *events.Inbound, rules *harness.Rules, want harness.Reason) error {
	kept, err := v.cfg.Streams.DeadLetter(ctx, v.subjects.Invalid(in.Role, in.Principal, in.Sequence))
	if err != nil {
		return err
	}
	if kept == nil {
		return v.noLetter(in, want)
	}
	got := reasonOf(kept)
	if got != want && !isGivenUp(got) { // whether the record had expired depends on the instant
		later := rules.Decide(&r.state, in, harness.Now(kept.Time, r.state.Run, in))
		if later.DeadLetter == got {
			want = got
		}
	}
	switch {
	case got == want:
		v.report.Events++
		v.report.Letters++
	case isGivenUp(got):
		v.report.unchecked(UncheckedGivenUp, 1)
	default:
		v.differ(Difference{
			What: Unanswered, Run: in.Run, Event: in.Sequence, Verb: in.Verb,
			Why: fmt.Sprintf("INVALID keeps the event as %.40q, and the rules as %s", got, want),
		})
	}
	return nil
}

func (v *verifier) noLetter(in *events.Inbound, want harness.Reason) error {
	if v.cfg.Stretch.LettersLost {
		v.report.unchecked(UncheckedLetterGone, 1)
		return nil
	}
	v.differ(Difference{
		What: Unanswered, Run: in.Run, Event: in.Sequence, Verb: in.Verb,
		Why: fmt.Sprintf("the event must be kept in INVALID as %s, and is not", want),
	})
	return nil
}

// givenUp reports whether an event was kept because its run could not be worked
// with, and counts it then.
func (v *verifier) givenUp(ctx context.Context, in *events.Inbound) (bool, error) {
	kept, err := v.cfg.Streams.DeadLetter(ctx, v.subjects.Invalid(in.Role, in.Principal, in.Sequence))
	if err != nil || kept == nil || !isGivenUp(reasonOf(kept)) {
		return false, err
	}
	v.report.unchecked(UncheckedGivenUp, 1)
	return true, nil
}

// told judges an event whose agent got INTERNAL_ERROR: it must be kept, with the
// reason for which its run was given up.
func (v *verifier) told(ctx context.Context, in *events.Inbound) error {
	given, err := v.givenUp(ctx, in)
	switch {
	case given || err != nil:
		return err
	case v.cfg.Stretch.LettersLost:
		v.report.unchecked(UncheckedLetterGone, 1)
		return nil
	}
	v.differ(Difference{
		What: Unanswered, Run: in.Run, Event: in.Sequence, Verb: in.Verb,
		Why: fmt.Sprintf("its agent was told %s, and INVALID does not keep the event as one of a run that was given up", events.CodeInternal),
	})
	return nil
}

func isGivenUp(reason harness.Reason) bool {
	return reason == harness.ReasonStoreConflict || reason == harness.ReasonBrokenInvariant
}

func reasonOf(m *stream.Message) harness.Reason {
	return harness.Reason(m.Header.Get(processor.HeaderReason))
}

// unnamed judges an event whose subject names nobody, or no run.
func (v *verifier) unnamed(ctx context.Context, m stream.Message, _ error) error {
	if m.Sequence > v.cfg.Stretch.Positions[v.subjects.PartitionOf(m.Subject)] {
		v.report.unchecked(UncheckedUndecided, 1)
		return nil
	}
	return v.undecodable(ctx, m)
}

// undecodable holds that what is no event is kept for the operator.
func (v *verifier) undecodable(ctx context.Context, m stream.Message) error {
	in := &events.Inbound{Sequence: m.Sequence, Address: events.Address{Role: "unknown", Principal: "unknown"}}
	if address, err := v.subjects.ParseInbound(m.Subject); err == nil {
		in.Address = address
	}
	kept, err := v.cfg.Streams.DeadLetter(ctx, v.subjects.Invalid(in.Role, in.Principal, m.Sequence))
	switch {
	case err != nil:
		return err
	case kept == nil:
		return v.noLetter(in, harness.ReasonUndecodable)
	case reasonOf(kept) != harness.ReasonUndecodable:
		v.differ(Difference{
			What: Unanswered, Event: m.Sequence,
			Why: fmt.Sprintf("INVALID keeps the event as %.40q, and it is %s", reasonOf(kept), harness.ReasonUndecodable),
		})
		return nil
	}
	v.report.Events++
	v.report.Letters++
	return nil
}

// checkEnd holds that nothing is due at the last instant of a history whose last
// event was decided whole.
func (v *verifier) checkEnd(r *trial) {
	run := r.state.Run
	if run == nil || r.beyond != "" || r.rules == nil || r.cause == nil || r.cause.Sequence > v.cfg.Stretch.Positions[r.partition] {
		return
	}
	due := v.due(r, r.cause, run.At)
	if due == nil {
		return
	}
	v.differ(Difference{
		What: CutOff, Run: r.id, Sequence: due.Sequence, Kind: due.Kind(), Event: r.cause.Sequence, Verb: r.cause.Verb,
		Why: fmt.Sprintf("the history ends with fact %d, and what follows by itself is not there: %s", run.Sequence, describe(due)),
	})
}

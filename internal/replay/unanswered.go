package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"
)

// before judges the events of a run before that sequence which no fact has
// answered: the rules must leave them without one.
func (v *verifier) before(ctx context.Context, r *trial, sequence uint64) error {
	for a := v.in.first(r.id, sequence); a != nil; a = v.in.first(r.id, sequence) {
		if !a.early {
			if err := v.unanswered(ctx, r, a, false); err != nil {
				return err
			}
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
		case a.early: // it lies before the stretch
		case !v.isDecided(a.partition, a.sequence, a.ordinal):
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
		v.letters.excuse(a.sequence)
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
	if a.told != 0 {
		return v.told(ctx, in, a.told)
	}
	if s := v.cfg.Stretch; r.state.Run == nil && s.FactsKept > 1 && !in.Time.After(s.FactsKeptAt) {
		v.letters.excuse(a.sequence)
		v.report.unchecked(UncheckedHistoryAged, 1) // what answered it, or the run itself, may have aged out
		return nil
	}
	rules := r.rules
	if r.state.Run == nil {
		all, err := v.everyRules(ctx)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			rules = all[0]
		}
	}
	if rules == nil {
		v.letters.excuse(a.sequence)
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
	given, note, err := v.givenUp(ctx, in, false)
	if given || err != nil {
		return err
	}
	v.differ(Difference{
		What: CutOff, Run: r.id, Sequence: due.Sequence, Kind: due.Kind(), Event: in.Sequence, Verb: in.Verb,
		Why: "the event was decided, and what was due then is not there: " + describe(due) + note,
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
	given, note, err := v.givenUp(ctx, in, false)
	if given || err != nil {
		return err
	}
	v.differ(Difference{
		What: Unanswered, Run: r.id, Sequence: decision.Fact.Sequence, Kind: decision.Fact.Kind(), Event: in.Sequence, Verb: in.Verb,
		Why: "the event was decided, and its answer is not there: " + describe(decision.Fact) + note,
	})
	if decision.Fact.Sequence > 0 {
		v.breakOff(r)
		return nil
	}
	r.tell(decision.Fact.Kind(), decision.Fact.Subject(v.subjects))
	return nil
}

// unnamed judges an event whose subject names nobody, or no run.
func (v *verifier) unnamed(ctx context.Context, m stream.Message, ordinal uint64) error {
	if !v.isDecided(v.subjects.PartitionOf(m.Subject), m.Sequence, ordinal) {
		v.report.unchecked(UncheckedUndecided, 1)
		return nil
	}
	return v.undecodable(ctx, m)
}

// checkEnd holds that nothing is due at the last instant of a history whose last
// event was decided whole.
func (v *verifier) checkEnd(r *trial) {
	run := r.state.Run
	if run == nil || r.beyond != "" || r.rules == nil || r.cause == nil || !v.isDecided(r.partition, r.cause.Sequence, r.ordinal) {
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

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

// history judges a fact of a run's history.
func (v *verifier) history(ctx context.Context, r *trial, h head, m *stream.Message) error {
	inTurn, err := v.inTurn(ctx, r, h, m)
	if err != nil || !inTurn {
		return err
	}
	in, why, err := v.causeOf(ctx, r, h)
	switch {
	case err != nil:
		return err
	case in == nil && why == "":
		return v.unjudged(ctx, r, h, m, UncheckedEventAged)
	case r.state.Run == nil && why == "":
		if err := v.policyOf(ctx, r, m); err != nil {
			return err
		}
	}
	if r.rules == nil && why == "" {
		return v.unjudged(ctx, r, h, m, UncheckedPolicyGone)
	}
	return v.judge(ctx, r, h, m, in, why)
}

// inTurn reports whether the fact has the number of the next one of its run. What
// waited for it is judged before, and what has another number is dealt with.
func (v *verifier) inTurn(ctx context.Context, r *trial, h head, m *stream.Message) (bool, error) {
	if s := r.suspect; s != nil && h.sequence != s.head.sequence {
		if err := v.resolve(ctx, r, m); err != nil {
			return false, err
		}
		if r.beyond != "" {
			v.afterwards(r, h, m)
			return false, nil
		}
	}
	next := r.next()
	switch {
	case r.state.Run != nil && r.state.Run.Phase == harness.PhaseTerminated:
		v.added(h, m, fmt.Sprintf("the run has terminated with fact %d", next-1))
		return false, nil
	case h.sequence == next && r.suspect == nil:
		return true, v.catchUp(ctx, r)
	case h.sequence == next:
		return true, nil
	}
	renumbered, err := v.renumbered(ctx, r, h, m)
	switch {
	case err != nil || renumbered:
	case h.sequence < next:
		v.added(h, m, fmt.Sprintf("the history stands at fact %d, so this one is there twice", next-1))
	default:
		v.missing(r, h, m)
	}
	return false, err
}

// added reports a fact that nothing led to; the history goes on as if it were
// not there.
func (v *verifier) added(h head, m *stream.Message, why string) {
	v.report.FactsDiffer++
	v.differ(Difference{What: Added, Run: h.run, Sequence: h.sequence, Kind: h.kind, Stream: m.Sequence, Event: h.cause, Why: why})
}

// missing notes facts that are left out, or come later.
func (v *verifier) missing(r *trial, h head, m *stream.Message) {
	next := r.next()
	r.gap = &Difference{
		What: Missing, Run: r.id, Sequence: next, Stream: m.Sequence, Event: h.cause,
		Why: fmt.Sprintf("fact %d follows fact %d", h.sequence, next-1),
	}
	if next == 1 {
		r.gap.Why = fmt.Sprintf("the history begins with fact %d", h.sequence)
	}
	v.breakOff(r)
	v.report.factUnchecked(UncheckedAfterDifference)
}

// renumbered tells a fact whose sequence alone was changed, and holds it as a
// suspect under the number that it must have.
func (v *verifier) renumbered(ctx context.Context, r *trial, h head, m *stream.Message) (bool, error) {
	if r.suspect != nil || r.rules == nil {
		return false, nil
	}
	in, why, err := v.causeOf(ctx, r, h)
	if err != nil || why != "" || in == nil {
		return false, err
	}
	want, why, err := v.expected(r, h, in)
	if err != nil || why != "" {
		return false, err
	}
	if fields := want.fields(m); len(fields) != 1 || fields[0].Name != "sequence" {
		return false, nil
	}
	h.sequence = r.next()
	r.suspect = &suspect{head: h, message: *m, want: want, in: in}
	return true, nil
}

// judge compares a fact with what the rules give at its instant.
func (v *verifier) judge(ctx context.Context, r *trial, h head, m *stream.Message, in *events.Inbound, why string) error {
	now := &suspect{head: h, message: *m, in: in, why: why}
	if why == "" {
		var err error
		if now.want, now.why, err = v.expected(r, h, in); err != nil {
			return err
		}
		if now.why == "" {
			now.why, now.early = v.wrongTime(r, h, m, in)
		}
	}
	if now.want == nil || now.why != "" || !now.want.equals(m) {
		if r.suspect == nil {
			r.suspect = now
			return nil
		}
		v.report.factUnchecked(UncheckedAfterDifference) // the second that is not what belongs there
		v.report.FactsDiffer++
		v.differ(r.suspect.changed())
		r.suspect = nil
		v.breakOff(r)
		return nil
	}
	if s := r.suspect; s != nil { // this is the one that belongs there
		v.added(s.head, &s.message, fmt.Sprintf("fact %d that belongs there stands at RUNS %d", h.sequence, m.Sequence))
		r.suspect = nil
		if err := v.catchUp(ctx, r); err != nil {
			return err
		}
	}
	v.report.Checked++
	return v.accept(ctx, r, now.want, m, in)
}

// expected gives what the rules make of the run at the fact's instant: what is
// due, or else the answer to the event. why says what is wrong with the fact's
// very being there.
func (v *verifier) expected(r *trial, h head, in *events.Inbound) (want *expectation, why string, err error) {
	fact := v.due(r, in, h.time)
	if fact == nil {
		if v.in.find(r.id, h.cause) == nil {
			return nil, "its cause was answered before, and nothing was due", nil
		}
		decision := r.rules.Decide(&r.state, in, h.time)
		if fact = decision.Fact; fact == nil || fact.Sequence == 0 {
			return nil, "nothing was due, and its cause leads to " + outcome(decision), nil
		}
	}
	want, err = expect(v.subjects, fact)
	return want, "", err
}

// outcome names what an event leads to that is no fact of the history.
func outcome(d harness.Decision) string {
	switch {
	case d.Fact != nil:
		return describe(d.Fact)
	case d.DeadLetter != "":
		return "a dead letter, " + string(d.DeadLetter)
	}
	return "nothing new"
}

// due gives what follows by itself.
func (v *verifier) due(r *trial, in *events.Inbound, at time.Time) *events.Fact {
	if r.state.Run == nil {
		return nil
	}
	if r.state.Completed == nil && harness.Needs(r.state.Run, nil).Completed {
		r.state.Completed = settled(&r.state)
	}
	return r.rules.Due(&r.state, in, at)
}

// settled gives the settled calls of a run.
func settled(s *harness.State) []harness.Record {
	completed := make([]harness.Record, 0, len(s.Records))
	for _, record := range s.Records {
		if record != nil && record.Status != events.StatusProjecting {
			completed = append(completed, *record) // the rules put them in order
		}
	}
	return completed
}

// wrongTime says what no instant of a decision can be: before its cause was
// stored, after the fact itself was, or, which is early, before the run's last.
func (v *verifier) wrongTime(r *trial, h head, m *stream.Message, in *events.Inbound) (why string, early bool) {
	text := h.time.Format(events.TimeFormat)
	switch {
	case h.time.Before(in.Time.Truncate(time.Millisecond)):
		return fmt.Sprintf("its time %s lies before that of its cause, %s", text, in.Time.UTC().Format(events.TimeFormat)), false
	case h.time.After(m.Time.Add(v.cfg.Skew)):
		return fmt.Sprintf("its time %s lies more than %v after RUNS stored it, %s", text, v.cfg.Skew, m.Time.UTC().Format(events.TimeFormat)), false
	case r.state.Run != nil && h.time.Before(r.state.Run.At):
		return fmt.Sprintf("its time %s lies before that of the fact before it, %s", text, r.state.Run.At.Format(events.TimeFormat)), true
	}
	return "", false
}

// accept takes the run past a fact that is the expected one, and the events
// before it that must have led to none.
func (v *verifier) accept(ctx context.Context, r *trial, want *expectation, m *stream.Message, in *events.Inbound) error {
	if err := v.before(ctx, r, in.Sequence); err != nil {
		return err
	}
	r.cause = in
	r.last = head{run: r.id, agent: want.fact.Agent, kind: want.fact.Kind(), sequence: want.fact.Sequence, cause: in.Sequence, time: want.fact.Time}
	if a := v.in.find(r.id, in.Sequence); a != nil {
		r.ordinal = a.ordinal
	}
	if want.fact.Cause.Decision {
		v.report.Events++
		if err := v.decidedBy(ctx, r.id, in); err != nil {
			return err
		}
	}
	if _, reserved := want.fact.Payload.(*events.ToolReserved); reserved {
		v.reserved(r, want.fact, in, m)
	}
	err := v.apply(ctx, r, want.fact, harness.Stored{Sequence: m.Sequence, Digest: want.encoded.Digest})
	if errors.Is(err, errHistory) {
		v.differ(Difference{
			What: Changed, Run: r.id, Sequence: want.fact.Sequence, Kind: want.fact.Kind(), Stream: m.Sequence, Event: in.Sequence, Verb: in.Verb, Why: err.Error(),
		})
		v.breakOff(r)
		return nil
	}
	if err != nil {
		return err
	}
	return v.ended(ctx, r)
}

// causeOf finds the event of a fact. Without an event and a why it has aged out.
func (v *verifier) causeOf(ctx context.Context, r *trial, h head) (in *events.Inbound, why string, err error) {
	if r.cause != nil && r.cause.Sequence == h.cause {
		return r.cause, "", nil
	}
	if h.cause > v.cfg.Stretch.EventsTo {
		return nil, fmt.Sprintf("its cause, event %d, is none of IN", h.cause), nil
	}
	var m stream.Message
	if a := v.in.find(h.run, h.cause); a != nil {
		m, err = v.in.message(ctx, a)
	} else {
		m, err = v.in.read(ctx, h.cause)
	}
	switch {
	case errors.Is(err, errAged):
		return nil, "", nil
	case errors.Is(err, errGone):
		return nil, fmt.Sprintf("its cause, event %d, is not in IN", h.cause), nil
	case err != nil:
		return nil, "", err
	}
	in, err = v.in.decode(m)
	if err != nil {
		return nil, fmt.Sprintf("its cause, event %d, cannot be decoded: %v", h.cause, err), nil
	}
	if in.Run != h.run {
		return nil, fmt.Sprintf("its cause, event %d, is about run %s", h.cause, in.Run), nil
	}
	r.partition = v.subjects.PartitionOf(m.Subject)
	return in, "", nil
}

// policyOf finds the rules by which a run began: its first fact names them.
func (v *verifier) policyOf(ctx context.Context, r *trial, m *stream.Message) error {
	f, _, err := events.DecodeFact(v.subjects, m.Subject, m.Header, m.Data)
	if err == nil {
		if started, ok := f.Payload.(*events.RunStarted); ok {
			r.rules, err = v.rulesOf(ctx, started.Policy, Difference{Run: r.id, Sequence: 1, Kind: f.Kind(), Stream: m.Sequence, Event: f.Cause.Sequence})
			return err
		}
	}
	// It is no run.started: any rules will say so.
	all, err := v.everyRules(ctx)
	if err == nil && len(all) > 0 {
		r.rules = all[0]
	}
	return err
}

// unjudged takes a fact that cannot be decided again. Its chain must hold.
func (v *verifier) unjudged(ctx context.Context, r *trial, h head, m *stream.Message, why Unchecked) error {
	for a := v.in.first(r.id, h.cause+1); a != nil; a = v.in.first(r.id, h.cause+1) {
		v.letters.excuse(a.sequence)
		v.in.answered(r.id, a.sequence)
	}
	var before harness.Run
	if r.state.Run != nil {
		before = *r.state.Run // it goes on with the fact, right or wrong
	}
	err := v.recorded(ctx, r, m)
	if errors.Is(err, errHistory) {
		d := Difference{What: Changed, Run: r.id, Sequence: h.sequence, Kind: h.kind, Stream: m.Sequence, Event: h.cause, Why: err.Error()}
		if before.Sequence > 0 && attributeText(m.Header[headerPrevious]) != before.Digest {
			d.Why = wrongLink(before.Sequence, before.Stream)
		}
		v.report.FactsDiffer++
		v.differ(d)
		v.breakOff(r)
		return nil
	}
	if err != nil {
		return err
	}
	v.report.factUnchecked(why)
	return v.ended(ctx, r)
}

package replay

import (
	"context"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"
)

// outside judges an answer that belongs to no history. It is no link of a chain
// and nothing is fenced on it, so it is judged by the run as it stands there. One
// that is not as it should be waits for the next fact of the run: if that shows
// that a fact was left out, this is what it led to, and not what is wrong.
func (v *verifier) outside(ctx context.Context, r *trial, h head, m *stream.Message) error {
	if r.suspect != nil || len(r.behind) > 0 {
		r.behind = append(r.behind, deferred{h, *m})
		return nil
	}
	d, err := v.judgeOutside(ctx, r, h, m)
	if err != nil || d == nil {
		return err
	}
	r.behind = append(r.behind, deferred{h, *m})
	v.runs[r.id] = r // it may not be forgotten now
	v.resting.Remove(r.id)
	return nil
}

// catchUp judges the answers that waited, and reports what is wrong with them.
func (v *verifier) catchUp(ctx context.Context, r *trial) error {
	behind := r.behind
	r.behind = nil
	for i := range behind {
		h := behind[i].head
		d, err := v.judgeOutside(ctx, r, h, &behind[i].message)
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		v.report.FactsDiffer++
		v.differ(*d)
		if d.What == Changed {
			r.tell(h.kind, behind[i].message.Subject)
			v.in.answered(r.id, h.cause)
		}
	}
	return nil
}

// judgeOutside gives what is wrong with an answer, nil if nothing is.
func (v *verifier) judgeOutside(ctx context.Context, r *trial, h head, m *stream.Message) (*Difference, error) {
	d := Difference{Run: r.id, Kind: h.kind, Stream: m.Sequence, Event: h.cause}
	in, why, err := v.causeOf(ctx, r, h)
	switch waiting := v.in.find(r.id, h.cause); {
	case err != nil:
		return nil, err
	case why != "":
		d.What, d.Why = Added, why
		return &d, nil
	case in == nil:
		v.report.factUnchecked(UncheckedEventAged)
		return nil, nil
	case waiting == nil:
		if gaveUp, err := v.gaveUpBeside(ctx, h, m, in); gaveUp || err != nil {
			return nil, err
		}
		d.What, d.Verb, d.Why = Added, in.Verb, "its cause was answered before"
		return &d, nil
	}
	candidates := []*harness.Rules{r.rules}
	if r.state.Run == nil {
		if candidates, err = v.everyRules(ctx); err != nil {
			return nil, err
		}
	}
	if len(candidates) == 0 || candidates[0] == nil {
		v.report.factUnchecked(UncheckedPolicyGone)
		v.letters.excuse(h.cause)
		v.in.answered(r.id, h.cause)
		return nil, nil
	}
	d.Verb = in.Verb
	return v.compareOutside(ctx, r, h, m, in, candidates, d)
}

// compareOutside compares an answer with those that the rules may give. What is
// said of a run before it begins does not tell by which policy.
func (v *verifier) compareOutside(ctx context.Context, r *trial, h head, m *stream.Message, in *events.Inbound, candidates []*harness.Rules, d Difference) (*Difference, error) {
	var first *expectation
	other := ""
	for _, rules := range candidates {
		decision := rules.Decide(&r.state, in, h.time)
		if decision.Fact == nil || decision.Fact.Sequence > 0 {
			other = outcome(decision)
			continue
		}
		want, err := expect(v.subjects, decision.Fact)
		if err != nil {
			return nil, err
		}
		if !want.equals(m) {
			if first == nil {
				first = want
			}
			continue
		}
		if why, _ := v.wrongTime(&trial{}, h, m, in); why != "" {
			d.What, d.Why = Changed, why
			return &d, nil
		}
		r.tell(h.kind, m.Subject)
		v.report.Checked++
		v.report.Events++
		return nil, v.decidedBy(ctx, r.id, in)
	}
	internal, err := v.internal(h, m, in)
	switch {
	case err != nil:
		return nil, err
	case internal && v.in.find(r.id, h.cause).told != 0:
		d.What, d.Why = Added, "its agent was told so before"
		return &d, nil
	case internal:
		v.in.find(r.id, h.cause).told = m.Sequence
		v.report.FactsUnchecked++ // what it is shows by whether another answer follows
		return nil, nil
	case first == nil:
		d.What, d.Why = Added, "its cause leads to "+other
		return &d, nil
	}
	d.What, d.Why, d.Fields = Changed, "the rules give another answer", first.fields(m)
	return &d, nil
}

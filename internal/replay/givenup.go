package replay

import (
	"context"
	"fmt"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"
)

// A run that cannot be worked with is given up for a while: each event that comes
// is kept for the operator, with the reason, and then its agent is told
// INTERNAL_ERROR. Such an event is not decided, which nobody can check; that both
// traces are there can be. A second owner may decide it at the same time: then
// the traces stand beside the right answer.

// internal reports whether a fact is the INTERNAL_ERROR that an agent is told of
// its event.
func (v *verifier) internal(h head, m *stream.Message, in *events.Inbound) (bool, error) {
	if in.Role != events.RoleAgent {
		return false, nil
	}
	want, err := expect(v.subjects, harness.Internal(in, h.time))
	return err == nil && want.equals(m), err
}

// gaveUpBeside reports whether a fact is the INTERNAL_ERROR of an event that has
// another answer, and its dead letter is there; it counts it then.
func (v *verifier) gaveUpBeside(ctx context.Context, h head, m *stream.Message, in *events.Inbound) (bool, error) {
	internal, err := v.internal(h, m, in)
	if err != nil || !internal {
		return false, err
	}
	kept, err := v.letterOf(ctx, in)
	if err != nil || kept == nil || !isGivenUp(reasonOf(kept)) {
		return false, err
	}
	v.report.factUnchecked(UncheckedGivenUp)
	return true, nil
}

// decidedBy takes an event out of those that wait, as its answer was found. If
// its agent was told INTERNAL_ERROR as well, the event must be kept as one that
// was given up.
func (v *verifier) decidedBy(ctx context.Context, run string, in *events.Inbound) error {
	a := v.in.find(run, in.Sequence)
	if a == nil {
		return nil
	}
	told := a.told
	v.in.decided(a)
	v.in.answered(run, in.Sequence)
	if told == 0 {
		return nil
	}
	kept, err := v.letterOf(ctx, in)
	switch {
	case err != nil:
		return err
	case kept != nil && isGivenUp(reasonOf(kept)):
		v.report.unchecked(UncheckedGivenUp, 1)
		return nil
	case v.letterLost(in):
		v.report.unchecked(UncheckedLetterGone, 1)
		return nil
	}
	v.report.FactsUnchecked--
	v.report.FactsDiffer++
	v.differ(Difference{
		What: Added, Run: run, Stream: told, Event: in.Sequence, Verb: in.Verb,
		Why: fmt.Sprintf("its agent was told %s beside the right answer, and INVALID does not keep the event as one of a run that was given up", events.CodeInternal),
	})
	return nil
}

// givenUp reports whether an event was kept because its run could not be worked
// with, and counts it then. An agent is told so: an event of one that was not has
// only a letter that says so, and note is what to say of that.
func (v *verifier) givenUp(ctx context.Context, in *events.Inbound, told bool) (given bool, note string, err error) {
	kept, err := v.letterOf(ctx, in)
	switch {
	case err != nil || kept == nil || !isGivenUp(reasonOf(kept)):
		return false, "", err
	case in.Role == events.RoleAgent && !told:
		return false, fmt.Sprintf("; INVALID keeps it as one of a run that was given up, and its agent was not told %s", events.CodeInternal), nil
	}
	v.report.unchecked(UncheckedGivenUp, 1)
	return true, "", nil
}

// told judges an event whose agent got INTERNAL_ERROR and nothing else: it must
// be kept, with the reason for which its run was given up.
func (v *verifier) told(ctx context.Context, in *events.Inbound, at uint64) error {
	given, _, err := v.givenUp(ctx, in, true)
	switch {
	case given || err != nil:
		return err
	case v.letterLost(in):
		v.report.unchecked(UncheckedLetterGone, 1)
		return nil
	}
	v.report.FactsUnchecked--
	v.report.FactsDiffer++
	v.differ(Difference{
		What: Unanswered, Run: in.Run, Stream: at, Event: in.Sequence, Verb: in.Verb,
		Why: fmt.Sprintf("its agent was told %s, and INVALID does not keep the event as one of a run that was given up", events.CodeInternal),
	})
	return nil
}

func isGivenUp(reason harness.Reason) bool {
	return reason == harness.ReasonStoreConflict || reason == harness.ReasonBrokenInvariant
}

package replay

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"runledger/internal/stream"
)

// gap reports messages that a stream does not have between two that it has.
// IN and RUNS let nobody delete or purge, and forget from their beginning only,
// so what is not there above that was taken out by other means. It may have been
// whole runs, in both streams, of which nothing else is left to see.
func (v *verifier) gap(ctx context.Context, name string, after, next uint64) error {
	if !v.cfg.Stretch.Whole || next <= after+1 {
		return nil
	}
	first, err := v.cfg.Streams.First(ctx, name, ">")
	if err != nil {
		return err
	}
	from := after + 1
	if first != nil {
		from = max(from, first.Sequence) // the rest has aged out, perhaps while this was read
	}
	if from >= next {
		return nil
	}
	v.differ(Difference{What: Gap, Why: fmt.Sprintf(
		"%s does not have the %s %s, though it has what was before: it lets nobody delete, so it was changed or restored by other means",
		name, counted(next-from, "message"), span(from, next-1),
	)})
	return nil
}

// counted counts things that have a regular plural.
func counted(n uint64, what string) string {
	if n == 1 {
		return what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func span(first, last uint64) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d to %d", first, last)
}

// checkEnds holds the ends of both streams against the sequences that they have
// given out, and those of IN against the positions.
func (v *verifier) checkEnds(ctx context.Context) error {
	s := v.cfg.Stretch
	if err := v.gap(ctx, stream.StreamRuns, v.lastFact, s.FactsEnd+1); err != nil {
		return err
	}
	if err := v.in.upTo(ctx, s.EventsTo); err != nil {
		return err
	}
	v.report.NoPosition = v.withoutPosition()
	if s.EventsEnd == 0 {
		return nil
	}
	if err := v.gap(ctx, stream.StreamIn, v.in.at, s.EventsEnd+1); err != nil {
		return err
	}
	for _, partition := range slices.Sorted(maps.Keys(s.Positions)) {
		if position := s.Positions[partition]; position > s.EventsEnd {
			v.differ(Difference{What: Gap, Why: fmt.Sprintf(
				"partition %d is decided up to event %d, and %s ends with %d: it has lost its tail", partition, position, stream.StreamIn, s.EventsEnd,
			)})
		}
	}
	return nil
}

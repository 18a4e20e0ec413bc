package replay

import (
	"context"
	"fmt"

	"runledger/internal/stream"
)

// sideBySide reads RUNS in its order, and IN beside it, as far as whoever takes
// the facts asks for.
type sideBySide struct {
	streams  Streams
	stretch  Stretch
	in       *inbound
	progress func(Progress) // may be nil
	found    func() int64   // what Progress.Found counts
}

// read calls fact for each message of RUNS in the stretch, and end once all of
// them were read, while IN can still be read on.
func (r sideBySide) read(ctx context.Context, fact func(context.Context, *stream.Message) error, end func(context.Context) error) error {
	facts, err := r.streams.Facts(ctx, r.stretch.FactsFrom, r.stretch.FactsTo)
	if err != nil {
		return err
	}
	defer facts.Close()
	if r.in.cursor, err = r.streams.Events(ctx, max(r.stretch.From, 1), r.stretch.EventsTo); err != nil {
		return err
	}
	defer r.in.cursor.Close()
	if err := r.facts(ctx, facts, fact); err != nil {
		return err
	}
	return end(ctx)
}

// facts reads RUNS alone, to its end.
func (r sideBySide) facts(ctx context.Context, facts Cursor, fact func(context.Context, *stream.Message) error) error {
	for {
		messages, err := facts.Next(ctx)
		if err != nil {
			return fmt.Errorf("read %s: %w", stream.StreamRuns, err)
		}
		if len(messages) == 0 {
			return nil
		}
		for i := range messages {
			if err := fact(ctx, &messages[i]); err != nil {
				return err
			}
		}
		if s := r.stretch; r.progress != nil {
			r.progress(Progress{Done: messages[len(messages)-1].Sequence - s.FactsFrom + 1, Of: s.FactsTo - s.FactsFrom + 1, Found: r.found()})
		}
	}
}

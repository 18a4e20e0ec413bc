package processor

import (
	"context"
	"errors"
	"fmt"

	"runledger/internal/store"
)

// maxRebuilds bounds how often in a row one projection finds that the store has
// lost writes before the batch is tried again as a whole.
const maxRebuilds = 8

// project brings the store to where the runs are. A run whose store has lost
// writes is loaded anew and projected from there; one whose keys hold something
// else is given up, loudly, and does not stop the others.
func (b *batch) project(ctx context.Context, runs []*hotRun) error {
	for range maxRebuilds {
		behind := runs[:0:0]
		var projections []store.Projection
		for _, h := range runs {
			if h.failed == nil && h.behind(b.w.cfg.Clock()) {
				behind = append(behind, h)
				projections = append(projections, h.projection())
			}
		}
		if len(behind) == 0 {
			return nil
		}
		lost := 0
		for i, err := range b.w.cfg.Store.Project(ctx, projections) {
			again, err := b.projected(ctx, behind[i], err)
			if err != nil {
				return err
			}
			if again {
				lost++
			}
		}
		if lost == 0 {
			return nil
		}
	}
	return fmt.Errorf("the store lost writes %d times in a row", maxRebuilds)
}

// projected takes the answer for one run, and reports whether it must be
// projected again.
func (b *batch) projected(ctx context.Context, h *hotRun, err error) (again bool, _ error) {
	switch {
	case err == nil:
		h.projected, h.changes, h.operations = h.state.Run.Sequence, nil, nil
		return false, nil
	case errors.Is(err, store.ErrBehind):
		b.w.cfg.Metrics.rebuilds.Inc()
		if err := b.rebuild(ctx, h); err != nil {
			return false, b.unlessOfOneRun(h, err)
		}
		return true, nil
	}
	return false, b.unlessOfOneRun(h, fmt.Errorf("project: %w", err))
}

// unlessOfOneRun gives back an error that concerns everybody. One that concerns
// that run alone must not stop the others: its facts stand in the stream, and
// its records wait until an operator has mended the store.
func (b *batch) unlessOfOneRun(h *hotRun, err error) error {
	if _, alone := b.w.reasonOf(h.id, err); !alone {
		return err
	}
	b.w.cfg.Metrics.conflicts.Inc()
	b.w.cfg.Log.Error().Err(err).Str("run", h.id).
		Msg("run cannot be projected; its facts stand in the stream, its records do not")
	b.w.hot.drop(h.id)
	h.failed = err
	return nil
}

// rebuild reads the run from where the store stands, with what the stream adds.
func (b *batch) rebuild(ctx context.Context, h *hotRun) error {
	runs, errs := b.w.cfg.Store.LoadRuns(ctx, []string{h.id})
	if errs[0] != nil {
		return errs[0]
	}
	timer := h.state.Run.TimerAt // stands, whatever the store has forgotten
	*h = hotRun{id: h.id, makeGood: true, schedule: h.schedule}
	h.state.Run = runs[0]
	if runs[0] != nil {
		h.projected = runs[0].Sequence
	}
	if err := b.catchUp(ctx, h); err != nil {
		return err
	}
	if h.state.Run == nil {
		return fmt.Errorf("%w: neither the store nor the stream has run %s any more", errUnreadable, h.id)
	}
	h.state.Run.TimerAt = timer
	return nil
}

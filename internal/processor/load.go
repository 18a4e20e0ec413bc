package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
	"runledger/internal/stream"

	"golang.org/x/sync/errgroup"
)

// load brings what the chains wait for: their runs, the records of the calls
// that their events name, and the completed calls of runs that are ending.
func (b *batch) load(ctx context.Context, needy []*chain) error {
	if err := b.loadRuns(ctx, needy); err != nil {
		return err
	}
	if err := b.loadRecords(ctx, needy); err != nil {
		return err
	}
	return b.loadCompleted(ctx, needy)
}

// loadRuns reads the runs that are not held from the store, and brings them up
// to their last fact in the stream.
func (b *batch) loadRuns(ctx context.Context, needy []*chain) error {
	var cold []*chain
	var ids []string
	for _, c := range needy {
		if !c.run.loaded && c.poison == nil {
			cold, ids = append(cold, c), append(ids, c.run.id)
		}
	}
	if len(cold) == 0 {
		return nil
	}
	runs, errs := b.w.cfg.Store.LoadRuns(ctx, ids)
	failures := make([]error, len(cold))
	var group errgroup.Group
	group.SetLimit(b.w.cfg.Reads)
	for i, c := range cold {
		if errs[i] != nil {
			failures[i] = errs[i]
			continue
		}
		if runs[i] != nil && !c.run.scratch {
			c.run.state.Run, c.run.projected = runs[i], runs[i].Sequence
		}
		group.Go(func() error {
			failures[i] = b.catchUp(ctx, c.run)
			return nil
		})
	}
	_ = group.Wait() // what failed stands in failures, run by run
	for i, c := range cold {
		if err := b.unlessPoison(c, failures[i]); err != nil {
			return err
		}
	}
	return nil
}

// unlessPoison gives back an error that concerns everybody, and gives up a run
// for one that concerns that run alone.
func (b *batch) unlessPoison(c *chain, err error) error {
	reason, alone := b.w.reasonOf(c.run.id, err)
	if !alone {
		return err
	}
	b.poisonChain(c, reason, err)
	return nil
}

// reasonOf tells an error that concerns one run alone, and why.
func reasonOf(err error) (reason harness.Reason, alone bool) {
	switch {
	case errors.Is(err, events.ErrNewer): // held until a newer program takes the partition
		return "", false
	case errors.Is(err, store.ErrConflict):
		return harness.ReasonStoreConflict, true
	case errors.Is(err, harness.ErrBrokenInvariant), errors.Is(err, errUnreadable), errors.Is(err, errAhead):
		return harness.ReasonBrokenInvariant, true
	}
	return "", false
}

// errUnreadable says that the run's own history or policy cannot be read.
var errUnreadable = errors.New("history cannot be read")

// errAhead says that the store has facts of the run that the stream has not.
var errAhead = errors.New("history has lost its end")

// aheadGrace is how long a history may seem to have lost its end until its run
// is given up: a leader that was just elected may be behind. The reader of IN
// waits as long.
const aheadGrace = 5 * time.Second

// reasonOf is reasonOf for one run, which is not given up yet where its history
// has only just seemed to have lost its end.
func (w *Worker) reasonOf(run string, err error) (reason harness.Reason, alone bool) {
	reason, alone = reasonOf(err)
	if !errors.Is(err, errAhead) {
		delete(w.ahead, run)
		return reason, alone
	}
	now := w.cfg.Clock()
	since, known := w.ahead[run]
	if !known {
		since = now
		w.ahead[run] = now
	}
	if now.Sub(since) < aheadGrace {
		return "", false
	}
	delete(w.ahead, run)
	return reason, alone
}

// catchUp applies the facts that the stream has and the run lacks. What they
// imply for the store is noted and projected with the batch: recovery is the
// ordinary path.
func (b *batch) catchUp(ctx context.Context, h *hotRun) error {
	filter, last, err := b.lastFact(ctx, h)
	if err != nil {
		return fmt.Errorf("read the last fact of run %s: %w", h.id, err)
	}
	from := uint64(1)
	if run := h.state.Run; run != nil {
		from = run.Stream + 1
		if run.Phase != harness.PhaseTerminated && (last == nil || last.Sequence < run.Stream) {
			return fmt.Errorf("%w: the store stands at fact %d (%d in the stream), which the stream has not", errAhead, run.Sequence, run.Stream)
		}
	}
	if last != nil && last.Sequence >= from {
		b.w.cfg.Metrics.catchUps.Inc()
		err := b.w.cfg.History.From(ctx, filter, from, func(m stream.Message) error { return b.recovery().replay(ctx, h, m) })
		if err != nil {
			return err
		}
		if h.state.Run == nil {
			return fmt.Errorf("%w: the facts of run %s went while they were read", errUnreadable, h.id)
		}
		b.w.cfg.Log.Info().Str("run", h.id).Uint64("from", h.projected).Uint64("to", h.state.Run.Sequence).
			Msg("run caught up with its facts in the stream")
	}
	h.rules = b.w.cfg.Rulebook.Current()
	if run := h.state.Run; run != nil {
		if h.rules, err = b.w.cfg.Rulebook.Of(ctx, run.Policy); err != nil {
			return err
		}
	}
	h.loaded = true
	return nil
}

// lastFact reads the last fact of the run's history, if it has one, and gives
// the filter of that history. Of a run that has not begun it notes what was said.
func (b *batch) lastFact(ctx context.Context, h *hotRun) (filter string, last *stream.Message, err error) {
	subjects, history := b.w.cfg.Subjects, b.w.cfg.History
	if run := h.state.Run; run != nil {
		filter = subjects.History(run.Agent, h.id)
		last, err = history.Last(ctx, filter)
		return filter, last, err
	}
	filter = subjects.HistoryOfAny(h.id)
	said, err := history.Last(ctx, subjects.AllOf(h.id))
	if err != nil || said == nil {
		return filter, nil, err
	}
	if last, err = history.Last(ctx, filter); err != nil || last != nil {
		return filter, last, err
	}
	f, _, err := events.DecodeFact(subjects, said.Subject, said.Header, said.Data)
	if err != nil {
		return filter, nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	h.before = prelude{stream: said.Sequence, inbound: f.Cause.Sequence}
	return filter, nil, nil
}

// recovery makes runs again from their facts.
func (b *batch) recovery() Recovery {
	return Recovery{Subjects: b.w.cfg.Subjects, History: b.w.cfg.History, Log: b.w.cfg.Log}
}

// cause reads an inbound event again.
func (b *batch) cause(ctx context.Context, sequence uint64) (*events.Inbound, error) {
	return b.recovery().cause(ctx, sequence)
}

// loadRecords reads the records and operations that the chains' events name. A store that
// stands elsewhere than we think has lost writes, or another owner went on:
// the run is then loaded anew.
func (b *batch) loadRecords(ctx context.Context, needy []*chain) error {
	var refs []store.Ref
	var owners []*chain
	for _, c := range needy {
		if c.poison != nil || !c.run.loaded {
			continue
		}
		for _, in := range c.queue {
			for _, ref := range c.run.missing(harness.Needs(c.run.state.Run, in)) {
				refs, owners = append(refs, ref), append(owners, c)
			}
		}
	}
	if len(refs) == 0 {
		return nil
	}
	loaded, err := b.w.cfg.Store.Load(ctx, refs)
	if err != nil {
		return err
	}
	for i, l := range loaded {
		c := owners[i]
		switch {
		case c.poison != nil || !c.run.loaded:
		case errors.Is(l.Err, store.ErrBehind):
			b.rewrite(c)
		case l.Err != nil:
			if err := b.unlessPoison(c, l.Err); err != nil {
				return err
			}
		case l.RunSequence != c.run.projected:
			b.w.cfg.Metrics.reloads.Inc()
			c.reload()
		default:
			c.run.remember(refs[i], l)
		}
	}
	return nil
}

// rewrite lets a run of which the store has lost something be loaded from its
// facts alone, and written anew.
func (b *batch) rewrite(c *chain) {
	b.w.cfg.Metrics.rebuilds.Inc()
	c.reload()
	c.run.scratch = true
}

// loadCompleted reads the completed calls of runs that are about to tell their
// progress, through the store alone, once it stands where the run does.
func (b *batch) loadCompleted(ctx context.Context, needy []*chain) error {
	var ending []*chain
	var runs []*hotRun
	for _, c := range needy {
		if c.poison == nil && c.run.loaded && harness.Needs(c.run.state.Run, nil).Completed && !c.run.completed {
			ending, runs = append(ending, c), append(runs, c.run)
		}
	}
	stood := make([]*harness.Run, len(runs))
	for i, h := range runs {
		stood[i] = h.state.Run
	}
	if err := b.project(ctx, runs); err != nil {
		return err
	}
	for i, c := range ending {
		if c.run.state.Run != stood[i] {
			c.begun = false // it was rebuilt, and may stand further than when the event was begun
		}
		if err := c.run.failed; err != nil {
			reason, _ := reasonOf(err)
			b.poisonChain(c, reason, err)
			continue
		}
		if !b.w.cfg.Clock().Before(c.run.state.Run.ExpiresAt) {
			c.run.completed = true // its records have expired, whatever the store still has
			c.begun = false        // and the event was perhaps begun before they did
			continue
		}
		completed, err := b.w.cfg.Store.Completed(ctx, c.run.id)
		switch {
		case err == nil && len(completed) == c.run.state.Run.Settled():
			c.run.state.Completed, c.run.completed = completed, true
		case err == nil, errors.Is(err, store.ErrBehind): // it may have fallen back since it was projected
			b.rewrite(c)
		default:
			if err := b.unlessPoison(c, err); err != nil {
				return err
			}
		}
	}
	return nil
}

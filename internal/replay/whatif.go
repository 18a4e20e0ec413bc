package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// WhatIfConfig says which stretch is decided by which other policy.
type WhatIfConfig struct {
	Prefix   string
	Streams  Streams
	Policy   *harness.Policy
	Stretch  Stretch
	Window   int64          // as in [VerifyConfig]
	Progress func(Progress) // may be nil
}

// WhatIf decides all events of a stretch by another policy, in memory, and
// counts what comes of it beside what was recorded.
//
// Each event is decided at the instant of its first recorded fact, or at its own
// time where it has none; what is due in between is due at its very instant. A
// run that began before the stretch stands as it was recorded then. What depends
// on what somebody would have done otherwise is not guessed:
//
//   - the result of a call that is not reserved here falls away;
//   - a call that was refused and is reserved here has no result, and what it
//     comes to is counted as NoResult;
//   - a run that was ended, and goes on here, is counted as GOES_ON: its agent
//     stopped because it was told the end.
func WhatIf(ctx context.Context, cfg WhatIfConfig) (*Comparison, error) {
	if cfg.Streams == nil || cfg.Policy == nil {
		return nil, errors.New("what if: Streams and Policy must be set")
	}
	subjects, err := events.NewSubjects(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	w := &whatIf{cfg: cfg, subjects: subjects, rules: RulesOf(cfg.Policy), runs: make(map[string]*course), gone: make(map[string]string), tally: newTally()}
	if w.ended, err = lru.NewLRU(resting, w.forget); err != nil {
		return nil, err
	}
	w.in = newInbound(cfg.Streams, subjects, cmp.Or(cfg.Window, defaultWindow)) // what is due is due without ticks
	err = sideBySide{
		streams: cfg.Streams, stretch: cfg.Stretch, in: w.in, progress: cfg.Progress, found: func() int64 { return w.tally.events },
	}.read(ctx, w.fact, w.finish)
	if err != nil {
		return nil, err
	}
	return w.tally.comparison(), nil
}

type whatIf struct {
	cfg      WhatIfConfig
	subjects events.Subjects
	rules    *harness.Rules
	in       *inbound
	runs     map[string]*course
	ended    *lru.LRU[string, *course]
	gone     map[string]string // runs that were put aside and forgotten, where they are here not as they were recorded
	tally    *tally
	last     time.Time // of the events
}

// fact counts what was recorded, and decides the events up to its cause.
func (w *whatIf) fact(ctx context.Context, m *stream.Message) error {
	f, _, err := events.DecodeFact(w.subjects, m.Subject, m.Header, m.Data)
	if err != nil {
		if address, err := w.subjects.ParseFact(m.Subject); err == nil && address.OutsideKey == "" {
			w.skip(address.Run)
		}
		return nil // "processor replay verify" tells what is wrong
	}
	if f.Cause.Sequence < w.cfg.Stretch.From {
		return nil
	}
	if err := w.in.upTo(ctx, f.Cause.Sequence); err != nil {
		return err
	}
	c, err := w.course(ctx, f, m.Sequence)
	if err != nil {
		return err
	}
	if c.left != "" {
		w.in.drop(c.id)
		return nil
	}
	w.tally.recorded(f)
	if err := w.before(ctx, c, f.Cause.Sequence); err != nil {
		return err
	}
	if a := w.in.find(c.id, f.Cause.Sequence); a != nil {
		err = w.event(ctx, c, a, f.Time)
	} else if c.left == "" { // a tick, or what follows an event
		err = w.timers(c, f.Time)
	}
	if err != nil {
		return err
	}
	w.noted(c, f)
	return nil
}

// noted takes from a recorded fact what the rest of its run is told by.
func (w *whatIf) noted(c *course, f *events.Fact) {
	switch f.Payload.(type) {
	case *events.RunStarted:
		c.begun = true
	case *events.ToolReserved:
		c.calls[f.Sequence] = f.Cause.Sequence
		if here, reserved := c.here[f.Cause.Sequence]; reserved {
			delete(c.noResult, here)
		}
	case *events.RunTerminated:
		w.end(c)
	}
	if c.state.Run != nil && c.state.Run.Phase != harness.PhaseTerminated && c.left == "" { // a refused one that has begun after all
		w.ended.Remove(c.id)
		w.runs[c.id] = c
	}
}

// skip leaves out the rest of a run whose history cannot be read.
func (w *whatIf) skip(id string) {
	if c := w.runs[id]; c != nil && c.left == unreadableHere {
		return
	}
	w.tally.skipped++
	w.in.drop(id)
	w.ended.Remove(id)
	w.runs[id] = &course{id: id, left: unreadableHere}
}

// course finds a run, as it would be at that message of RUNS.
func (w *whatIf) course(ctx context.Context, f *events.Fact, before uint64) (*course, error) {
	if c := w.runs[f.Run]; c != nil {
		return c, nil
	}
	if c, ok := w.ended.Get(f.Run); ok {
		return c, nil
	}
	c := newCourse(f.Run)
	switch left, gone := w.gone[f.Run]; {
	case gone:
		delete(w.gone, f.Run)
		c.left, c.begun = left, true
	case f.Sequence != 1:
		err := w.recordedState(ctx, c, before)
		if errors.Is(err, errHistory) {
			w.skip(c.id)
			return w.runs[c.id], nil
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case c.left == unbegunHere:
		c.left = ""
		w.ended.Add(c.id, c)
	case c.left != "":
		w.ended.Add(c.id, c)
	case c.state.Run != nil && c.state.Run.Phase == harness.PhaseTerminated, f.Sequence == 0 && c.state.Run == nil:
		w.ended.Add(c.id, c)
	default:
		w.runs[c.id] = c
	}
	return c, nil
}

// recordedState takes a run that began before the stretch as it stood then. One
// whose end was recorded, and that had been put aside, is taken with its end.
func (w *whatIf) recordedState(ctx context.Context, c *course, before uint64) error {
	whole := newCourse(c.id)
	err := w.cfg.Streams.Said(ctx, c.id, before, func(m stream.Message) error {
		f, digest, err := events.DecodeFact(w.subjects, m.Subject, m.Header, m.Data)
		if err != nil {
			return fmt.Errorf("%w: %w", errHistory, err)
		}
		at := harness.Stored{Sequence: m.Sequence, Digest: digest}
		if f.Cause.Sequence < w.cfg.Stretch.From {
			if err := c.wasRecorded(f, at); err != nil {
				return err
			}
		}
		return whole.wasRecorded(f, at)
	})
	if err != nil {
		return fmt.Errorf("read the history of run %s: %w", c.id, err)
	}
	if c.state.Run != nil {
		w.tally.before++
	}
	if run := whole.state.Run; run != nil && run.Phase == harness.PhaseTerminated {
		*c = *whole
	}
	return nil
}

// before decides the events of a run that have no fact, each at its own time.
func (w *whatIf) before(ctx context.Context, c *course, sequence uint64) error {
	for a := w.in.first(c.id, sequence); a != nil; a = w.in.first(c.id, sequence) {
		if err := w.event(ctx, c, a, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// end puts a run aside whose end was recorded.
func (w *whatIf) end(c *course) {
	if run := c.state.Run; run != nil && run.Phase != harness.PhaseTerminated {
		c.left = goesOnHere
		w.tally.goesOn()
	}
	delete(w.runs, c.id)
	w.ended.Add(c.id, c)
}

// forget keeps of a run that is put aside no more than what its recorded history
// does not tell. It is called for every run that leaves the ended ones.
func (w *whatIf) forget(id string, c *course) {
	switch {
	case c.left != "":
		w.gone[id] = c.left
	case c.begun && c.state.Run == nil:
		w.gone[id] = unbegunHere
	}
}

// tickLate is how late a tick may come, so that what is due at the very end of
// the stretch has not been recorded yet.
const tickLate = time.Second

// finish decides what is left, as far as it was decided when it was recorded.
func (w *whatIf) finish(ctx context.Context) error {
	if err := w.in.upTo(ctx, w.cfg.Stretch.EventsTo); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(w.in.pending)) {
		c, err := w.course(ctx, &events.Fact{Run: id}, w.cfg.Stretch.FactsTo+1)
		if err != nil {
			return err
		}
		if c.left == unreadableHere {
			w.in.drop(id)
			continue
		}
		for a := w.in.first(id, w.cfg.Stretch.EventsTo+1); a != nil; a = w.in.first(id, w.cfg.Stretch.EventsTo+1) {
			if a.sequence > w.cfg.Stretch.Positions[a.partition] {
				w.in.answered(id, a.sequence)
				continue
			}
			if err := w.event(ctx, c, a, time.Time{}); err != nil {
				return err
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.runs)) {
		if w.runs[id].left != "" {
			continue
		}
		if err := w.timers(w.runs[id], w.last.Add(-tickLate)); err != nil {
			return err
		}
	}
	return nil
}

package replay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"runledger/internal/events"
	"runledger/internal/processor"
	"runledger/internal/store"
	"runledger/internal/stream"
)

// Since writes every run that has a fact in a stretch of RUNS, which must be all
// facts from some instant on.
func (b *Rebuilder) Since(ctx context.Context, facts Cursor, s Stretch) error {
	seen := make(map[string]struct{})
	var ids []string
	err := b.beside(nil, s, nil).facts(ctx, facts, func(ctx context.Context, m *stream.Message) error {
		address, err := b.cfg.Subjects.ParseFact(m.Subject)
		if _, again := seen[address.Run]; err != nil || address.OutsideKey != "" || again {
			return nil //nolint:nilerr // what is no fact names no run
		}
		seen[address.Run] = struct{}{}
		if ids = append(ids, address.Run); len(ids) < b.cfg.Reads {
			return nil
		}
		some := ids
		ids = nil
		return b.Runs(ctx, some)
	})
	if err != nil {
		return err
	}
	return b.Runs(ctx, ids)
}

func (b *Rebuilder) beside(streams Streams, s Stretch, in *inbound) sideBySide {
	return sideBySide{streams: streams, stretch: s, in: in, progress: b.cfg.Progress, found: func() int64 { return b.done.Runs }}
}

// All writes every run whose first fact lies in a stretch. RUNS and IN are read
// once, side by side; of runs that have not ended yet so much is held as
// HoldBytes allows, and what is beyond it is made again run by run afterwards.
func (b *Rebuilder) All(ctx context.Context, streams Streams, s Stretch) error {
	a := &rebuildAll{Rebuilder: b, runs: make(map[string]*rebuilding)}
	a.in = newInbound(streams, b.cfg.Subjects, defaultWindow) // a tick brings no bytes
	return b.beside(streams, s, a.in).read(ctx, a.fact, a.finish)
}

// rebuildAll is all runs on their way back.
type rebuildAll struct {
	*Rebuilder
	in    *inbound
	runs  map[string]*rebuilding // open
	held  int64                  // bytes of these
	ready []store.Projection     // ended, to be written
	size  int64                  // bytes of these
	later []string               // runs that are made again by themselves
}

type rebuilding struct {
	*processor.Rebuilding
	bytes int64
}

func (a *rebuildAll) fact(ctx context.Context, m *stream.Message) error {
	h, err := readHead(a.cfg.Subjects, m)
	if err != nil {
		a.leave(h)
		return nil //nolint:nilerr // making the run again tells what is wrong
	}
	if err := a.in.upTo(ctx, h.cause); err != nil {
		return err
	}
	r := a.runs[h.run]
	if r == nil && h.sequence == 1 {
		r = &rebuilding{Rebuilding: a.recovery.Begin(h.run)}
		a.runs[h.run] = r
	}
	switch {
	case h.outside:
		a.in.answered(h.run, h.cause)
		return nil
	case r == nil: // it has expired, or is made again later
		a.in.drop(h.run)
		return nil
	}
	before := r.bytes
	err = r.Take(*m, func(sequence uint64) (*events.Inbound, error) { return a.cause(ctx, r, h, sequence) })
	a.held += r.bytes - before
	for e := a.in.first(h.run, h.cause+1); e != nil; e = a.in.first(h.run, h.cause+1) {
		a.in.answered(h.run, e.sequence)
	}
	switch {
	case ofOneRun(err):
		a.leave(h)
	case err != nil:
		return fmt.Errorf("make run %s again: %w", h.run, err)
	case !a.cfg.Clock().Before(r.Run().ExpiresAt):
		a.done.Expired++
		a.forget(h.run)
	case h.kind == events.KindRunTerminated:
		return a.enqueue(ctx, h.run)
	case a.held > a.cfg.HoldBytes:
		a.leaveLargest()
	}
	return nil
}

// cause gives an event that waits, or reads it where it does not.
func (a *rebuildAll) cause(ctx context.Context, r *rebuilding, h head, sequence uint64) (*events.Inbound, error) {
	var m stream.Message
	var err error
	if e := a.in.find(h.run, sequence); e != nil {
		m, err = a.in.message(ctx, e)
	} else {
		m, err = a.in.read(ctx, sequence)
	}
	if err != nil {
		return nil, err
	}
	r.bytes += weight(&m)
	return a.in.decode(m)
}

// leave makes a run again by itself later: the error that is met then is told.
func (a *rebuildAll) leave(h head) {
	if h.run == "" || h.outside {
		return
	}
	if _, open := a.runs[h.run]; open {
		a.later = append(a.later, h.run)
	}
	a.forget(h.run)
}

func (a *rebuildAll) leaveLargest() {
	largest, most := "", int64(-1)
	for id, r := range a.runs {
		if r.bytes > most || r.bytes == most && id < largest {
			largest, most = id, r.bytes
		}
	}
	a.later = append(a.later, largest)
	a.forget(largest)
}

func (a *rebuildAll) forget(id string) {
	if r := a.runs[id]; r != nil {
		a.held -= r.bytes
	}
	delete(a.runs, id)
	a.in.drop(id)
}

// enqueue puts a run in line to be written, and writes when enough are.
func (a *rebuildAll) enqueue(ctx context.Context, id string) error {
	r := a.runs[id]
	a.ready, a.size = append(a.ready, r.Projection()), a.size+r.bytes
	a.forget(id)
	if len(a.ready) < a.cfg.BatchRuns && a.size < a.cfg.BatchBytes {
		return nil
	}
	return a.flush(ctx)
}

func (a *rebuildAll) flush(ctx context.Context) error {
	ready := a.ready
	a.ready, a.size = nil, 0
	return a.write(ctx, ready)
}

// finish writes what has not ended, and what was left for later.
func (a *rebuildAll) finish(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(a.runs)) {
		if err := a.enqueue(ctx, id); err != nil {
			return err
		}
	}
	if err := a.flush(ctx); err != nil {
		return err
	}
	return a.Runs(ctx, a.later)
}

// Unexpired gives the instant before which no run can have begun that has not
// expired: all policies that there are say how long a run and its records last.
// It is zero where one of them cannot be read.
func Unexpired(ctx context.Context, policies Policies, now time.Time) (time.Time, error) {
	digests, err := policies.Digests(ctx)
	if err != nil {
		return time.Time{}, err
	}
	book, longest := newRulebook(policies), time.Duration(0)
	for _, digest := range digests {
		p, err := book.of(ctx, digest)
		if err != nil {
			return time.Time{}, err
		}
		if p.rules == nil {
			return time.Time{}, nil
		}
		longest = max(longest, p.rules.Policy.LongestRun+p.rules.Policy.TTL)
	}
	if longest == 0 {
		return time.Time{}, nil
	}
	return now.Add(-longest - clockMargin), nil
}

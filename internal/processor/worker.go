package processor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"

	"github.com/rs/zerolog"
)

// Config is what a worker works with.
type Config struct {
	Subjects  events.Subjects
	Publisher Publisher
	History   History
	Store     Store
	Rulebook  *Rulebook
	Clock     func() time.Time
	Metrics   *Metrics
	Held      *atomic.Int32 // workers whose batch waits to be tried again; may be shared
	Log       zerolog.Logger

	BatchSize int           // events taken through at once, at most
	HotRuns   int           // runs that one worker holds between batches
	Reads     int           // reads of the stream under way at once when runs are loaded
	Backoff   time.Duration // before a failed batch is tried again; doubles up to MaxBackoff
}

// MaxBackoff bounds the wait between two tries of a batch.
const MaxBackoff = 5 * time.Second

// DefaultConfig has the sizes that suit most; the ports must be added.
func DefaultConfig() Config {
	return Config{Clock: time.Now, Held: &atomic.Int32{}, BatchSize: 128, HotRuns: 1024, Reads: 32, Backoff: 50 * time.Millisecond, Log: zerolog.Nop()}
}

// Validate names the field that is wrong, what it got and what it wants.
func (c Config) Validate() error {
	switch {
	case c.Publisher == nil, c.History == nil, c.Store == nil, c.Rulebook == nil, c.Clock == nil, c.Metrics == nil, c.Held == nil:
		return errors.New("worker: Publisher, History, Store, Rulebook, Clock, Metrics and Held must be set")
	case c.BatchSize < 1:
		return fmt.Errorf("worker: BatchSize: want at least 1, got %d", c.BatchSize)
	case c.HotRuns < c.BatchSize:
		return fmt.Errorf("worker: HotRuns: want at least BatchSize (%d), got %d", c.BatchSize, c.HotRuns)
	case c.Reads < 1:
		return fmt.Errorf("worker: Reads: want at least 1, got %d", c.Reads)
	case c.Backoff <= 0 || c.Backoff > MaxBackoff:
		return fmt.Errorf("worker: Backoff: want more than 0 and at most %v, got %v", MaxBackoff, c.Backoff)
	}
	return nil
}

// Worker carries the events of one partition. It is used by one goroutine.
type Worker struct {
	cfg   Config
	hot   hotRuns
	ahead map[string]time.Time // since when the stream seems to have less of a run than the store
}

// NewWorker returns a worker that holds nothing yet.
func NewWorker(cfg Config) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Worker{cfg: cfg, hot: newHotRuns(cfg.HotRuns), ahead: make(map[string]time.Time)}, nil
}

// moveEvery is how long a position may lag behind what is done: one move then
// stands for many batches, and no batch waits for that of the one before. What
// lies between is read again by the next owner, who finds it decided.
const moveEvery = 100 * time.Millisecond

// Run carries events until the context ends, the lease is lost or the reader
// fails; the error says which. A batch that fails is held and tried again: the
// position does not move past what is not done.
func (w *Worker) Run(ctx context.Context, reader Reader, position Position) error {
	way := headway{position: position, log: w.cfg.Log}
	defer way.handOver(ctx)
	for {
		messages, err := w.next(ctx, reader, way.due())
		if err != nil {
			return err
		}
		if len(messages) > 0 {
			if err := w.carry(ctx, messages); err != nil {
				return err
			}
			way.done(messages[len(messages)-1].Sequence)
		}
		if err := way.move(ctx); err != nil {
			return err
		}
	}
}

// next waits for messages, but no longer than until due, where that is set; then
// it gives none.
func (w *Worker) next(ctx context.Context, reader Reader, due time.Time) ([]stream.Message, error) {
	if due.IsZero() {
		return reader.Next(ctx, w.cfg.BatchSize)
	}
	until, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	messages, err := reader.Next(until, w.cfg.BatchSize)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return messages, err
}

// carry takes messages through, however often it needs.
func (w *Worker) carry(ctx context.Context, messages []stream.Message) error {
	held := false
	defer func() {
		if held {
			w.cfg.Held.Add(-1)
		}
	}()
	for backoff := w.cfg.Backoff; ; backoff = min(2*backoff, MaxBackoff) {
		err := w.Step(ctx, messages)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !held {
			held = true
			w.cfg.Held.Add(1)
		}
		w.cfg.Metrics.held.Inc()
		w.cfg.Log.Warn().Err(err).Uint64("from", messages[0].Sequence).Int("events", len(messages)).
			Dur("retry_in", backoff).Msg("batch held")
		if err := wait(ctx, backoff); err != nil {
			return err
		}
	}
}

// Step takes messages through once. After an error the worker holds nothing of
// their runs; calling it again with the same messages is right.
func (w *Worker) Step(ctx context.Context, messages []stream.Message) error {
	start := w.cfg.Clock()
	b := &batch{w: w, messages: messages}
	if err := b.run(ctx); err != nil {
		for _, c := range b.chains {
			w.hot.drop(c.run.id)
		}
		return err
	}
	w.cfg.Metrics.batch(len(messages), w.cfg.Clock().Sub(start), lag(start, messages[0].Time))
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

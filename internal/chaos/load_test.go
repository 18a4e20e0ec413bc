//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"runledger/internal/demo"
	"runledger/internal/demo/demotest"
)

// load plays the recorded runs, round after round, until it is ended.
type load struct {
	w      *world
	rounds atomic.Int64 // that were played, those of earlier loads included
	calls  atomic.Int64
	last   atomic.Int64 // the round after which it ends; 0 for none
	done   chan struct{}
}

// parallel is how many runs a round plays at once.
const parallel = 6

func recorded(w *world) []demo.Transcript {
	w.t.Helper()
	return demotest.Read(w.t, "../e2e/testdata/tau-airline-runs.jsonl.gz")
}

// begin begins to play where so many rounds have been played. A run that cannot
// be played to its end fails the test.
func (w *world) begin(played int64) *load {
	w.t.Helper()
	l := &load{w: w, done: make(chan struct{})}
	l.rounds.Store(played)
	transcripts := recorded(w)
	ctx, cancel := context.WithCancel(w.t.Context())
	go func() {
		defer close(l.done)
		defer cancel()
		for ctx.Err() == nil {
			if last := l.last.Load(); last != 0 && l.rounds.Load() >= last {
				return
			}
			if err := l.round(ctx, transcripts); err != nil {
				w.t.Errorf("round %d: %v", l.rounds.Load()+1, err)
				return
			}
			l.rounds.Add(1)
			w.pass(w.rest)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-l.done })
	return l
}

func (l *load) round(ctx context.Context, transcripts []demo.Transcript) error {
	done := 0
	_, err := demo.Play(ctx, demo.PlayConfig{
		Conn: l.w.conn, Transcripts: transcripts, Parallel: parallel, RunTime: orDefault(l.w.runTime, 20*time.Minute), Step: 3 * time.Minute,
		Suffix: fmt.Sprintf("r%d", l.rounds.Load()+1),
		Progress: func(p demo.Progress) {
			l.calls.Add(int64(p.CallsDone - done))
			done = p.CallsDone
		},
	})
	return err
}

// awaitCalls waits until so many more calls have been answered.
func (l *load) awaitCalls(more int64) {
	l.w.t.Helper()
	want := l.calls.Load() + more
	within(l.w.t, 3*time.Minute, fmt.Sprintf("%d calls are answered", want), func() error {
		if got := l.calls.Load(); got < want && l.going() {
			return fmt.Errorf("%d calls", got)
		}
		return nil
	})
}

func (l *load) going() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// end lets so many more rounds come to their end, with the one at hand, and
// gives how many have been played then.
func (l *load) end(more int64) int64 {
	l.w.t.Helper()
	l.last.Store(l.rounds.Load() + more)
	within(l.w.t, 5*time.Minute, fmt.Sprintf("%d more rounds are played", more), func() error {
		if l.going() {
			return fmt.Errorf("%d rounds of %d, %d calls", l.rounds.Load(), l.last.Load(), l.calls.Load())
		}
		return nil
	})
	return l.rounds.Load()
}

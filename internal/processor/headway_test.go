package processor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"runledger/internal/processor"
	"runledger/internal/stream"
)

// steady is a reader that has a batch of one event every 10 ms, so many times,
// and then nothing.
type steady struct{ next, last uint64 }

func (s *steady) Next(ctx context.Context, _ int) ([]stream.Message, error) {
	if s.next == s.last {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-time.After(10 * time.Millisecond):
		s.next++
		return []stream.Message{{Subject: "harness.v1.part.0.tick.r", Sequence: s.next, Time: time.Now()}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// moves notes where a position was moved to.
type moves struct {
	to   []uint64
	fail error
}

func (m *moves) Move(_ context.Context, position uint64) error {
	if m.fail != nil {
		return m.fail
	}
	m.to = append(m.to, position)
	return nil
}

// run lets a worker run for so long, and gives how it ended.
func run(t *testing.T, batches uint64, position *moves, lasts time.Duration) error {
	t.Helper()
	c := newClocked(t)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	return c.worker.Run(ctx, &steady{last: batches}, position)
}

func TestOneMoveOfAPositionStandsForManyBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m moves
		if err := run(t, 50, &m, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		// The first event is done at 10 ms, and told at 110; the next then at 120 …
		if want := []uint64{11, 22, 33, 44, 50}; !slices.Equal(m.to, want) {
			t.Errorf("got moves to %v, want %v", m.to, want)
		}
	})
}

func TestWhatIsDoneAndNotToldIsToldWhenAPartitionIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m moves
		_ = run(t, 50, &m, 55*time.Millisecond)
		if want := []uint64{5}; !slices.Equal(m.to, want) {
			t.Errorf("got moves to %v, want %v", m.to, want)
		}
	})
}

func TestALostLeaseEndsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := moves{fail: stream.ErrLeaseLost}
		if err := run(t, 50, &m, time.Second); !errors.Is(err, stream.ErrLeaseLost) {
			t.Errorf("got %v, want ErrLeaseLost", err)
		}
	})
}

var _ processor.Position = (*moves)(nil)

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// drainTimeout is what calls in flight get to settle once no more are made.
const drainTimeout = 2 * time.Minute

// peer is a tool with its pipeline set up and running.
type peer interface {
	// take brings calls, one or more, from their intents to settled, and
	// returns then. Many goroutines use it at once.
	take(ctx context.Context) error
	// completed counts the calls of which the tool itself says that they are
	// completed. It may run behind.
	completed(ctx context.Context) (int, error)
	// close ends the pipeline. Nobody may use the peer after it.
	close(ctx context.Context) error
}

// saturate keeps a number of takes in flight, a closed loop, and gives the span
// that counts: without the warm-up, and without the calls that were still open
// at its end, which it waits for.
func saturate(ctx context.Context, p peer, inFlight int, warmup, measured time.Duration) (from, until time.Time, err error) {
	from = time.Now().Add(warmup)
	until = from.Add(measured)
	ctx, cancel := context.WithDeadline(ctx, until.Add(drainTimeout))
	defer cancel()

	var over atomic.Bool
	stop := time.AfterFunc(time.Until(until), func() { over.Store(true) })
	defer stop.Stop()
	group, ctx := errgroup.WithContext(ctx)
	for range inFlight {
		group.Go(func() error {
			for !over.Load() {
				if err := p.take(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return from, until, fmt.Errorf("calls in flight: %w", err)
	}
	return from, until, nil
}

// waitCompleted waits until the tool itself tells of so many completed calls.
func waitCompleted(ctx context.Context, p peer, want int) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		got, err := p.completed(ctx)
		if err != nil {
			return fmt.Errorf("ask the tool what it has completed: %w", err)
		}
		if got == want {
			return nil
		}
		if got > want {
			return fmt.Errorf("the tool tells of %d completed calls, want %d", got, want)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the tool tells of %d completed calls, want %d: %w", got, want, ctx.Err())
		}
	}
}

// settled waits for a call that was intended.
func settled(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

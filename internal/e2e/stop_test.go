package e2e

import (
	"context"
	"syscall"
	"testing"
	"time"

	"runledger/internal/audit"
	"runledger/internal/demo"
	"runledger/internal/events"
	"runledger/internal/policy"
)

func TestProcessorStopsInOrderUnderLoadAndTheOtherCarriesOn(t *testing.T) {
	w := newWorld(t, policy.Airline())
	one := w.serve(t, "one")
	w.serve(t, "two")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stopped := make(chan time.Duration, 1)
	once := false
	_, err := demo.Play(ctx, demo.PlayConfig{
		Conn: w.nats.Conn(t), Transcripts: recorded(t), Parallel: 8,
		Progress: func(p demo.Progress) {
			if once || p.CallsDone < 50 {
				return
			}
			once = true
			began := time.Now()
			if err := syscall.Kill(one.PID(), syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			go func() { <-one.Done(); stopped <- time.Since(began) }()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case took := <-stopped:
		t.Logf("stopped in %v", took.Round(time.Millisecond))
		if one.Err() != nil {
			t.Errorf("exit: %v, want 0", one.Err())
		}
	case <-time.After(10 * time.Second):
		t.Error("not stopped within 10s of SIGTERM")
	}
	report, err := audit.Count(ctx, w.js, events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	wantRecorded(t, report, 1)
}

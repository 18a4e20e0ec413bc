package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"runledger/internal/audit"
	"runledger/internal/demo"
	"runledger/internal/demo/demotest"
	"runledger/internal/events"
	"runledger/internal/policy"
	"runledger/internal/testenv"
)

// recorded reads the 50 recorded runs.
func recorded(t *testing.T) []demo.Transcript {
	t.Helper()
	return demotest.Read(t, "testdata/tau-airline-runs.jsonl.gz")
}

// wantRecorded requires what the recorded runs come to.
func wantRecorded(t *testing.T, r *audit.Report, rounds int64) {
	t.Helper()
	demotest.Want(t, r, rounds)
}

// killing lasts at least this long, and sees at least this many kills.
const (
	killFor  = 12 * time.Second
	minKills = 10
)

// TestRecordedRunsComeOutTheSameWhileAProcessorIsKilledEverySecond plays the
// recorded runs, round after round, against two processors, one of which dies
// by SIGKILL every second and is started again.
func TestRecordedRunsComeOutTheSameWhileAProcessorIsKilledEverySecond(t *testing.T) {
	w := newWorld(t, policy.Airline())
	names := []string{"one", "two"}
	processors := []*testenv.Processor{w.serve(t, names[0]), w.serve(t, names[1])}
	for _, p := range processors { // who has nothing yet is no loss
		awaitServing(t, p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()

	kills := make(chan int)
	stop := make(chan struct{})
	go func() {
		killed := 0
		defer func() { kills <- killed }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
			i := killed % len(processors)
			if err := processors[i].Kill(); err != nil {
				t.Errorf("kill %s: %v", names[i], err)
				return
			}
			<-processors[i].Done()
			killed++
			next, err := w.start(t, names[i])
			if err != nil {
				t.Errorf("start %s again: %v", names[i], err)
				return
			}
			processors[i] = next
		}
	}()

	transcripts, rounds := recorded(t), int64(0)
	for begin := time.Now(); time.Since(begin) < killFor; rounds++ {
		_, err := demo.Play(ctx, demo.PlayConfig{
			Conn: w.nats.Conn(t), Transcripts: transcripts, Suffix: fmt.Sprintf("-r%d", rounds), Parallel: 4,
		})
		if err != nil {
			t.Errorf("round %d: %v", rounds, err)
			break
		}
	}
	close(stop)
	if killed := <-kills; killed < minKills {
		t.Errorf("killed %d times, want at least %d", killed, minKills)
	} else {
		t.Logf("%d rounds, %d kills", rounds, killed)
	}
	report, err := audit.Count(ctx, w.js, events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	wantRecorded(t, report, rounds)
}

package e2e

import (
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"runledger/internal/audit"
	"runledger/internal/demo"
	"runledger/internal/devserver"
	"runledger/internal/events"
	"runledger/internal/policy"
)

// recorded reads the 50 recorded runs.
func recorded(t *testing.T) []demo.Transcript {
	t.Helper()
	file, err := os.Open("testdata/tau-airline-runs.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	transcripts, err := demo.ReadTranscripts(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	return transcripts
}

// What the recorded runs come to; see the demonstration's requirements.
func wantRecorded(t *testing.T, r *audit.Report, rounds int64) {
	t.Helper()
	for what, pair := range map[string][2]int64{
		"runs":                 {r.Runs, 50},
		"calls":                {r.Calls, 282},
		"reserved":             {r.Reserved, 205},
		"ready":                {r.Ready, 205},
		"error":                {r.Error, 0},
		"evidence found":       {r.EvidenceFound, 172},
		"no evidence":          {r.NoEvidence, 33},
		"sequence gaps":        {r.SequenceGaps, 0},
		"duplicate dispatches": {r.DuplicateDispatches, 0},
	} {
		if got, want := pair[0], pair[1]*rounds; got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
	}
	if want := map[string]int64{"NOT_READ_ONLY": 67 * rounds, "DUPLICATE_TOOL_CALL": 10 * rounds}; !maps.Equal(r.Rejected, want) {
		t.Errorf("rejected: got %v, want %v", r.Rejected, want)
	}
	if want := map[string]int64{"SUCCESS": 50 * rounds}; !maps.Equal(r.Terminated, want) {
		t.Errorf("terminated: got %v, want %v", r.Terminated, want)
	}
	for _, violation := range r.Violations {
		t.Error(violation)
	}
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
	processors := []*devserver.Process{w.serve(t, names[0]), w.serve(t, names[1])}
	for i, p := range processors { // who has nothing yet is no loss
		eventually(t, names[i]+" serves", func() bool { return strings.Contains(p.LogTail(1<<16), "took partition") })
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

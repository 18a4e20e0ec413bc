package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"runledger/internal/policy"
	"runledger/internal/testenv"
)

// wantRefused requires that a processor ends by itself and says why.
func wantRefused(t *testing.T, p *testenv.Processor, says ...string) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it serves, want it to refuse")
	}
	for _, text := range says {
		if tail := p.LogTail(4000); !strings.Contains(tail, text) {
			t.Errorf("it says\n%s\nwant %q in it", tail, text)
		}
	}
}

func TestProcessorRefusesAnotherNumberOfPartitionsAndTheOthersGoOn(t *testing.T) {
	w := newWorld(t, policy.Airline())
	w.serve(t, "good")
	h := newHand(t, w)
	h.start(t, "before", time.Minute)
	for _, partitions := range []string{"8", "32"} {
		wantRefused(t, w.serve(t, "bad-"+partitions, "--subjects-partitions", partitions), "made with 16 partitions, asked for "+partitions, "subjects.partitions")
	}
	h.start(t, "after", time.Minute)
}

func TestProcessorRefusesStreamsThatAreNotThere(t *testing.T) {
	w := newWorld(t, policy.Airline())
	if err := w.js.DeleteStream(t.Context(), "RUNS"); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, w.serve(t, "one"), "RUNS: missing", "streams apply")
}

func TestProcessorRefusesPositionsOfAnotherStreamOfTheSameName(t *testing.T) {
	for name, whileServing := range map[string]bool{"made anew while it is stopped": false, "made anew while it serves": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, policy.Airline())
			p := w.serve(t, "one")
			newHand(t, w).start(t, "before", time.Minute)
			eventually(t, "a position", func() bool { return moved(t, w) })
			if !whileServing {
				if err := p.Stop(10 * time.Second); err != nil {
					t.Fatal(err)
				}
			}
			makeInAnew(t, w)
			if !whileServing {
				p = w.serve(t, "one")
			}
			eventually(t, "the refusal", func() bool { return strings.Contains(p.LogTail(1<<16), "stream ends before the position") })
		})
	}
}

// makeInAnew replaces IN by another of its name, which soon has more messages
// than the old one had.
func makeInAnew(t *testing.T, w *world) {
	t.Helper()
	if err := w.js.DeleteStream(t.Context(), "IN"); err != nil {
		t.Fatal(err)
	}
	w.run(t, "streams", "apply", "--nats-url", w.nats.URL, "--policy", w.rules)
	for range 60 {
		if _, err := w.js.Publish(t.Context(), "harness.v1.in.agent.me.before.run.start", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
}

// moved reports whether some partition has a position.
func moved(t *testing.T, w *world) bool {
	t.Helper()
	bucket, err := w.js.KeyValue(t.Context(), "PARTITIONS")
	if err != nil {
		t.Fatal(err)
	}
	for partition := range 16 {
		entry, err := bucket.Get(t.Context(), fmt.Sprintf("lease.%d", partition))
		if err == nil && !strings.Contains(string(entry.Value()), `"position":0`) {
			return true
		}
	}
	return false
}

func TestProcessorWarnsOfAnExecutorWithoutConsumer(t *testing.T) {
	w := newWorld(t, policy.Airline())
	if err := w.js.DeleteConsumer(t.Context(), "DISPATCH", "executor-airline"); err != nil {
		t.Fatal(err)
	}
	p := w.serve(t, "one")
	h := newHand(t, w)
	h.start(t, "served", time.Minute)
	if tail := p.LogTail(8000); !strings.Contains(tail, "executor-airline") {
		t.Errorf("no warning in\n%s", tail)
	}
}

package storetest

import (
	"errors"
	"sync"
	"testing"

	"runledger/internal/harness"
	"runledger/internal/store"
)

func concurrency() map[string]test {
	return map[string]test{
		"TwoWritersOfOneRunLeaveItAsOneWould":           twoWriters,
		"AReaderSeesEachRunAsItStoodAfterOneOfItsFacts": readerBetween,
	}
}

// twoWriters walk through the history in steps of their own, from where each
// thinks the store stands, while it is flushed under them.
func twoWriters(t *testing.T, s Subject) {
	h := start(t, "run")
	for range 25 {
		for _, id := range []string{"a", "b", "c", "d"} {
			h.reserve(id + string(rune('A'+len(h.records)/4)))
		}
		for _, v := range h.records {
			if v.settled == nil {
				h.settle(v.reserved.ToolCallID)
			}
		}
	}
	last := h.run().Sequence
	var writers sync.WaitGroup
	for _, step := range []uint64{1, 3} {
		writers.Go(func() {
			for from := uint64(0); from < last; {
				to := min(from+step, last)
				err := s.Store.Project(t.Context(), []store.Projection{h.stretch(from, to)})[0]
				var behind *store.BehindError
				switch {
				case err == nil:
					from = to
				case errors.As(err, &behind):
					from = behind.At
				default:
					t.Errorf("writer of steps of %d: from %d to %d: %v", step, from, to, err)
					return
				}
			}
		})
	}
	s.Flush(t)
	writers.Wait()
	heal(t, s, h, last-1)
	s.wantAll(t, h)
}

func readerBetween(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.stretch(0, 1))
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			runs, errs := s.Store.LoadRuns(t.Context(), []string{"run"})
			if errs[0] != nil || runs[0] == nil {
				t.Errorf("load: %v, %v", runs[0], errs[0])
				return
			}
			if want := h.at(runs[0].Sequence); !sameCalls(want, runs[0]) {
				t.Errorf("at fact %d: usage %v and %d open calls, want %v and %d", want.Sequence,
					runs[0].Usage, len(runs[0].Open), want.Usage, len(want.Open))
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for n := uint64(1); n < 12; n++ {
		s.mustProject(t, h.stretch(n, n+1))
	}
	close(done)
	reader.Wait()
	s.wantAll(t, h)
}

func sameCalls(a, b *harness.Run) bool {
	return a.Usage.ToolCalls == b.Usage.ToolCalls && len(a.Open) == len(b.Open) && a.Digest == b.Digest
}

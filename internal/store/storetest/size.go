package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"runledger/internal/store"
)

func size() map[string]test {
	return map[string]test{
		"ARecordOf1MiBComesBackWhole":              bigRecord,
		"TwoHundredRunsGoInOneBatch":               manyRuns,
		"ALongHistoryIsWrittenAnewInOneProjection": longHistory,
		"ManyOpenCallsAreKept":                     manyOpen,
	}
}

func bigRecord(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserveBytes("a", bytes.Repeat([]byte("request "), 16<<10))
	h.settleBytes("a", bytes.Repeat([]byte{0, 1, 254, 255}, 256<<10))
	h.reserve("b")
	s.mustProject(t, h.stretch(0, 2))
	s.mustProject(t, h.all(2))
	s.wantAll(t, h)
}

func manyRuns(t *testing.T, s Subject) {
	const runs = 200
	histories := make([]*history, runs)
	first, rest := make([]store.Projection, runs), make([]store.Projection, runs)
	for i := range histories {
		histories[i] = eventful(t, fmt.Sprintf("run-%d", i))
		first[i], rest[i] = histories[i].stretch(0, 5), histories[i].all(5)
	}
	for _, batch := range [][]store.Projection{first, rest} {
		for i, err := range s.Store.Project(t.Context(), batch) {
			if err != nil {
				t.Fatalf("run %d: %v", i, err)
			}
		}
	}
	for _, h := range histories {
		s.wantAll(t, h)
	}
}

// longHistory is more than one script may carry, in number and in bytes.
func longHistory(t *testing.T, s Subject) {
	h := start(t, "run")
	big := bytes.Repeat([]byte("x"), 3<<20)
	for i := range 1200 {
		id := fmt.Sprintf("call-%d", i)
		h.reserve(id)
		switch {
		case i < 10:
			h.settleBytes(id, big)
		case i%3 > 0:
			h.settle(id)
		}
	}
	s.mustProject(t, h.all(0))
	s.wantRun(t, h.at(h.run().Sequence))
	for _, id := range []string{"call-0", "call-9", "call-10", "call-499", "call-500", "call-1199"} {
		s.wantRecord(t, h.full(id))
	}
	got, err := s.Store.Completed(t.Context(), "run")
	if err != nil || len(got) != 804 {
		t.Fatalf("completed %d calls, %v, want 804", len(got), err)
	}
	s.mustProject(t, h.all(0))
	s.wantRun(t, h.at(h.run().Sequence))
	s.Flush(t)
	heal(t, s, h, h.run().Sequence-1)
	s.wantRun(t, h.at(h.run().Sequence))
}

func manyOpen(t *testing.T, s Subject) {
	h := start(t, "run")
	for i := range 450 {
		h.reserve(fmt.Sprintf("call-%d", i))
	}
	s.mustProject(t, h.all(0))
	s.wantRun(t, h.at(451))
	for i := range 450 {
		h.settle(fmt.Sprintf("call-%d", i))
	}
	s.mustProject(t, h.all(451))
	if got := s.run(t, "run").Open; len(got) != 0 {
		t.Fatalf("%d calls are open, want none", len(got))
	}
}

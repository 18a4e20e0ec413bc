package storetest

import (
	"errors"
	"testing"

	"runledger/internal/store"
)

func loss() map[string]test {
	return map[string]test{
		"AfterAFlushEveryRunIsWrittenAnew":                  flushed,
		"AFlushBetweenAnyTwoFactsIsHealed":                  flushedAnywhere,
		"ALostRecordIsNoticedWhenItSettlesAndWrittenWhole":  lostRecord,
		"ALostListIsNoticedWithTheNextFactAndWrittenWhole":  lostList,
		"ALostRunIsWrittenAnewAndItsRecordsStay":            lostRun,
		"ALostRecordOfASettledCallComesBackWhenWrittenAnew": lostSettled,
		"ARecordIsNotTakenForAbsentWhereTheRunWasLost":      lostInBetween,
	}
}

// heal does what a caller does: it projects, and where the store is behind, loads
// the run and projects from there.
func heal(t testing.TB, s Subject, h *history, from uint64) {
	t.Helper()
	err := s.project(t, h.all(from))
	for range 3 {
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrBehind) {
			t.Fatalf("project: %v", err)
		}
		from = 0
		if run := s.run(t, h.run().ID); run != nil {
			from = run.Sequence
		}
		err = s.project(t, h.all(from))
	}
	t.Fatalf("not healed: %v", err)
}

func flushed(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.all(0))
	s.Flush(t)
	h.settle("e")
	wantBehind(t, s.project(t, h.all(12)), 0)
	heal(t, s, h, 12)
	s.wantAll(t, h)
}

func flushedAnywhere(t *testing.T, s Subject) {
	for n := uint64(1); n < 12; n++ {
		s.Flush(t)
		h := eventful(t, "run")
		s.mustProject(t, h.stretch(0, n))
		s.Flush(t)
		heal(t, s, h, n)
		s.wantAll(t, h)
	}
}

func lostRecord(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.reserve("b")
	s.mustProject(t, h.all(0))
	s.LoseRecord(t, "run", "a")
	h.settle("a")
	wantBehind(t, s.project(t, h.all(3)), 0)
	s.wantNoRecord(t, "run", "a")
	heal(t, s, h, 3)
	s.wantAll(t, h)
}

func lostList(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.all(0))
	s.LoseList(t, "run")
	h.refuse()
	wantBehind(t, s.project(t, h.all(12)), 0)
	heal(t, s, h, 12)
	s.wantAll(t, h)
}

func lostRun(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.all(0))
	s.LoseRun(t, "run")
	h.settle("e")
	wantBehind(t, s.project(t, h.all(12)), 0)
	heal(t, s, h, 12)
	s.wantAll(t, h)
}

func lostSettled(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.all(0))
	s.LoseRecord(t, "run", "a")
	s.mustProject(t, h.all(0))
	s.wantAll(t, h)
}

func lostInBetween(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.all(0))
	s.Flush(t)
	loaded, err := s.Store.Load(t.Context(), []store.Ref{{RunID: "run", ToolCallID: "a"}})
	if err != nil || loaded[0].Err != nil {
		t.Fatal(err, loaded)
	}
	if loaded[0].Record != nil || loaded[0].RunSequence != 0 {
		t.Fatalf("got %+v, want no record, of a run that stands nowhere", loaded[0])
	}
}

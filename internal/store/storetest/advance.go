package storetest

import (
	"fmt"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
)

func advance() map[string]test {
	return map[string]test{
		"FactByFactGivesTheSameAsAllAtOnce":             factByFact,
		"AnyStretchAfterAnyOtherGivesTheSame":           anyStretch,
		"ProjectingTheSameAgainChangesNothing":          again,
		"AStretchThatEndsEarlierChangesNothing":         earlier,
		"AStretchThatOverlapsAddsWhatIsMissing":         overlap,
		"AStretchThatBeginsLaterSaysWhereTheStoreIs":    behind,
		"WrittenAnewItIsReplacedWhole":                  anew,
		"AnotherDigestAtTheSameFactIsAConflict":         anotherDigest,
		"AnotherHistoryUnderTheSameNameIsAConflict":     anotherHistory,
		"OneRunThatFailsDoesNotStopTheOthers":           oneOfMany,
		"TheEndingOfARunIsKept":                         ending,
		"TwoStretchesOfOneRunInOneBatchFollowEachOther": twoInABatch,
		"WhatDoesNotHoldTogetherIsRefused":              inconsistent,
	}
}

// eventful is a history with every kind of stretch: 12 facts.
func eventful(t testing.TB, runID string) *history {
	t.Helper()
	h := start(t, runID) // 1
	h.reserve("a")       // 2
	h.reserve("b")       // 3
	h.settle("b")        // 4
	h.refuse()           // 5
	h.reserve("c")       // 6
	h.fail("a")          // 7
	h.reserve("d")       // 8
	h.settle("d")        // 9
	h.reserve("e")       // 10
	h.settle("c")        // 11
	h.refuse()           // 12
	return h
}

func factByFact(t *testing.T, s Subject) {
	steps, once := eventful(t, "steps"), eventful(t, "once")
	for n := range steps.run().Sequence {
		s.mustProject(t, steps.stretch(n, n+1))
		s.wantRun(t, steps.at(n+1))
	}
	s.wantAll(t, steps)
	s.mustProject(t, once.all(0))
	s.wantAll(t, once)
}

// anyStretch projects up to n, and then from every f ≤ n up to every m.
func anyStretch(t *testing.T, s Subject) {
	const facts = 7
	short := func(runID string) *history {
		h := start(t, runID)
		h.reserve("a")
		h.reserve("b")
		h.settle("b")
		h.refuse()
		h.settle("a")
		h.refuse()
		return h
	}
	for n := uint64(1); n <= facts; n++ {
		for from := range n + 1 {
			for to := from + 1; to <= facts; to++ {
				h := short(fmt.Sprintf("run-%d-%d-%d", n, from, to))
				s.mustProject(t, h.stretch(0, n))
				s.mustProject(t, h.stretch(from, to))
				s.wantRun(t, h.at(max(n, to)))
				s.mustProject(t, h.all(max(n, to)))
				s.wantAll(t, h)
			}
		}
	}
}

func again(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.stretch(0, 5))
	for range 3 {
		s.mustProject(t, h.stretch(0, 5))
		s.wantRun(t, h.at(5))
	}
	for range 3 {
		s.mustProject(t, h.all(5))
		s.wantAll(t, h)
	}
	other := h.all(5)
	other.Run.TimerAt = now().Add(time.Hour) // which no fact brought
	s.mustProject(t, other)
	s.wantAll(t, h)
}

func earlier(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.all(0))
	for n := range h.run().Sequence {
		s.mustProject(t, h.stretch(0, n+1))
		s.mustProject(t, h.stretch(n, n+1))
	}
	s.wantAll(t, h)
}

func overlap(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.stretch(0, 6))
	s.mustProject(t, h.stretch(3, 9))
	s.wantRun(t, h.at(9))
	s.mustProject(t, h.stretch(1, 12))
	s.wantAll(t, h)
}

func behind(t *testing.T, s Subject) {
	h := eventful(t, "run")
	wantBehind(t, s.project(t, h.stretch(4, 5)), 0)
	s.mustProject(t, h.stretch(0, 2))
	wantBehind(t, s.project(t, h.stretch(4, 5)), 2)
	s.wantRun(t, h.at(2))
	s.wantNoRecord(t, "run", "b")
	s.mustProject(t, h.all(2))
	s.wantAll(t, h)
}

func anew(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.stretch(0, 8))
	s.mustProject(t, h.all(0))
	s.wantAll(t, h)
	s.mustProject(t, h.all(0))
	s.wantAll(t, h)
}

func anotherDigest(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.stretch(0, 5))
	for _, from := range []uint64{0, 4} {
		p := h.stretch(from, 5)
		p.Run.Digest = "sha256:another"
		wantConflict(t, s.project(t, p))
	}
	s.wantRun(t, h.at(5))
}

func anotherHistory(t *testing.T, s Subject) {
	others := map[string]func(*harness.Run){
		"another event": func(run *harness.Run) { run.StartCause.Sequence++ },
		"another id":    func(run *harness.Run) { run.StartCause.ID += "x" },
		"later":         func(run *harness.Run) { run.StartedAt = run.StartedAt.Add(time.Millisecond) },
	}
	h := eventful(t, "run")
	s.mustProject(t, h.stretch(0, 5))
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			for _, p := range []store.Projection{h.stretch(0, 7), h.stretch(0, 5), h.stretch(5, 7), h.stretch(0, 1)} {
				other(p.Run)
				wantConflict(t, s.project(t, p))
			}
			s.wantRun(t, h.at(5))
			s.wantNoRecord(t, "run", "c")
		})
	}
}

func oneOfMany(t *testing.T, s Subject) {
	first, second, third := eventful(t, "first"), eventful(t, "second"), eventful(t, "third")
	wrong := eventful(t, "wrong").all(0)
	wrong.Records[0].Record.RunID = "first"
	errs := s.Store.Project(t.Context(), []store.Projection{first.all(0), second.stretch(3, 12), wrong, third.all(0)})
	if errs[0] != nil || errs[3] != nil {
		t.Fatalf("the others: %v, %v", errs[0], errs[3])
	}
	wantBehind(t, errs[1], 0)
	wantConflict(t, errs[2])
	s.wantAll(t, first)
	s.wantAll(t, third)
}

func ending(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	s.mustProject(t, h.all(0))
	h.apply(&events.RunEnding{Outcome: events.OutcomeCancelled, Reason: "USER_REQUESTED"})
	s.mustProject(t, h.all(2))
	s.wantRun(t, h.at(3))
	h.fail("a")
	h.apply(&events.RunProgress{})
	s.mustProject(t, h.all(3))
	s.wantRun(t, h.at(5))
	h.apply(&events.RunTerminated{Outcome: events.OutcomeCancelled})
	s.mustProject(t, h.all(5))
	s.wantAll(t, h)
}

func twoInABatch(t *testing.T, s Subject) {
	h := eventful(t, "run")
	errs := s.Store.Project(t.Context(), []store.Projection{h.stretch(0, 3), h.stretch(3, 7), h.stretch(7, 12)})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.wantAll(t, h)
}

func inconsistent(t *testing.T, s Subject) {
	tests := map[string]func(p *store.Projection){
		"no run":                         func(p *store.Projection) { p.Run = nil },
		"a run without a fact":           func(p *store.Projection) { p.Run.Sequence = 0 },
		"from beyond the run":            func(p *store.Projection) { p.From = 99 },
		"a name that no run has":         func(p *store.Projection) { p.Run.ID = "a b" },
		"no record":                      func(p *store.Projection) { p.Records[0].Record = nil },
		"another run's record":           func(p *store.Projection) { p.Records[0].Record.RunID = "another" },
		"a record twice":                 func(p *store.Projection) { p.Records[1] = p.Records[0] },
		"no transition":                  func(p *store.Projection) { p.Records[0].Reserved, p.Records[0].Settled = false, false },
		"settled and still open":         func(p *store.Projection) { p.Records[0].Record.Status = events.StatusProjecting },
		"an unknown status":              func(p *store.Projection) { p.Records[0].Record.Status = "DONE" },
		"a reservation after the run":    func(p *store.Projection) { p.Records[0].Record.Call = 99 },
		"a settled call left out":        func(p *store.Projection) { p.Records = p.Records[1:] },
		"an open call left out":          func(p *store.Projection) { p.Run.Open = append(p.Run.Open, p.Run.Open[0]) },
		"a request of another length":    func(p *store.Projection) { p.Records[0].Record.Request = []byte("x") },
		"a response of another length":   func(p *store.Projection) { p.Records[1].Record.RawResponse = []byte("x") },
		"a response that is not stored":  func(p *store.Projection) { p.Records[0].Record.RawResponse = []byte("x") },
		"a tool call id that no key has": func(p *store.Projection) { p.Records[0].Record.ToolCallID = "a b" },
		"a name that is not UTF-8":       func(p *store.Projection) { p.Records[4].Record.Tool = "\xff" },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			h := eventful(t, "run")
			p := h.all(0)
			spoil(&p)
			wantConflict(t, s.project(t, p))
			if got := s.run(t, "run"); got != nil {
				t.Errorf("it was written all the same")
			}
		})
	}
}

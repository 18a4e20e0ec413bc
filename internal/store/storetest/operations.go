package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
)

func operations() map[string]test {
	return map[string]test{
		"EveryFieldOfAnOperationComesBackAsItWas":                everyFieldOfAnOperation,
		"AnOperationComesWithTheFactAtWhichItsRunStands":         operationWithSequence,
		"ARefNamesARecordOrAnOperationAndNotBoth":                refOfOne,
		"AnyStretchAfterAnyOtherGivesTheSame":                    anyOperations,
		"ACallerWhoKnowsNoEarlierOperationsLosesNothing":         rebuiltOperations,
		"AnEarlierEventThatTheCallerDoesNotKnowStays":            unknownCauses,
		"WrittenAnewNothingOlderStays":                           anewOperations,
		"LostOperationsAreNoticedWithTheNextFactAndWrittenWhole": lostOperations,
		"AnOperationIsNotTakenForAbsentWhereTheyWereLost":        lostOperationsLoaded,
		"OperationIDsAreKeptByteForByte":                         operationIDs,
		"AnIDThatNoOperationCanHaveHasNone":                      impossibleOperations,
		"ThousandsOfOperationsAreWrittenAnewWhole":               manyOperations,
		"TheyComeWithAProjectionThatGoesInStages":                stagedOperations,
		"WhatDoesNotHoldTogetherIsRefused":                       inconsistentOperations,
	}
}

// talkative is a history of model operations, and a call between: 9 facts.
func talkative(t testing.TB, runID string) *history {
	t.Helper()
	h := start(t, runID)                       // 1
	h.grant("a", 1)                            // 2
	h.record("a", 1, events.FailureTransport)  // 3
	h.grant("b", 1)                            // 4
	h.grant("a", 2)                            // 5
	h.reserve("a")                             // 6
	h.record("a", 2, "")                       // 7
	h.record("b", 1, events.FailureNoEvidence) // 8
	h.grant("c", 1)                            // 9
	return h
}

const talkativeFacts = 9

func everyFieldOfAnOperation(t *testing.T, s Subject) {
	all := fullOperations()
	for i := range reflect.TypeFor[harness.ModelOperation]().NumField() {
		set := false
		for _, op := range all {
			set = set || !reflect.ValueOf(*op).Field(i).IsZero()
		}
		if !set {
			t.Fatalf("the test leaves %s at zero", reflect.TypeFor[harness.ModelOperation]().Field(i).Name)
		}
	}
	run, open := fullRun()
	s.mustProject(t, store.Projection{Run: run, Operations: all, Records: []store.RecordChange{
		{Record: fullRecord(2), Reserved: true, Settled: true}, {Record: open, Reserved: true},
	}})
	for _, op := range all {
		s.wantOperation(t, "full", op)
	}
}

func operationWithSequence(t *testing.T, s Subject) {
	h := talkative(t, "run")
	s.mustProject(t, h.stretch(0, 6))
	loaded, err := s.Store.Load(t.Context(), []store.Ref{
		{RunID: "run", OperationID: "none"}, {RunID: "run", OperationID: "a"}, {RunID: "run", ToolCallID: "a"},
		{RunID: "nobody", OperationID: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := loaded[0]; got != (store.Loaded{RunSequence: 6}) {
		t.Errorf("an operation that is not there: got %+v, want none and fact 6", got)
	}
	if got := loaded[1]; got.Operation == nil || got.Operation.Attempts != 2 || !got.Operation.Open || got.Record != nil || got.RunSequence != 6 {
		t.Errorf("an operation that is there: got %+v, want its second attempt, open, and fact 6", got)
	}
	if got := loaded[2]; got.Record == nil || got.Record.Call != 6 || got.Operation != nil || got.RunSequence != 6 {
		t.Errorf("the record of the same name: got %+v, want that of fact 6, and fact 6", got)
	}
	if got := loaded[3]; got != (store.Loaded{}) {
		t.Errorf("an operation of no run: got %+v, want none and fact 0", got)
	}
}

func refOfOne(t *testing.T, s Subject) {
	h := talkative(t, "run")
	s.mustProject(t, h.all(0))
	loaded, err := s.Store.Load(t.Context(), []store.Ref{
		{RunID: "run"}, {RunID: "run", ToolCallID: "a", OperationID: "a"}, {RunID: "run", OperationID: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantConflict(t, loaded[0].Err)
	wantConflict(t, loaded[1].Err)
	if loaded[2].Err != nil || loaded[2].Operation == nil {
		t.Errorf("the other one: got %+v, want an operation", loaded[2])
	}
}

// anyOperations projects up to n, and then from every f ≤ n up to every m.
func anyOperations(t *testing.T, s Subject) {
	for n := uint64(1); n <= talkativeFacts; n++ {
		for from := range n + 1 {
			for to := from + 1; to <= talkativeFacts; to++ {
				h := talkative(t, fmt.Sprintf("run-%d-%d-%d", n, from, to))
				s.mustProject(t, h.stretch(0, n))
				s.mustProject(t, h.stretch(from, to))
				stands := max(n, to)
				s.wantRun(t, h.at(stands))
				for _, op := range h.operationsIn(0, stands) {
					s.wantOperation(t, h.run().ID, op)
				}
				s.mustProject(t, h.all(stands))
				s.wantAll(t, h)
			}
		}
	}
}

// rebuiltOperations goes on from any fact to any later one with a state that
// knows the run and none of its operations, as a caller does who has only just
// loaded it.
func rebuiltOperations(t *testing.T, s Subject) {
	for from := uint64(1); from < talkativeFacts; from++ {
		for to := from + 1; to <= talkativeFacts; to++ {
			h := talkative(t, fmt.Sprintf("run-%d-%d", from, to))
			s.mustProject(t, h.stretch(0, from))
			state := harness.State{Run: s.run(t, h.run().ID)}
			for _, f := range h.facts[from:to] {
				if _, err := state.Apply(f, stored(f)); err != nil {
					t.Fatal(err)
				}
			}
			p := h.stretch(from, to)
			for i, op := range p.Operations {
				p.Operations[i] = state.Operations[op.ID]
			}
			s.mustProject(t, p)
			for _, op := range h.operationsIn(0, to) {
				s.wantOperation(t, h.run().ID, op)
			}
		}
	}
}

func unknownCauses(t *testing.T, s Subject) {
	h := talkative(t, "run")
	s.mustProject(t, h.stretch(0, 3))
	granted := h.stretch(3, 5) // a is granted anew, and b
	for _, op := range granted.Operations {
		op.Reported = events.Cause{}
	}
	s.mustProject(t, granted)
	recorded := h.stretch(5, 8)
	for _, op := range recorded.Operations {
		op.Granted = events.Cause{}
	}
	s.mustProject(t, recorded)
	for _, op := range h.operationsIn(0, 8) {
		if op.Granted == (events.Cause{}) || op.Reported == (events.Cause{}) {
			t.Fatalf("the history of the test leaves an event of %s out", op.ID)
		}
		s.wantOperation(t, "run", op)
	}
}

func anewOperations(t *testing.T, s Subject) {
	h := talkative(t, "run")
	s.mustProject(t, h.all(0))
	s.mustProject(t, h.all(0))
	s.wantAll(t, h)
	s.LoseRun(t, "run")
	s.mustProject(t, h.stretch(0, 2))
	s.wantOperation(t, "run", h.operationsIn(0, 2)[0])
	s.wantNoOperation(t, "run", "b")
	s.LoseRun(t, "run")
	s.mustProject(t, h.stretch(0, 1))
	s.wantNoOperation(t, "run", "a")
	s.mustProject(t, h.all(1))
	s.wantAll(t, h)
}

func lostOperations(t *testing.T, s Subject) {
	for n := uint64(2); n < talkativeFacts; n++ { // the fact that comes next touches operations, or none
		s.Flush(t)
		h := talkative(t, "run")
		s.mustProject(t, h.stretch(0, n))
		s.LoseOperations(t, "run")
		wantBehind(t, s.project(t, h.stretch(n, n+1)), 0)
		heal(t, s, h, n)
		s.wantAll(t, h)
	}
}

func lostOperationsLoaded(t *testing.T, s Subject) {
	h, other := talkative(t, "run"), talkative(t, "other")
	s.mustProject(t, h.stretch(0, 6))
	s.mustProject(t, other.all(0))
	s.LoseOperations(t, "run")
	for _, id := range []string{"a", "none"} {
		err := s.load(t, store.Ref{RunID: "run", OperationID: id}).Err
		if !errors.Is(err, store.ErrBehind) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v, want that the store is behind", err)
		}
	}
	if got := s.load(t, store.Ref{RunID: "run", ToolCallID: "a"}); got.Record == nil || got.Err != nil {
		t.Errorf("a record of that run: got %+v, want it", got)
	}
	if got := s.load(t, store.Ref{RunID: "run", ToolCallID: "none"}); !errors.Is(got.Err, store.ErrBehind) {
		t.Errorf("a record that is not there: got %+v, want that nobody can say it never was", got)
	}
	s.wantAll(t, other)
	heal(t, s, h, 6)
	s.wantAll(t, h)
}

func operationIDs(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("call")
	ids := []string{
		"op_1", "a/b", "a|b", "..", "/", "fc_0+=~@-_", "a:b", "::", "v", "granted", "reported", "call", "ops", "0",
		strings.Repeat("x", 2048),
	}
	for _, id := range ids {
		h.grant(id, 1)
	}
	s.mustProject(t, h.all(0))
	s.wantAll(t, h)
	for _, id := range ids {
		h.record(id, 1, events.FailureTimeout)
	}
	s.mustProject(t, h.all(uint64(2+len(ids))))
	s.wantAll(t, h)
}

func impossibleOperations(t *testing.T, s Subject) {
	h := talkative(t, "run")
	s.mustProject(t, h.all(0))
	for _, id := range []string{" ", "a granted", "a reported", "a\n", "ä", strings.Repeat("x", 2049)} {
		got := s.load(t, store.Ref{RunID: "run", OperationID: id})
		if got != (store.Loaded{RunSequence: talkativeFacts}) {
			t.Errorf("%.20q: got %+v, want no operation and fact %d", id, got, talkativeFacts)
		}
	}
}

func manyOperations(t *testing.T, s Subject) {
	h := start(t, "run")
	for i := range 3000 {
		id := fmt.Sprintf("op-%d", i)
		h.grant(id, 1)
		h.record(id, 1, "")
	}
	s.mustProject(t, h.all(0))
	s.wantRun(t, h.at(6001))
	all := h.operationsIn(0, 6001)
	for _, i := range []int{0, 33, 34, 1499, 2999} {
		s.wantOperation(t, "run", all[i])
	}
	h.grant("op-3000", 1)
	s.mustProject(t, h.all(6001))
	s.wantOperation(t, "run", h.operationsIn(6001, 6002)[0])
	s.wantOperation(t, "run", all[0])
}

func stagedOperations(t *testing.T, s Subject) {
	h := talkative(t, "run")
	for i := range 600 {
		h.reserve(fmt.Sprintf("call-%d", i))
	}
	s.mustProject(t, h.stretch(0, 3))
	s.mustProject(t, h.all(3))
	s.wantAll(t, h)
	s.Flush(t)
	heal(t, s, h, 3)
	s.wantAll(t, h)
}

func inconsistentOperations(t *testing.T, s Subject) {
	tests := map[string]func(p *store.Projection){
		"no operation": func(p *store.Projection) { p.Operations[0] = nil },
		"an operation twice": func(p *store.Projection) {
			p.Operations, p.Run.Usage.ModelCalls = append(p.Operations, p.Operations[1]), 5
		},
		"an operation left out":            func(p *store.Projection) { p.Operations = p.Operations[1:] },
		"an id that none can have":         func(p *store.Projection) { p.Operations[0].ID = "a b" },
		"no kind of operation":             func(p *store.Projection) { p.Operations[0].Operation = "" },
		"a kind with a space":              func(p *store.Projection) { p.Operations[0].Operation = "A B" },
		"a failure with a space":           func(p *store.Projection) { p.Operations[0].Failure = "A B" },
		"no attempt":                       func(p *store.Projection) { p.Operations[1].Attempts = 0 },
		"one attempt more than were made":  func(p *store.Projection) { p.Operations[0].Attempts++ },
		"an attempt both open and done":    func(p *store.Projection) { p.Operations[2].Succeeded = true },
		"an event that is not UTF-8":       func(p *store.Projection) { p.Operations[0].Granted.ID = "\xff" },
		"a repetition that never happened": func(p *store.Projection) { p.Run.Recent = []harness.Repetition{{Key: 1}} },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			p := talkative(t, "run").all(0)
			spoil(&p)
			wantConflict(t, s.project(t, p))
			if got := s.run(t, "run"); got != nil {
				t.Errorf("it was written all the same")
			}
		})
	}
}

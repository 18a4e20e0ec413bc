package storetest

import (
	"errors"
	"reflect"
	"testing"

	"runledger/internal/harness"
	"runledger/internal/store"

	"github.com/google/go-cmp/cmp"
)

func (s Subject) project(t testing.TB, p store.Projection) error {
	t.Helper()
	errs := s.Store.Project(t.Context(), []store.Projection{p})
	if len(errs) != 1 {
		t.Fatalf("Project gave %d errors for one projection", len(errs))
	}
	return errs[0]
}

func (s Subject) mustProject(t testing.TB, p store.Projection) {
	t.Helper()
	if err := s.project(t, p); err != nil {
		t.Fatalf("project run %s from %d to %d: %v", p.Run.ID, p.From, p.Run.Sequence, err)
	}
}

// diff tells how two values differ. cmp alone takes long over large texts.
func diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// wantBehind expects that the store says where it stands.
func wantBehind(t testing.TB, err error, at uint64) {
	t.Helper()
	var behind *store.BehindError
	if !errors.As(err, &behind) || !errors.Is(err, store.ErrBehind) {
		t.Fatalf("got %v, want that the store is behind", err)
	}
	if behind.At != at {
		t.Fatalf("the store says it stands at %d, want %d", behind.At, at)
	}
}

func wantConflict(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
}

func (s Subject) run(t testing.TB, runID string) *harness.Run {
	t.Helper()
	runs, errs := s.Store.LoadRuns(t.Context(), []string{runID})
	if errs[0] != nil {
		t.Fatalf("load run %s: %v", runID, errs[0])
	}
	return runs[0]
}

func (s Subject) wantRun(t testing.TB, want *harness.Run) {
	t.Helper()
	if d := diff(want, s.run(t, want.ID)); d != "" {
		t.Fatalf("run (-want +got):\n%s", d)
	}
}

func (s Subject) record(t testing.TB, runID, toolCallID string) *harness.Record {
	t.Helper()
	record, err := s.Store.Record(t.Context(), runID, toolCallID)
	if err != nil {
		t.Fatalf("load record: %v", err)
	}
	return record
}

func (s Subject) wantRecord(t testing.TB, want *harness.Record) {
	t.Helper()
	if d := diff(want, s.record(t, want.RunID, want.ToolCallID)); d != "" {
		t.Fatalf("record (-want +got):\n%s", d)
	}
	loaded, err := s.Store.Load(t.Context(), []store.Ref{{RunID: want.RunID, ToolCallID: want.ToolCallID}})
	if err != nil || loaded[0].Err != nil {
		t.Fatalf("load record without bytes: %v, %v", err, loaded)
	}
	if d := diff(light(want), loaded[0].Record); d != "" {
		t.Fatalf("record without bytes (-want +got):\n%s", d)
	}
}

func (s Subject) wantNoRecord(t testing.TB, runID, toolCallID string) {
	t.Helper()
	if got := s.record(t, runID, toolCallID); got != nil {
		t.Fatalf("there is a record of fact %d, want none", got.Call)
	}
}

func (s Subject) load(t testing.TB, ref store.Ref) store.Loaded {
	t.Helper()
	loaded, err := s.Store.Load(t.Context(), []store.Ref{ref})
	if err != nil || len(loaded) != 1 {
		t.Fatalf("load: %v, %v, want one answer", loaded, err)
	}
	return loaded[0]
}

func (s Subject) wantOperation(t testing.TB, runID string, want *harness.ModelOperation) {
	t.Helper()
	got := s.load(t, store.Ref{RunID: runID, OperationID: want.ID})
	if got.Err != nil || got.Record != nil {
		t.Fatalf("load an operation: %+v", got)
	}
	if d := diff(want, got.Operation); d != "" {
		t.Fatalf("operation (-want +got):\n%s", d)
	}
}

func (s Subject) wantNoOperation(t testing.TB, runID, id string) {
	t.Helper()
	if got := s.load(t, store.Ref{RunID: runID, OperationID: id}); got.Operation != nil || got.Err != nil {
		t.Fatalf("got %+v, %v, want no operation", got.Operation, got.Err)
	}
}

// wantCompleted expects these calls, in this order, as the history has them.
func (s Subject) wantCompleted(t testing.TB, h *history, ids ...string) {
	t.Helper()
	got, err := s.Store.Completed(t.Context(), h.run().ID)
	if err != nil {
		t.Fatalf("load completed calls: %v", err)
	}
	want := make([]harness.Record, 0, len(ids))
	for _, id := range ids {
		want = append(want, *h.light(id))
	}
	if d := diff(want, got); d != "" {
		t.Fatalf("completed calls (-want +got):\n%s", d)
	}
}

// wantAll expects that the store holds the history and nothing older or newer.
func (s Subject) wantAll(t testing.TB, h *history) {
	t.Helper()
	s.wantRun(t, h.at(h.run().Sequence))
	var settled []string
	for _, v := range h.records {
		id := v.reserved.ToolCallID
		s.wantRecord(t, h.full(id))
		if v.settled != nil {
			settled = append(settled, id)
		}
	}
	s.wantCompleted(t, h, settled...)
	for _, op := range h.operationsIn(0, h.run().Sequence) {
		s.wantOperation(t, h.run().ID, op)
	}
}

package storetest

import (
	"fmt"
	"testing"

	"runledger/internal/harness"

	"github.com/google/go-cmp/cmp"
)

func completed() map[string]test {
	return map[string]test{
		"CallsComeInOrderOfReservationWhateverTheOrderOfSettlement": completedInOrder,
		"ARunWithoutSettledCallsHasNone":                            completedNone,
		"ACallWhoseRecordIsGoneComesAsItsIdentity":                  completedGone,
		"ARunThatTheStoreHasLostIsBehindAndNotEmpty":                completedLost,
		"ThousandsOfCallsComeWhole":                                 completedMany,
	}
}

func completedInOrder(t *testing.T, s Subject) {
	h := start(t, "run")
	for _, id := range []string{"a", "b", "c", "d"} {
		h.reserve(id)
	}
	for _, id := range []string{"d", "b", "a"} {
		h.settle(id)
		s.mustProject(t, h.all(0))
	}
	s.wantCompleted(t, h, "a", "b", "d")
}

func completedNone(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	s.mustProject(t, h.all(0))
	s.wantCompleted(t, h)
}

func completedGone(t *testing.T, s Subject) {
	h := start(t, "run")
	for _, id := range []string{"a", "b"} {
		h.reserve(id)
		h.settle(id)
	}
	s.mustProject(t, h.all(0))
	s.LoseRecord(t, "run", "a")
	got, err := s.Store.Completed(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	want := []harness.Record{{RunID: "run", ToolCallID: "a", Call: 2}, *h.light("b")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("completed calls (-want +got):\n%s", diff)
	}
}

func completedLost(t *testing.T, s Subject) {
	h := eventful(t, "run")
	_, err := s.Store.Completed(t.Context(), "run")
	wantBehind(t, err, 0)
	s.mustProject(t, h.all(0))
	s.LoseList(t, "run")
	_, err = s.Store.Completed(t.Context(), "run")
	wantBehind(t, err, 0)
}

func completedMany(t *testing.T, s Subject) {
	h := start(t, "run")
	const calls = 1100 // more than one read of the list
	from := uint64(0)
	for i := range calls {
		id := fmt.Sprintf("call-%d", i)
		h.reserve(id)
		h.settle(id)
		if i%110 == 109 {
			s.mustProject(t, h.all(from))
			from = h.run().Sequence
		}
	}
	got, err := s.Store.Completed(t.Context(), "run")
	if err != nil || len(got) != calls {
		t.Fatalf("got %d calls, %v, want %d", len(got), err, calls)
	}
	for i, record := range got {
		if want := fmt.Sprintf("call-%d", i); record.ToolCallID != want || record.Status != "READY" {
			t.Fatalf("call %d is %s %s, want %s READY", i, record.ToolCallID, record.Status, want)
		}
	}
}

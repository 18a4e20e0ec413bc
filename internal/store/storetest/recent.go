package storetest

import (
	"fmt"
	"testing"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
)

func recent() map[string]test {
	return map[string]test{
		"WhatCallsCameToComesBackInOrderAfterEveryFact": recentFactByFact,
		"WhatIsForgottenIsForgottenInTheStoreToo":       recentForgotten,
		"AReservationLeavesItAsItIs":                    recentKept,
	}
}

// repeat makes a call that comes to the same as every other of that result.
func (h *history) repeat(id, result string) {
	h.t.Helper()
	h.reserve(id)
	raw := []byte(`"` + result + `"`)
	h.settleAs(id, raw, &events.ToolSettled{
		Status: events.StatusReady, Evidence: events.EvidenceFound, Result: []byte(`"result"`),
		RawBytes: int64(len(raw)), RawDigest: "sha256:" + result, RawStored: true,
	})
}

func recentFactByFact(t *testing.T, s Subject) {
	h := start(t, "run")
	for i, result := range []string{"x", "y", "x", "z", "x", "y"} {
		h.repeat(fmt.Sprintf("call-%d", i), result)
	}
	for n := range h.run().Sequence {
		s.mustProject(t, h.stretch(n, n+1))
		s.wantRun(t, h.at(n+1))
	}
	counts := []int{}
	for _, seen := range s.run(t, "run").Recent {
		counts = append(counts, seen.Count)
	}
	if want := []int{1, 3, 2}; diff(want, counts) != "" { // z, x, y
		t.Errorf("the counts are %v, want %v", counts, want)
	}
}

func recentForgotten(t *testing.T, s Subject) {
	h := start(t, "run")
	for i := range 70 {
		h.repeat(fmt.Sprintf("call-%d", i), fmt.Sprintf("result-%d", i))
	}
	s.mustProject(t, h.stretch(0, 40))
	s.mustProject(t, h.all(40))
	s.wantRun(t, h.at(h.run().Sequence))
	if got := len(s.run(t, "run").Recent); got != 64 {
		t.Errorf("%d results are remembered, want the last 64", got)
	}
}

func recentKept(t *testing.T, s Subject) {
	h := start(t, "run")
	h.repeat("call-1", "x")
	s.mustProject(t, h.all(0))
	h.reserve("call-2")
	p := h.all(3)
	p.Run.Recent = []harness.Repetition{{Key: 7, Count: 9}} // no settlement, so nobody looks at it
	s.mustProject(t, p)
	s.wantRun(t, h.at(4))
	s.mustProject(t, store.Projection{Run: h.at(4), From: 3})
}

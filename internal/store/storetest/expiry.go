package storetest

import (
	"testing"
	"time"

	"runledger/internal/store"
)

func expiry() map[string]test {
	return map[string]test{
		"WhatHasExpiredIsGoneAndNothingRenewsIt":            expires,
		"OperationsExpireWithTheirRun":                      expiredOperations,
		"ARunThatHasExpiredIsNotWritten":                    expiredRun,
		"ARecordThatHasExpiredIsNotCreated":                 expiredRecord,
		"ASettlementOfARecordThatHasExpiredDoesNotCreateIt": expiredSettlement,
	}
}

// until polls for something that must come true, and not too late.
func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !true(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

func expires(t *testing.T, s Subject) {
	expires := now().Add(600 * time.Millisecond)
	h := startUntil(t, "run", expires)
	h.reserve("a")
	h.settle("a")
	s.mustProject(t, h.stretch(0, 2))
	until(t, "run and record expire", func() bool {
		if now().Before(expires.Add(-300 * time.Millisecond)) {
			s.mustProject(t, h.stretch(0, 2)) // writing renews nothing
			s.mustProject(t, h.stretch(2, 3))
		}
		run, record := s.run(t, "run"), s.record(t, "run", "a") // nor does reading
		if at := now(); at.Before(expires.Add(-50*time.Millisecond)) && (run == nil || record == nil) {
			t.Fatalf("gone %v before its time", expires.Sub(at))
		}
		return run == nil && record == nil
	})
	if early := expires.Sub(now()); early > 0 {
		t.Errorf("gone %v before its time", early)
	}
}

func expiredOperations(t *testing.T, s Subject) {
	expires := now().Add(400 * time.Millisecond)
	h := startUntil(t, "run", expires)
	h.grant("a", 1)
	h.record("a", 1, "")
	s.mustProject(t, h.stretch(0, 2))
	s.mustProject(t, h.stretch(2, 3))
	gone := func() bool {
		return s.load(t, store.Ref{RunID: "run", OperationID: "a"}).Operation == nil
	}
	if gone() && now().Before(expires.Add(-50*time.Millisecond)) {
		t.Fatal("gone before its time")
	}
	until(t, "the operation expires", gone)
	if early := expires.Sub(now()); early > 0 {
		t.Errorf("gone %v before its time", early)
	}
	s.mustProject(t, h.all(0)) // it is not written again
	s.wantNoOperation(t, "run", "a")
}

func expiredRun(t *testing.T, s Subject) {
	h := startUntil(t, "run", now().Add(-time.Millisecond))
	h.reserve("a")
	h.settle("a")
	s.mustProject(t, h.all(0))
	s.mustProject(t, h.all(2)) // no loss either: there is nothing to be had
	if got := s.run(t, "run"); got != nil {
		t.Errorf("the run stands at fact %d, want none", got.Sequence)
	}
	s.wantNoRecord(t, "run", "a")
}

func expiredRecord(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.reserve("b")
	h.settle("a")
	p := h.all(0)
	for _, c := range p.Records {
		c.Record.ExpiresAt = now().Add(-time.Millisecond)
	}
	s.mustProject(t, p)
	s.wantNoRecord(t, "run", "a")
	s.wantNoRecord(t, "run", "b")
	if got := s.run(t, "run"); got == nil || got.Sequence != 4 {
		t.Errorf("the run is %v, want it at fact 4", got)
	}
	got, err := s.Store.Completed(t.Context(), "run")
	if err != nil || len(got) != 1 || got[0].ToolCallID != "a" || got[0].Status != "" {
		t.Errorf("completed calls are %v, %v, want the identity of a", got, err)
	}
}

func expiredSettlement(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	s.mustProject(t, h.all(0))
	s.LoseRecord(t, "run", "a")
	h.settle("a")
	p := h.all(2)
	p.Records[0].Record.ExpiresAt = now()
	s.mustProject(t, p)
	s.wantNoRecord(t, "run", "a")
	if got := s.run(t, "run"); got == nil || got.Sequence != 3 || len(got.Open) != 0 {
		t.Errorf("the run is %v, want it at fact 3 with nothing open", got)
	}
}

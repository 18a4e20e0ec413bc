package store

import (
	"errors"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/testenv"
)

func TestAStageOfRecordsLeavesTheRunWhereItIs(t *testing.T) {
	s, run, record := staged(t)
	p := Projection{Run: run, Records: []RecordChange{{Record: record, Reserved: true}}}
	if err := s.Project(t.Context(), []Projection{p})[0]; err != nil {
		t.Fatal(err)
	}
	if err := send(t, s, &p, stageOfRecords); err != nil {
		t.Fatal(err)
	}
	runs, errs := s.LoadRuns(t.Context(), []string{"r"})
	if errs[0] != nil || runs[0] == nil || runs[0].Sequence != 2 || len(runs[0].Open) != 1 {
		t.Errorf("the run is %+v, %v, want it at fact 2 with an open call", runs[0], errs[0])
	}
}

// TestTheLastStageNoticesWhatEarlierOnesDidNotWrite sends the last stage of a
// projection alone, as if the ones before it had failed: for a record that is
// not there, and for one that is still open.
func TestTheLastStageNoticesWhatEarlierOnesDidNotWrite(t *testing.T) {
	s, run, record := staged(t)
	reserve := Projection{Run: run, Records: []RecordChange{{Record: record, Reserved: true}}}
	if err := send(t, s, &reserve, stageOfRunAlone); !errors.Is(err, ErrBehind) {
		t.Errorf("a record that is not there: got %v, want that the store is behind", err)
	}
	if err := s.Project(t.Context(), []Projection{reserve})[0]; err != nil {
		t.Fatal(err)
	}
	settledRun, settledRecord := *run, *record
	settledRun.Sequence, settledRun.Open, settledRecord.Status = 3, nil, events.StatusReady
	settle := Projection{Run: &settledRun, From: 2, Records: []RecordChange{{Record: &settledRecord, Settled: true}}}
	if err := send(t, s, &settle, stageOfRunAlone); !errors.Is(err, ErrBehind) {
		t.Errorf("a record that is still open: got %v, want that the store is behind", err)
	}
}

// staged gives an empty store, a run at fact 2 and the record of its open call.
func staged(t *testing.T) (*Store, *harness.Run, *harness.Record) {
	t.Helper()
	s, err := Open(Config{Addrs: []string{testenv.StartMiniredis(t).Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	at := time.Now().UTC().Truncate(time.Millisecond)
	record := &harness.Record{
		RunID: "r", ToolCallID: "a", Call: 2, Status: events.StatusProjecting,
		ReservedAt: at, ExpiresAt: at.Add(time.Hour),
	}
	return s, &harness.Run{
		ID: "r", Agent: "agent", Sequence: 2, StartedAt: at, ExpiresAt: record.ExpiresAt,
		Phase: harness.PhaseRunning, Open: []*harness.Record{record},
	}, record
}

// send sends one stage alone.
func send(t *testing.T, s *Store, p *Projection, stage stage) error {
	t.Helper()
	keys, err := s.keys.of("r")
	if err != nil {
		t.Fatal(err)
	}
	call, err := encodeCallOf(p, stage, keys, []string{"runledger:{r}:a"}, p.Records)
	if err != nil {
		t.Fatal(err)
	}
	s.evaluate(t.Context(), []*scriptCall{call})
	return call.outcome()
}

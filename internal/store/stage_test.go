package store

import (
	"errors"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/testenv"
)

// TestTheLastStageNoticesWhatEarlierOnesDidNotWrite sends the last stage of a
// projection alone, as if the ones before it had failed: for a record that is
// not there, and for one that is still open.
func TestTheLastStageNoticesWhatEarlierOnesDidNotWrite(t *testing.T) {
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
	run := &harness.Run{
		ID: "r", Agent: "agent", Sequence: 2, StartedAt: at, ExpiresAt: record.ExpiresAt,
		Phase: harness.PhaseRunning, Open: []*harness.Record{record},
	}
	last := func(p Projection) error {
		t.Helper()
		keys, err := s.keys.of("r")
		if err != nil {
			t.Fatal(err)
		}
		call, err := encodeCallOf(&p, stageOfRunAlone, keys, []string{"runledger:{r}:a"}, p.Records)
		if err != nil {
			t.Fatal(err)
		}
		s.evaluate(t.Context(), []*scriptCall{call})
		return call.outcome()
	}
	reserve := Projection{Run: run, Records: []RecordChange{{Record: record, Reserved: true}}}
	if err := last(reserve); !errors.Is(err, ErrBehind) {
		t.Errorf("a record that is not there: got %v, want that the store is behind", err)
	}
	if err := s.Project(t.Context(), []Projection{reserve})[0]; err != nil {
		t.Fatal(err)
	}
	settledRun, settledRecord := *run, *record
	settledRun.Sequence, settledRun.Open, settledRecord.Status = 3, nil, events.StatusReady
	settle := Projection{Run: &settledRun, From: 2, Records: []RecordChange{{Record: &settledRecord, Settled: true}}}
	if err := last(settle); !errors.Is(err, ErrBehind) {
		t.Errorf("a record that is still open: got %v, want that the store is behind", err)
	}
}

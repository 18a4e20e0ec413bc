package store

import (
	"fmt"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// TestWhatACallCostsDoesNotGrowWithItsRun counts arguments: those of one
// reservation and of one settlement, in a run with few and with many calls,
// open ones, and tools.
func TestWhatACallCostsDoesNotGrowWithItsRun(t *testing.T) {
	count := func(calls int, settled bool) int {
		at := time.UnixMilli(1_700_000_000_000).UTC()
		record := &harness.Record{
			RunID: "r", ToolCallID: "a", Tool: "tool-0", Call: 1_000_001, Status: events.StatusProjecting,
			ReservedAt: at, Deadline: at, ExpiresAt: at, Request: []byte("x"), RequestBytes: 1,
		}
		run := &harness.Run{
			ID: "r", Agent: "agent", Sequence: 1_000_001, StartedAt: at, ExpiresAt: at, TimerAt: at, Phase: harness.PhaseRunning,
			Usage: events.Usage{ToolCalls: int64(calls), CallsByTool: map[string]int64{}},
			Calls: map[events.Status]int64{events.StatusReady: int64(calls), events.StatusError: int64(calls)},
		}
		for i := range calls {
			run.Open = append(run.Open, record)
			run.Usage.CallsByTool[fmt.Sprintf("tool-%d", i)] = 1
		}
		p := Projection{Run: run, From: run.Sequence - 1, Records: []RecordChange{{Record: record, Reserved: true}}}
		if settled {
			record.Status, run.Sequence, p.From = events.StatusReady, run.Sequence+1, run.Sequence
			p.Records[0].Reserved, p.Records[0].Settled = false, true
		}
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
		keys, err := newKeys("p", false)
		if err != nil {
			t.Fatal(err)
		}
		s := Store{keys: keys}
		prepared, err := s.prepare(&p)
		if err != nil || len(prepared) != 1 {
			t.Fatalf("prepare: %v, %v, want one call", prepared, err)
		}
		return len(prepared[0].args)
	}
	for _, settled := range []bool{false, true} {
		few, many := count(1, settled), count(10_000, settled)
		if few != many || few > 110 {
			t.Errorf("settled %v: %d arguments in a short run, %d in a long one, want the same and at most 110", settled, few, many)
		}
		t.Logf("settled %v: %d arguments", settled, few)
	}
}

package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// codecRun is a run in the middle of its life, with an open call, and that
// call's record with 1 KiB of request.
func codecRun(recent int) (*harness.Run, *harness.Record) {
	at := time.UnixMilli(1_700_000_000_000).UTC()
	digest := events.DigestBytes(nil)
	cause := events.Cause{ID: "e1", Source: "/agents/alice", Sequence: 4711, Decision: true}
	record := &harness.Record{
		RunID: "r", ToolCallID: "call_1", Tool: "search", Executor: "web", Call: 101, Status: events.StatusProjecting,
		ReservedAt: at, Deadline: at.Add(time.Minute), ExpiresAt: at.Add(time.Hour),
		Request: bytes.Repeat([]byte("q"), 1<<10), RequestBytes: 1 << 10, RequestDigest: digest, ArgumentsDigest: digest, Cause: cause,
	}
	run := &harness.Run{
		ID: "r", SessionID: "s", Agent: "alice", Policy: digest, Sequence: 101, Stream: 5000, Digest: digest, At: at, Inbound: 4711,
		StartedAt: at, Deadline: at.Add(time.Hour), ExpiresAt: at.Add(2 * time.Hour), TimerAt: at.Add(time.Minute), StartCause: cause,
		Phase: harness.PhaseRunning, Open: []*harness.Record{record},
		Limits: events.Limits{ModelCalls: 1, ToolCalls: 1000, CallsPerTool: 1000, InputTokens: 1, OutputTokens: 1, TotalTokens: 1, RunBytes: 1 << 30},
		Usage:  events.Usage{ToolCalls: 51, CallsByTool: map[string]int64{"search": 51}, RunBytes: 1 << 20},
		Calls:  map[events.Status]int64{events.StatusReady: 50},
	}
	for i := range recent {
		run.Recent = append(run.Recent, harness.Repetition{Key: uint64(i) << 32, Count: 1})
	}
	return run, record
}

func benchPrepare(b *testing.B, p *Projection) {
	b.Helper()
	keys, err := newKeys(DefaultKeyPrefix, false)
	if err != nil {
		b.Fatal(err)
	}
	s := Store{keys: keys}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.prepare(p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodeReservation and BenchmarkEncodeSettlement write the arguments
// of a projection, without a server.
func BenchmarkEncodeReservation(b *testing.B) {
	run, record := codecRun(64)
	benchPrepare(b, &Projection{Run: run, From: 100, Records: []RecordChange{{Record: record, Reserved: true}}})
}

func BenchmarkEncodeSettlement(b *testing.B) {
	for _, recent := range []int{0, 64} {
		run, record := codecRun(recent)
		run.Sequence, run.Open = 102, nil
		record.Status, record.Evidence, record.SettledAt = events.StatusReady, events.EvidenceFound, record.ReservedAt
		record.RawResponse, record.RawBytes, record.RawStored = bytes.Repeat([]byte("r"), 4<<10), 4<<10, true
		record.RawDigest, record.ResultCause = run.Digest, record.Cause
		record.AgentResult = bytes.Repeat([]byte("a"), 512)
		b.Run(fmt.Sprintf("remembered=%d", recent), func(b *testing.B) {
			benchPrepare(b, &Projection{Run: run, From: 101, Records: []RecordChange{{Record: record, Settled: true}}})
		})
	}
}

// BenchmarkDecodeRun reads a run with an open call, as a cold one is.
func BenchmarkDecodeRun(b *testing.B) {
	run, record := codecRun(64)
	var e encoder
	encodeRun(&e, &Projection{Run: run, Records: []RecordChange{{Record: record, Reserved: true}}})
	if e.err != nil {
		b.Fatal(e.err)
	}
	hash := make(map[string]string)
	for i := 0; i < len(e.args); i += 2 {
		switch v := e.args[i+1].(type) {
		case []byte:
			hash[e.args[i].(string)] = string(v)
		default:
			hash[e.args[i].(string)] = text(v)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if run, err := decodeRun(hash, "r"); err != nil || len(run.Open) != 1 {
			b.Fatal(run, err)
		}
	}
}

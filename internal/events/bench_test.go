package events_test

import (
	"strings"
	"testing"

	"runledger/internal/events"
)

func BenchmarkDecodeToolCallBinary(b *testing.B) {
	s := wire(b)
	m := events.Message{Subject: callSubject, Header: header(nil), Data: []byte(callData), Sequence: 7, Time: takenAt}
	b.ReportAllocs()
	for b.Loop() {
		if in, err := events.Decode(s, m); err != nil || in.Problem != nil {
			b.Fatal(err, in)
		}
	}
}

func BenchmarkEncodeToolReserved(b *testing.B) {
	fact := factOf(&events.ToolReserved{ToolCallID: "c1", Tool: "search", Executor: "web", Deadline: decidedAt, RequestBytes: 75, RequestDigest: events.DigestBytes(nil), ArgumentsDigest: events.DigestBytes(nil)})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fact.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeToolReserved(b *testing.B) {
	s := wire(b)
	fact := factOf(&events.ToolReserved{ToolCallID: "c1", Tool: "search", Executor: "web", Deadline: decidedAt, RequestBytes: 75, RequestDigest: events.DigestBytes(nil), ArgumentsDigest: events.DigestBytes(nil)})
	encoded, err := fact.Encode()
	if err != nil {
		b.Fatal(err)
	}
	subject := fact.Subject(s)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := events.DecodeFact(s, subject, encoded.Header, encoded.Data); err != nil {
			b.Fatal(err)
		}
	}
}

// text gives a JSON string of a size in bytes.
func text(size int) string { return `"` + strings.Repeat("x", size-2) + `"` }

// BenchmarkDecodeToolResultBinary reads results as executors send them.
func BenchmarkDecodeToolResultBinary(b *testing.B) {
	s := wire(b)
	for name, size := range map[string]int{"4KiB": 4 << 10, "64KiB": 64 << 10} {
		m := events.Message{
			Subject: stored(s.Executor("web", "r1")), Sequence: 7, Time: takenAt,
			Header: header(map[string][]string{"ce-type": {events.VerbToolResult.Type()}}),
			Data:   []byte(`{"run_id":"r1","tool_call_id":"c1","dispatch_id":"r1.2","outcome":"SUCCEEDED","result":` + text(size) + `}`),
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(m.Data)))
			b.ReportAllocs()
			for b.Loop() {
				if in, err := events.Decode(s, m); err != nil || in.Problem != nil {
					b.Fatal(err, in)
				}
			}
		})
	}
}

// BenchmarkDecodeToolCallStructured reads the event whole from the payload.
func BenchmarkDecodeToolCallStructured(b *testing.B) {
	s := wire(b)
	m := events.Message{Subject: callSubject, Data: []byte(structured(`,"data":` + callData)), Sequence: 7, Time: takenAt}
	b.ReportAllocs()
	for b.Loop() {
		if in, err := events.Decode(s, m); err != nil || in.Problem != nil {
			b.Fatal(err, in)
		}
	}
}

// BenchmarkEncodeToolSettled writes the fact that ends a call, with a result of
// 512 bytes.
func BenchmarkEncodeToolSettled(b *testing.B) {
	fact := factOf(&events.ToolSettled{
		ToolCallID: "c1", Tool: "search", Call: 2, Status: events.StatusReady, Evidence: events.EvidenceFound,
		Result: []byte(text(512)), RawBytes: 4096, RawDigest: events.DigestBytes(nil), RawStored: true,
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fact.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodeDispatch hands a call of 1 KiB to its executor.
func BenchmarkEncodeDispatch(b *testing.B) {
	arguments := []byte(`{"q":` + text(1<<10) + `}`)
	cause := events.Cause{ID: "e1", Source: "/agents/alice", Sequence: 7}
	b.ReportAllocs()
	for b.Loop() {
		events.EncodeDispatch("alice", events.Dispatch{
			RunID: "r1", ToolCallID: "c1", DispatchID: "r1.2", Tool: "search", Arguments: arguments, Deadline: decidedAt,
		}, decidedAt, cause)
	}
}

package events_test

import (
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

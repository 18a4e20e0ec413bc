package harness_test

import (
	"strconv"
	"strings"
	"testing"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// BenchmarkDecideToolCall decides one more call of a run with 100 open ones.
func BenchmarkDecideToolCall(b *testing.B) {
	d := newDriver(b, testRules())
	d.start(`"tool_calls":1000`, `"calls_per_tool":1000`)
	for i := range 100 {
		d.call("c"+strconv.Itoa(i), "search", `{"q":1}`)
	}
	in, err := events.Decode(d.subjects, d.message("agent", "alice", "r1", "tool.call", callData("r1", "new", "search", `{"q":"x"}`)))
	if err != nil {
		b.Fatal(err)
	}
	state := d.load("r1", in)
	b.ReportAllocs()
	for b.Loop() {
		if d.rules.Due(state, in, noon) != nil {
			b.Fatal("something is due")
		}
		if fact := d.rules.Decide(state, in, noon).Fact; fact == nil || fact.Kind() != events.KindToolReserved {
			b.Fatal(fact)
		}
	}
}

// BenchmarkCallThroughTheRules takes one call and its result from decoded
// events to applied facts: two decisions, two facts encoded, two applied.
func BenchmarkCallThroughTheRules(b *testing.B) {
	d := newDriver(b, testRules())
	d.start(`"tool_calls":1000000000`, `"calls_per_tool":1000000000`, `"run_bytes":1000000000000`)
	state := &harness.State{Run: d.runs["r1"]}
	apply := func(in *events.Inbound) uint64 {
		in.Sequence = state.Run.Inbound + 1
		fact := d.rules.Decide(state, in, noon).Fact
		encoded, err := fact.Encode()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := state.Apply(fact, harness.Stored{Sequence: fact.Sequence, Digest: encoded.Digest}); err != nil {
			b.Fatal(err)
		}
		return fact.Sequence
	}
	call := &events.Inbound{Address: events.Address{Role: "agent", Principal: "alice", Run: "r1", Verb: "tool.call"}, Source: "/a", Data: []byte(callData("r1", "c1", "search", `{"q":"x"}`))}
	result := &events.Inbound{Address: events.Address{Role: "executor", Principal: "web", Run: "r1", Verb: "tool.result"}, Source: "/e"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := "c" + strconv.Itoa(i)
		call.ID, call.Payload = id, &events.ToolCall{RunID: "r1", ToolCallID: id, Tool: "search", Arguments: []byte(`{"q":"x"}`)}
		sequence := apply(call)
		result.ID, result.Payload = id, &events.ToolResult{RunID: "r1", ToolCallID: id, DispatchID: events.DispatchID("r1", sequence), Outcome: "SUCCEEDED", Result: []byte(`[1]`)}
		apply(result)
		delete(state.Records, id)
	}
}

// BenchmarkDecideToolResult settles a call whose raw response has 4 KiB. The
// projector is a stand-in; the real ones are measured in their own package.
func BenchmarkDecideToolResult(b *testing.B) {
	d := newDriver(b, testRules())
	d.start()
	d.call("c1", "search", `{"q":1}`)
	data := `{"run_id":"r1","tool_call_id":"c1","dispatch_id":"r1.2","outcome":"SUCCEEDED","result":"` + strings.Repeat("x", 4<<10) + `"}`
	in, err := events.Decode(d.subjects, d.message("executor", "web", "r1", "tool.result", data))
	if err != nil {
		b.Fatal(err)
	}
	state := d.load("r1", in)
	b.ReportAllocs()
	for b.Loop() {
		if fact := d.rules.Decide(state, in, noon).Fact; fact == nil || fact.Kind() != events.KindToolSettled {
			b.Fatal(fact)
		}
	}
}

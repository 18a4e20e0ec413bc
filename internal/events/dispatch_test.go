package events_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
)

func someDispatch(arguments string) events.Dispatch {
	return events.Dispatch{
		RunID: "r1", ToolCallID: "c1", DispatchID: "r1.2", Tool: "search", Arguments: []byte(arguments),
		Deadline: time.Date(2026, 1, 1, 14, 0, 0, 7_000_000, time.FixedZone("", 2*3600)),
	}
}

func TestADispatchIsExactlyThis(t *testing.T) {
	cause := events.Cause{Source: "/agents/alice", ID: "e 1", Sequence: 7, Trace: events.Trace{Parent: "00-1", State: "v=1"}}
	header, data := events.EncodeDispatch("alice", someDispatch(`{"q":"x"}`), decidedAt, cause)
	want := map[string][]string{
		"ce-causationid":     {"e%201"},
		"ce-causationsource": {"/agents/alice"},
		"ce-correlationid":   {"r1"},
		"ce-datacontenttype": {"application/json"},
		"ce-dataschema":      {"urn:runledger:schema:harness.tool.dispatch.v1"},
		"ce-id":              {"r1.2"},
		"ce-partitionkey":    {"r1"},
		"ce-source":          {"/agents/alice/runs/r1"},
		"ce-specversion":     {"1.0"},
		"ce-time":            {"2026-01-01T12:00:00.123Z"},
		"ce-traceparent":     {"00-1"},
		"ce-tracestate":      {"v=1"},
		"ce-type":            {"harness.tool.dispatch.v1"},
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	wantData := `{"run_id":"r1","tool_call_id":"c1","dispatch_id":"r1.2","tool":"search","deadline":"2026-01-01T12:00:00.007Z","arguments":{"q":"x"}}`
	if string(data) != wantData {
		t.Errorf("got  %s\nwant %s", data, wantData)
	}
}

func TestADispatchPassesArgumentsByteForByte(t *testing.T) {
	for _, arguments := range []string{
		`{}`,
		"{ \"z\" : 1.0 ,\n\"a\":\t\"\\u00e9\\/é\\u2028\" , \"n\": 1e400, \"m\":-0 }",
		`{"n":` + strings.Repeat("9", 400) + `}`,
		`{"html":"<b>&</b>"}`,
	} {
		_, data := events.EncodeDispatch("alice", someDispatch(arguments), decidedAt, events.Cause{})
		if !strings.HasSuffix(string(data), `,"arguments":`+arguments+`}`) {
			t.Errorf("%.60q: became %q", arguments, data)
		}
		if !jsontext.Value(data).IsValid() {
			t.Errorf("%.60q: the dispatch is no JSON: %q", arguments, data)
		}
	}
}

func TestADispatchIsValidJSONWhateverItsStringsHold(t *testing.T) {
	for _, text := range []string{
		``, `plain`, `a"b\c`, "line\nfeed\ttab\x00\x1f\x7f", "é\u2028\u2029😀", `{"a":1}`, `</script>`, `functions.get:0`, `dir/tool.v1`,
	} {
		d := someDispatch(`{"a":1}`)
		d.Tool, d.ToolCallID = text, text
		_, data := events.EncodeDispatch("alice", d, decidedAt, events.Cause{})
		var got events.Dispatch
		if err := json.Unmarshal(data, &got, json.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%q: %v in %s", text, err, data)
			continue
		}
		d.Deadline = d.Deadline.UTC()
		if diff := cmp.Diff(d, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", text, diff)
		}
	}
	d := someDispatch(`{}`)
	d.Tool = "bad\xff"
	if _, data := events.EncodeDispatch("alice", d, decidedAt, events.Cause{}); !jsontext.Value(data).IsValid() {
		t.Errorf("invalid UTF-8 gives no JSON: %q", data)
	}
}

func TestTheArgumentsOfARequestAreReadByteForByte(t *testing.T) {
	const arguments = `{ "q":1.0, "\u0061":[ ]}`
	in, err := events.Decode(wire(t), events.Message{
		Subject: "harness.v1.part.3.in.agent.alice.r1.tool.call",
		Header:  map[string][]string{"ce-specversion": {"1.0"}, "ce-id": {"e"}, "ce-source": {"/a"}, "ce-type": {"harness.tool.call.v1"}},
		Data:    []byte(`{"run_id":"r1","tool_call_id":"c","tool":"search","arguments":` + arguments + `}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	call, ok := in.Payload.(*events.ToolCall)
	if !ok || string(call.Arguments) != arguments {
		t.Errorf("got %+v, %v, want arguments %s", in.Payload, in.Problem, arguments)
	}
}

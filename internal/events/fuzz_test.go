package events

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzDecode feeds a subject, some headers (lines of "name: value") and data of
// any form. Nothing may panic, and what decodes must decode to the same again
// once it has been written anew in either content mode.
func FuzzDecode(f *testing.F) {
	const agent = "harness.v1.part.5.in.agent.alice.r1."
	envelope := "ce-specversion: 1.0\nce-id: e1\nce-source: /a\nce-type: harness.tool.call.v1\nce-datacontenttype: application/json"
	call := `{"run_id":"r1","tool_call_id":"c1","tool":"search","arguments":{"q":"x"}}`
	structured := `{"specversion":"1.0","id":"e1","source":"/a","type":"harness.tool.call.v1",`
	f.Add(agent+"tool.call", envelope, []byte(call))
	f.Add(agent+"tool.call", strings.ToUpper(envelope), []byte(call))
	f.Add(agent+"tool.call", envelope+"\nce-id: e2\nce-traceparent: %00", []byte(`{"arguments":[[[[`))
	f.Add(agent+"tool.call", "", []byte(structured+`"data":`+call+`}`))
	f.Add(agent+"tool.call", "content-type: application/cloudevents+json", []byte(structured+`"data_base64":"e30=","x":-1,"y":true,"z":null}`))
	f.Add(agent+"tool.call", "", []byte(structured+`"data_base64":1}`))
	f.Add(agent+"tool.call", "", []byte(`{"specversion":"0.3","id":"1","source":"s","type":"t","datacontentencoding":""}`))
	f.Add(agent+"run.start", envelope, []byte(`{"run_id":"r1","session_id":"s","deadline":"2026-01-01T00:00:00Z","limits":{"tool_calls":1}}`))
	f.Add(agent+"run.cancel", envelope, []byte(`{"run_id":"r1","reason":"USER_REQUESTED"}`))
	f.Add(agent+"run.finish", envelope, []byte(`{"run_id":"r1","outcome":"SUCCESS"}`))
	f.Add(agent+"model.call", envelope, []byte(`{"run_id":"r1","operation":"INTENT_ROUTER","operation_id":"o1"}`))
	f.Add(agent+"model.report", envelope, []byte(`{"run_id":"r1","operation":"INTENT_ROUTER","operation_id":"o1","attempt":1,"outcome":"FAILED","failure":"TIMEOUT","usage":{"input_tokens":1,"output_tokens":null}}`))
	f.Add(agent+"progress.report", envelope, []byte(`{"run_id":"r1","step":1,"claims":[{"text":"x","negative":true,"supports":["c1"]}],"final":null}`))
	f.Add("harness.v1.part.5.in.executor.web.r1.tool.result", envelope, []byte(`{"outcome":"SUCCEEDED","result":"\ud800"}`))
	f.Add("harness.v1.part.5.tick.r1", "", []byte(nil))
	subjects, err := NewSubjects(DefaultPrefix)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, subject, headers string, data []byte) {
		message := Message{Subject: subject, Header: headerOf(headers), Data: data, Sequence: 7, Time: time.Unix(1, 0)}
		in, err := Decode(subjects, message)
		if err != nil {
			if in != nil {
				t.Fatalf("an error and an event: %v, %+v", err, in)
			}
			return
		}
		if (in.Payload != nil) == (in.Problem != nil) && in.Verb != VerbTick {
			t.Fatalf("want a payload or a problem, got %+v", in)
		}
		if in.Verb == VerbTick {
			return
		}
		for mode, again := range map[string]Message{"binary": binaryAgain(in, message), "structured": structuredAgain(t, in, message)} {
			second, err := Decode(subjects, again)
			if err != nil {
				t.Fatalf("%s: %v", mode, err)
			}
			if diff := cmp.Diff(in, second, cmpopts.EquateEmpty(), cmp.Comparer(sameProblem)); diff != "" {
				t.Fatalf("%s: %s", mode, diff)
			}
		}
	})
}

func sameProblem(a, b error) bool { return (a == nil) == (b == nil) }

func headerOf(lines string) map[string][]string {
	header := map[string][]string{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		header[name] = append(header[name], strings.TrimPrefix(value, " "))
	}
	return header
}

// envelopeOf gives the attributes that the rest of the program looks at. The
// type is not kept where it is wrong, so any other wrong one stands for it.
func envelopeOf(in *Inbound) []Attribute {
	eventType := in.Verb.Type()
	if in.Problem != nil && strings.HasPrefix(in.Problem.Error(), "type: ") {
		eventType = "another"
	}
	attributes := []Attribute{{"specversion", "1.0"}, {"id", in.ID}, {"source", in.Source}, {"type", eventType}}
	if in.Trace.Parent != "" {
		attributes = append(attributes, Attribute{"traceparent", in.Trace.Parent})
	}
	if in.Trace.State != "" {
		attributes = append(attributes, Attribute{"tracestate", in.Trace.State})
	}
	return attributes
}

func binaryAgain(in *Inbound, message Message) Message {
	message.Header, message.Data = binaryHeader(envelopeOf(in)), in.Data
	return message
}

func structuredAgain(t *testing.T, in *Inbound, message Message) Message {
	members := map[string]any{"data_base64": in.Data}
	for _, a := range envelopeOf(in) {
		members[a.Name] = a.Value
	}
	body, err := json.Marshal(members)
	if err != nil {
		t.Fatalf("%+v: %v", members, err)
	}
	message.Header, message.Data = nil, body
	return message
}

// FuzzDecodeFact shows that no stored fact, however damaged, makes a reader
// panic, and that one that is read is encoded to a fact that reads the same.
func FuzzDecodeFact(f *testing.F) {
	subjects, err := NewSubjects(DefaultPrefix)
	if err != nil {
		f.Fatal(err)
	}
	const attributes = "ce-causationid: e1\nce-causationsequence: 7\nce-decision: true\nce-rulesversion: 1\nce-sequence: 00000000000000000003\nce-time: 2026-01-01T12:00:00.123Z"
	f.Add("harness.v1.fact.alice.r1.tool.settled", attributes, []byte(`{"tool_call_id":"c1","tool":"t","call":2,"status":"READY","evidence":"NO_EVIDENCE","result":[ ],"raw_bytes":2,"raw_stored":true}`))
	f.Add("harness.v1.fact.alice.r1.run.terminated", attributes, []byte(`{"outcome":"SUCCESS","ended_at":"2026-01-01T12:00:00Z","usage":{"calls_by_tool":{"a":1}},"calls":{"READY":1}}`))
	f.Add("harness.v1.fact.alice.r1.model.recorded", attributes, []byte(`{"operation":"INTENT_ROUTER","operation_id":"o1","attempt":2,"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":2}}`))
	f.Add("harness.v1.fact.alice.r1.progress.invalid", attributes, []byte(`{"run_id":"r1","code":"INVALID_PROGRESS_PROTOCOL","message":"m","step":1,"violations":[{"code":"NO_EVIDENCE","claim":0}],"repairs_left":1}`))
	f.Add("harness.v1.fact.alice.r1.run.released", attributes, []byte(`{"reason":"PROGRESS_STALLED","grace_until":"2026-01-01T12:00:00Z"}`))
	f.Add("harness.v1.outside.bob.r1.run.rejected.in-7", "ce-rulesversion: 1", []byte(`{}`))
	f.Fuzz(func(t *testing.T, subject, headers string, data []byte) {
		fact, digest, err := DecodeFact(subjects, subject, headerOf(headers), data)
		if err != nil {
			return
		}
		if len(digest) != len("sha256:")+64 {
			t.Fatalf("digest %q", digest)
		}
		fact.Time = fact.Time.UTC().Truncate(time.Millisecond)
		encoded, err := fact.Encode()
		if err != nil {
			return // an instant beyond the year 9999, for instance
		}
		again, _, err := DecodeFact(subjects, fact.Subject(subjects), encoded.Header, encoded.Data)
		if err != nil {
			t.Fatal(fmt.Errorf("read once, but not again: %w", err))
		}
		if diff := cmp.Diff(fact, again, cmpopts.EquateEmpty(), cmp.Transformer("compact", compacted)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func compacted(s *ToolSettled) ToolSettled {
	if s == nil {
		return ToolSettled{}
	}
	c := *s
	c.Result = append(c.Result[:0:0], c.Result...)
	_ = c.Result.Compact()
	return c
}

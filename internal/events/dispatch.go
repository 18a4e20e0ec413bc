package events

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// TypeDispatch is the CloudEvents type of a dispatch.
const TypeDispatch = "harness.tool.dispatch.v1"

// DispatchID names the one dispatch of a call: the run and the sequence of the
// call's tool.reserved. It is also the executor's claim.
func DispatchID(run string, sequence uint64) string {
	return run + "." + strconv.FormatUint(sequence, 10)
}

// EncodeDispatch gives the message that hands a call to its executor. The
// arguments are passed through byte for byte. The causing event is the intent.
func EncodeDispatch(agent string, d Dispatch, at time.Time, cause Cause) (map[string][]string, []byte) {
	attributes := make([]Attribute, 0, 14)
	add := func(name, value string) {
		if value != "" {
			attributes = append(attributes, Attribute{name, value})
		}
	}
	add("causationid", cause.ID)
	add("causationsource", cause.Source)
	add("correlationid", d.RunID)
	add("datacontenttype", contentTypeJSON)
	add("dataschema", SchemaURI(TypeDispatch))
	add("id", d.DispatchID)
	add("partitionkey", d.RunID)
	add("source", "/agents/"+agent+"/runs/"+d.RunID)
	add("specversion", specVersion)
	add("time", at.UTC().Format(TimeFormat))
	add("traceparent", cause.Trace.Parent)
	add("tracestate", cause.Trace.State)
	add("type", TypeDispatch)
	return binaryHeader(attributes), d.appendJSON(make([]byte, 0, len(d.Arguments)+512))
}

// appendJSON writes the dispatch with its arguments untouched; an encoder would
// be free to write them anew.
func (d Dispatch) appendJSON(b []byte) []byte {
	field := func(name, value string) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b, _ = jsontext.AppendQuote(b, value) // fails on invalid UTF-8 only, and then writes it mended
		b = append(b, ',')
	}
	b = append(b, '{')
	field("run_id", d.RunID)
	field("tool_call_id", d.ToolCallID)
	field("dispatch_id", d.DispatchID)
	field("tool", d.Tool)
	field("deadline", d.Deadline.UTC().Format(TimeFormat))
	b = append(b, `"arguments":`...)
	b = append(b, d.Arguments...)
	return append(b, '}')
}

package events_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/events"
	"runledger/schemas"
)

var inboundVerbs = []events.Verb{
	events.VerbRunStart, events.VerbToolCall, events.VerbToolResult, events.VerbRunCancel, events.VerbRunFinish,
}

var factKinds = []events.Kind{
	events.KindRunStarted, events.KindRunRejected, events.KindToolReserved, events.KindToolRejected, events.KindToolSettled,
	events.KindToolLate, events.KindRunEnding, events.KindRunProgress, events.KindRunTerminated,
}

// goTypes gives an empty Go value for each event type.
func goTypes() map[string]any {
	types := map[string]any{
		events.VerbRunStart.Type():   &events.RunStart{},
		events.VerbToolCall.Type():   &events.ToolCall{},
		events.VerbToolResult.Type(): &events.ToolResult{},
		events.VerbRunCancel.Type():  &events.RunCancel{},
		events.VerbRunFinish.Type():  &events.RunFinish{},
		events.TypeDispatch:          &events.Dispatch{},
	}
	for _, kind := range factKinds {
		types[kind.Type()] = events.NewPayload(kind)
	}
	return types
}

func schemaRegistry(t *testing.T) *schemas.Registry {
	t.Helper()
	r, err := schemas.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// schemaNode is as much of a schema as these tests look at.
type schemaNode struct {
	Type       string                `json:"type"`
	Enum       []string              `json:"enum"`
	Properties map[string]schemaNode `json:"properties"`
	Items      *schemaNode           `json:"items"`
	Required   []string              `json:"required"`
	Examples   []jsontext.Value      `json:"examples"`
}

func schemaOf(t *testing.T, eventType string) schemaNode {
	t.Helper()
	source, err := schemas.Source(eventType)
	if err != nil {
		t.Fatal(err)
	}
	var node schemaNode
	if err := json.Unmarshal(source, &node); err != nil {
		t.Fatal(err)
	}
	return node
}

func TestEveryEventTypeHasASchemaAndNoOtherDoes(t *testing.T) {
	want := make([]string, 0, 15)
	for eventType := range goTypes() {
		want = append(want, eventType)
		if got := schemas.URI(eventType); got != events.SchemaURI(eventType) {
			t.Errorf("schema of %s: named %s, and the event says %s", eventType, got, events.SchemaURI(eventType))
		}
	}
	slices.Sort(want)
	if got := schemas.Types(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestEachExampleFollowsItsSchemaAndRoundTripsThroughItsGoType(t *testing.T) {
	registry := schemaRegistry(t)
	for eventType := range goTypes() {
		for _, example := range schemaOf(t, eventType).Examples {
			if err := registry.Validate(eventType, example); err != nil {
				t.Errorf("example of %v\n%s", err, example)
				continue
			}
			written := roundTrip(t, eventType, example)
			if err := registry.Validate(eventType, written); err != nil {
				t.Errorf("written from Go: %v\n%s", err, written)
			}
			if !sameJSON(t, example, written) {
				t.Errorf("%s\nexample %s\nwritten %s", eventType, example, written)
			}
		}
	}
}

// roundTrip reads the data strictly as the type's Go type and writes them the
// way the program does.
func roundTrip(t *testing.T, eventType string, data []byte) []byte {
	t.Helper()
	if verb := events.Verb(strings.TrimSuffix(strings.TrimPrefix(eventType, "harness."), ".v1")); slices.Contains(inboundVerbs, verb) {
		payload, problem := decodeInbound(t, verb, data)
		if problem != nil {
			t.Fatalf("%s: Decode: %v\n%s", eventType, problem, data)
		}
		written, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		return written
	}
	value := goTypes()[eventType]
	if err := json.Unmarshal(data, value, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%s: %v\n%s", eventType, err, data)
	}
	if dispatch, ok := value.(*events.Dispatch); ok {
		_, written := events.EncodeDispatch("agent", *dispatch, time.UnixMilli(0), events.Cause{})
		return written
	}
	fact := events.Fact{Agent: "agent", Run: "run", Sequence: 1, Rules: events.RulesVersion, Payload: value.(events.Payload)}
	encoded, err := fact.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return encoded.Data
}

// decodeInbound gives what Decode makes of the data of an event of that verb.
func decodeInbound(t *testing.T, verb events.Verb, data []byte) (payload any, problem error) {
	t.Helper()
	subjects, err := events.NewSubjects(events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	speaker := "agent"
	if verb == events.VerbToolResult {
		speaker = "executor"
	}
	in, err := events.Decode(subjects, events.Message{
		Subject: events.DefaultPrefix + ".part.0.in." + speaker + ".somebody.run." + string(verb),
		Header: map[string][]string{
			"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/test"}, "ce-type": {verb.Type()}, "content-type": {"application/json"},
		},
		Data: data, Sequence: 1,
	})
	if err != nil {
		t.Fatalf("the envelope: %v", err)
	}
	return in.Payload, in.Problem
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, y := jsontext.Value(slices.Clone(a)), jsontext.Value(slices.Clone(b))
	if x.Canonicalize() != nil || y.Canonicalize() != nil {
		t.Fatalf("not JSON: %s or %s", a, b)
	}
	return string(x) == string(y)
}

func TestTheMembersOfEachGoTypeAreThoseOfItsSchema(t *testing.T) {
	for eventType, value := range goTypes() {
		compareMembers(t, eventType, reflect.TypeOf(value).Elem(), schemaOf(t, eventType))
	}
}

// compareMembers compares names, types and what may be left out, level by level.
func compareMembers(t *testing.T, place string, goType reflect.Type, schema schemaNode) {
	t.Helper()
	var names []string
	for field := range goType.NumField() {
		name, options, _ := strings.Cut(goType.Field(field).Tag.Get("json"), ",")
		names = append(names, name)
		property, ok := schema.Properties[name]
		if !ok {
			t.Errorf("%s.%s: not in the schema", place, name)
			continue
		}
		if optional := options != ""; optional == slices.Contains(schema.Required, name) {
			t.Errorf("%s.%s: may be left out in Go: %t, and the schema says otherwise", place, name, optional)
		}
		compareType(t, place+"."+name, goType.Field(field).Type, property)
	}
	for name := range schema.Properties {
		if !slices.Contains(names, name) {
			t.Errorf("%s.%s: not in the Go type", place, name)
		}
	}
}

func compareType(t *testing.T, place string, goType reflect.Type, schema schemaNode) {
	t.Helper()
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	want := ""
	switch {
	case goType == reflect.TypeFor[jsontext.Value]():
		return // any JSON value
	case goType == reflect.TypeFor[time.Time](), goType.Kind() == reflect.String:
		want = "string"
	case goType.Kind() == reflect.Int64, goType.Kind() == reflect.Uint64:
		want = "integer"
	case goType.Kind() == reflect.Bool:
		want = "boolean"
	case goType.Kind() == reflect.Map:
		want = "object"
	case goType.Kind() == reflect.Struct:
		want = "object"
		compareMembers(t, place, goType, schema)
	case goType.Kind() == reflect.Slice:
		want = "array"
		compareMembers(t, place+"[]", goType.Elem(), *schema.Items)
	}
	if schema.Type != want {
		t.Errorf("%s: Go %s, schema %q, want %q", place, goType, schema.Type, want)
	}
}

// TestClosedSetsAreTheEnumsOfTheSchemas: each set stands here once more, so that
// a value that is added in Go or in a schema alone is noticed.
func TestClosedSetsAreTheEnumsOfTheSchemas(t *testing.T) {
	codes := make([]string, 0, 24)
	for _, code := range events.Codes() {
		codes = append(codes, string(code))
	}
	limits := memberNames(reflect.TypeFor[events.Limits]())
	outcomes := texts(events.OutcomeSuccess, events.OutcomeFailed, events.OutcomeCancelled, events.OutcomeTimedOut, events.OutcomeBudgetExhausted)
	principals := texts(events.CancelClientDisconnected, events.CancelUserRequested, events.CancelOperatorRequested)
	reasons := append([]string{"FINISHED_BY_AGENT"}, append(principals, texts(events.CancelDeadlineExceeded, events.CancelBudgetExhausted)...)...)
	evidence := texts(events.EvidenceFound, events.EvidenceNone)
	results := texts(events.ResultSucceeded, events.ResultFailed, events.ResultTooLarge)
	sets := map[string][]string{
		"run.start": nil, "tool.call": nil, "tool.dispatch": nil, "run.started": nil, "tool.reserved": nil,
		"tool.result outcome":    results,
		"run.cancel reason":      principals,
		"run.finish outcome":     texts(events.OutcomeSuccess, events.OutcomeFailed),
		"run.rejected code":      codes,
		"run.rejected limit":     limits,
		"run.rejected intent":    texts(events.VerbRunStart, events.VerbRunCancel, events.VerbRunFinish),
		"tool.rejected code":     codes,
		"tool.rejected limit":    limits,
		"tool.settled code":      codes,
		"tool.settled limit":     limits,
		"tool.settled status":    texts(events.StatusReady, events.StatusError),
		"tool.settled evidence":  append(evidence, string(events.EvidenceError)),
		"tool.late outcome":      results,
		"run.ending outcome":     outcomes,
		"run.ending reason":      reasons,
		"run.ending limit":       limits,
		"run.progress evidence":  evidence,
		"run.terminated outcome": outcomes,
		"run.terminated reason":  reasons,
	}
	seen := map[string]bool{}
	for _, eventType := range schemas.Types() {
		title := strings.TrimSuffix(strings.TrimPrefix(eventType, "harness."), ".v1")
		schema := schemaOf(t, eventType)
		if observed, ok := schema.Properties["observed"]; ok {
			schema = *observed.Items
		}
		for name, property := range schema.Properties {
			if property.Enum == nil {
				continue
			}
			key := title + " " + name
			seen[key] = true
			if got, want := sorted(property.Enum), sorted(sets[key]); !slices.Equal(got, want) {
				t.Errorf("%s\nschema %q\nGo     %q", key, got, want)
			}
		}
	}
	for key, set := range sets {
		if set != nil && !seen[key] {
			t.Errorf("%s: the schema has no enum", key)
		}
	}
}

func TestEveryMessageFitsTheSchemas(t *testing.T) {
	registry := schemaRegistry(t)
	for _, code := range events.Codes() {
		data, err := json.Marshal(&events.ToolRejected{RunID: "r", Code: code, Message: code.Message()})
		if err != nil {
			t.Fatal(err)
		}
		if err := registry.Validate(events.KindToolRejected.Type(), data); err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func texts[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func sorted(values []string) []string { return slices.Sorted(slices.Values(values)) }

func memberNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("json")
	}
	return names
}

// verdict is what the schema and Decode say of data. Where they differ, differ
// says how, and the test fails as soon as they agree.
type verdict struct {
	name   string
	data   string
	good   bool
	differ differs
}

type differs string

const (
	agree differs = ""
	// JSON Schema counts characters and knows 1.0 as an integer; the bytes and
	// the literal are for Go to judge.
	schemaCannotSay differs = "schema takes it, Decode does not"
	// Decode gives these a zero value instead of refusing them.
	decodeTakesIt differs = "Decode takes it, the schema does not"
)

const goodLimits = `{"model_calls":1,"tool_calls":1,"calls_per_tool":1,"input_tokens":1,"output_tokens":1,"total_tokens":1,"run_bytes":1}`

func start(deadline, limits string) string {
	return `{"run_id":"r","session_id":"s","deadline":` + deadline + `,"limits":` + limits + `}`
}

func withRunBytes(value string) string {
	return start(`"2026-01-01T00:00:00Z"`, strings.Replace(goodLimits, `"run_bytes":1`, `"run_bytes":`+value, 1))
}

func call(tool, more string) string {
	return `{"run_id":"r","tool_call_id":"c","tool":` + tool + more + `}`
}

func result(more string) string {
	return `{"run_id":"r","tool_call_id":"c","dispatch_id":"r.1"` + more + `}`
}

var verdicts = map[events.Verb][]verdict{
	events.VerbRunStart: {
		{"good", start(`"2026-01-01T00:00:00Z"`, goodLimits), true, agree},
		{"milliseconds and offset", start(`"2026-01-01T00:00:00.123+05:30"`, goodLimits), true, agree},
		{"nanoseconds", start(`"2026-02-28T23:59:59.123456789-12:00"`, goodLimits), true, agree},
		{"leap day", start(`"2028-02-29T00:00:00Z"`, goodLimits), true, agree},
		{"limit of zero, for the rules to refuse", withRunBytes("0"), true, agree},
		{"negative limit, for the rules to refuse", withRunBytes("-1"), true, agree},
		{"largest limit", withRunBytes("9223372036854775807"), true, agree},
		{"smallest limit", withRunBytes("-9223372036854775808"), true, agree},
		{"limit above int64", withRunBytes("9223372036854775808"), false, agree},
		{"limit below int64", withRunBytes("-9223372036854775809"), false, agree},
		{"limit with a fraction", withRunBytes("1.5"), false, agree},
		{"limit as text", withRunBytes(`"1"`), false, agree},
		{"limit written 1.0", withRunBytes("1.0"), false, schemaCannotSay},
		{"limit written 1e3", withRunBytes("1e3"), false, schemaCannotSay},
		{"limit null", withRunBytes("null"), false, decodeTakesIt},
		{"unknown limit", start(`"2026-01-01T00:00:00Z"`, strings.Replace(goodLimits, "run_bytes", "run_byte", 1)), false, agree},
		{"one limit missing", start(`"2026-01-01T00:00:00Z"`, strings.Replace(goodLimits, `,"run_bytes":1`, "", 1)), false, decodeTakesIt},
		{"limits empty", start(`"2026-01-01T00:00:00Z"`, `{}`), false, decodeTakesIt},
		{"limits null", start(`"2026-01-01T00:00:00Z"`, `null`), false, decodeTakesIt},
		{"limits missing", `{"run_id":"r","session_id":"s","deadline":"2026-01-01T00:00:00Z"}`, false, decodeTakesIt},
		{"limits a list", start(`"2026-01-01T00:00:00Z"`, `[]`), false, agree},
		{"deadline without zone", start(`"2026-01-01T00:00:00"`, goodLimits), false, agree},
		{"deadline a date", start(`"2026-01-01"`, goodLimits), false, agree},
		{"deadline a day that is not there", start(`"2026-02-30T00:00:00Z"`, goodLimits), false, agree},
		{"deadline at 24 o'clock", start(`"2026-01-01T24:00:00Z"`, goodLimits), false, agree},
		{"deadline in a leap second", start(`"2016-12-31T23:59:60Z"`, goodLimits), false, agree},
		{"deadline in small letters", start(`"2026-01-01t00:00:00z"`, goodLimits), false, agree},
		{"deadline with a comma", start(`"2026-01-01T00:00:00,5Z"`, goodLimits), false, agree},
		{"deadline with a space", start(`"2026-01-01 00:00:00Z"`, goodLimits), false, agree},
		{"deadline with an offset that is not there", start(`"2026-01-01T00:00:00+24:00"`, goodLimits), false, agree},
		{"deadline with minutes of an offset that are not there", start(`"2026-01-01T00:00:00+01:60"`, goodLimits), false, agree},
		{"deadline a number", start(`1767225600`, goodLimits), false, agree},
		{"deadline null", start(`null`, goodLimits), false, agree},
		{"deadline missing", `{"run_id":"r","session_id":"s","limits":` + goodLimits + `}`, false, agree},
		{"run id missing", `{"session_id":"s","deadline":"2026-01-01T00:00:00Z","limits":` + goodLimits + `}`, false, decodeTakesIt},
		{"run id null", strings.Replace(start(`"2026-01-01T00:00:00Z"`, goodLimits), `"r"`, `null`, 1), false, decodeTakesIt},
		{"run id a number", strings.Replace(start(`"2026-01-01T00:00:00Z"`, goodLimits), `"r"`, `1`, 1), false, agree},
		{"session id missing", `{"run_id":"r","deadline":"2026-01-01T00:00:00Z","limits":` + goodLimits + `}`, false, decodeTakesIt},
		{"session id blank, for the rules to refuse", strings.Replace(start(`"2026-01-01T00:00:00Z"`, goodLimits), `"s"`, `" "`, 1), true, agree},
		{"unknown member", strings.Replace(start(`"2026-01-01T00:00:00Z"`, goodLimits), `{`, `{"agent":"x",`, 1), false, agree},
		{"member in another case", strings.Replace(start(`"2026-01-01T00:00:00Z"`, goodLimits), `run_id`, `Run_ID`, 1), false, agree},
		{"a list", `[]`, false, agree},
		{"null", `null`, false, agree},
		{"text", `"x"`, false, agree},
		{"nothing", ``, false, agree},
		{"something after it", start(`"2026-01-01T00:00:00Z"`, goodLimits) + `{}`, false, agree},
		{"a name twice", strings.Replace(start(`"2026-01-01T00:00:00Z"`, goodLimits), `{`, `{"run_id":"r",`, 1), false, agree},
	},
	events.VerbToolCall: {
		{"good", call(`"t"`, `,"arguments":{}`), true, agree},
		{"both claims", call(`"t"`, `,"arguments":{},"authorized":false,"read_only":true`), true, agree},
		{"arguments null, for the rules to refuse", call(`"t"`, `,"arguments":null`), true, agree},
		{"arguments a list, for the rules to refuse", call(`"t"`, `,"arguments":[]`), true, agree},
		{"arguments text, for the rules to refuse", call(`"t"`, `,"arguments":""`), true, agree},
		{"arguments of 127 levels", call(`"t"`, `,"arguments":`+strings.Repeat("[", 127)+strings.Repeat("]", 127)), true, agree},
		{"arguments of a level too many", call(`"t"`, `,"arguments":`+strings.Repeat("[", 128)+strings.Repeat("]", 128)), false, agree},
		{"a number of 400 digits", call(`"t"`, `,"arguments":{"n":`+strings.Repeat("9", 400)+`}`), true, agree},
		{"a lone surrogate", call(`"t"`, `,"arguments":{"s":"\ud800"}`), false, agree},
		{"invalid UTF-8", call(`"t"`, ",\"arguments\":{\"s\":\"\xff\"}"), false, agree},
		{"a name twice in the arguments", call(`"t"`, `,"arguments":{"a":1,"a":2}`), false, agree},
		{"arguments missing", call(`"t"`, ``), false, decodeTakesIt},
		{"tool call id missing", `{"run_id":"r","tool":"t","arguments":{}}`, false, decodeTakesIt},
		{"tool call id empty, for the rules to refuse", `{"run_id":"r","tool_call_id":"","tool":"t","arguments":{}}`, true, agree},
		{"tool call id null", `{"run_id":"r","tool_call_id":null,"tool":"t","arguments":{}}`, false, decodeTakesIt},
		{"tool call id a number", `{"run_id":"r","tool_call_id":7,"tool":"t","arguments":{}}`, false, agree},
		{"run id missing", `{"tool_call_id":"c","tool":"t","arguments":{}}`, false, decodeTakesIt},
		{"tool missing", `{"run_id":"r","tool_call_id":"c","arguments":{}}`, false, agree},
		{"tool empty", call(`""`, `,"arguments":{}`), false, agree},
		{"tool of 256 characters", call(`"`+strings.Repeat("t", 256)+`"`, `,"arguments":{}`), true, agree},
		{"tool of 257 characters", call(`"`+strings.Repeat("t", 257)+`"`, `,"arguments":{}`), false, agree},
		{"tool of 256 characters in 512 bytes", call(`"`+strings.Repeat("é", 256)+`"`, `,"arguments":{}`), false, schemaCannotSay},
		{"claim as text", call(`"t"`, `,"arguments":{},"authorized":"false"`), false, agree},
		{"claim null", call(`"t"`, `,"arguments":{},"authorized":null`), false, decodeTakesIt},
		{"unknown member", call(`"t"`, `,"arguments":{},"owner":"x"`), false, agree},
	},
	events.VerbToolResult: {
		{"succeeded", result(`,"outcome":"SUCCEEDED","result":{"a":1}`), true, agree},
		{"succeeded with null", result(`,"outcome":"SUCCEEDED","result":null`), true, agree},
		{"succeeded with a size", result(`,"outcome":"SUCCEEDED","result":"","size":0`), true, agree},
		{"succeeded without result", result(`,"outcome":"SUCCEEDED"`), false, agree},
		{"failed", result(`,"outcome":"FAILED"`), true, agree},
		{"failed with what it said", result(`,"outcome":"FAILED","result":"no route"`), true, agree},
		{"too large", result(`,"outcome":"TOO_LARGE","size":5000000`), true, agree},
		{"too large without size", result(`,"outcome":"TOO_LARGE"`), false, decodeTakesIt},
		{"too large with result", result(`,"outcome":"TOO_LARGE","size":1,"result":""`), false, agree},
		{"too large with a null result", result(`,"outcome":"TOO_LARGE","size":1,"result":null`), false, agree},
		{"negative size", result(`,"outcome":"TOO_LARGE","size":-1`), false, agree},
		{"size above int64", result(`,"outcome":"TOO_LARGE","size":9223372036854775808`), false, agree},
		{"size null", result(`,"outcome":"FAILED","size":null`), false, decodeTakesIt},
		{"outcome missing", result(`,"result":1`), false, agree},
		{"outcome in small letters", result(`,"outcome":"failed"`), false, agree},
		{"outcome null", result(`,"outcome":null`), false, agree},
		{"outcome that facts have", result(`,"outcome":"SUCCESS"`), false, agree},
		{"dispatch id missing", `{"run_id":"r","tool_call_id":"c","outcome":"FAILED"}`, false, decodeTakesIt},
		{"run id missing", `{"tool_call_id":"c","dispatch_id":"r.1","outcome":"FAILED"}`, false, decodeTakesIt},
		{"tool call id missing", `{"run_id":"r","dispatch_id":"r.1","outcome":"FAILED"}`, false, decodeTakesIt},
		{"unknown member", result(`,"outcome":"FAILED","error":"x"`), false, agree},
	},
	events.VerbRunCancel: {
		{"disconnected", `{"run_id":"r","reason":"CLIENT_DISCONNECTED"}`, true, agree},
		{"user", `{"run_id":"r","reason":"USER_REQUESTED"}`, true, agree},
		{"operator", `{"run_id":"r","reason":"OPERATOR_REQUESTED"}`, true, agree},
		{"a reason that is the processor's", `{"run_id":"r","reason":"DEADLINE_EXCEEDED"}`, false, agree},
		{"reason empty", `{"run_id":"r","reason":""}`, false, agree},
		{"reason missing", `{"run_id":"r"}`, false, agree},
		{"run id missing", `{"reason":"USER_REQUESTED"}`, false, decodeTakesIt},
		{"unknown member", `{"run_id":"r","reason":"USER_REQUESTED","by":"x"}`, false, agree},
	},
	events.VerbRunFinish: {
		{"success", `{"run_id":"r","outcome":"SUCCESS"}`, true, agree},
		{"failed", `{"run_id":"r","outcome":"FAILED"}`, true, agree},
		{"an outcome that is the processor's", `{"run_id":"r","outcome":"CANCELLED"}`, false, agree},
		{"outcome missing", `{"run_id":"r"}`, false, agree},
		{"outcome a number", `{"run_id":"r","outcome":1}`, false, agree},
		{"run id missing", `{"outcome":"SUCCESS"}`, false, decodeTakesIt},
		{"unknown member", `{"run_id":"r","outcome":"SUCCESS","why":"x"}`, false, agree},
	},
}

func TestSchemaAndDecodeAgreeOnInboundData(t *testing.T) {
	registry := schemaRegistry(t)
	for _, verb := range inboundVerbs {
		for _, v := range verdicts[verb] {
			t.Run(string(verb)+"/"+v.name, func(t *testing.T) {
				schemaErr := registry.Validate(verb.Type(), []byte(v.data))
				_, decodeErr := decodeInbound(t, verb, []byte(v.data))
				wantSchema, wantDecode := v.good, v.good
				switch v.differ {
				case agree:
				case schemaCannotSay:
					wantSchema = true
				case decodeTakesIt:
					wantDecode = true
				}
				if (schemaErr == nil) != wantSchema {
					t.Errorf("schema: %v, want good: %t (%s)\n%s", schemaErr, wantSchema, v.differ, v.data)
				}
				if (decodeErr == nil) != wantDecode {
					t.Errorf("Decode: %v, want good: %t (%s)\n%s", decodeErr, wantDecode, v.differ, v.data)
				}
			})
		}
	}
}

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
	events.VerbRunStart, events.VerbToolCall, events.VerbToolResult, events.VerbModelCall, events.VerbModelReport,
	events.VerbProgressReport, events.VerbRunCancel, events.VerbRunFinish,
}

var factKinds = []events.Kind{
	events.KindRunStarted, events.KindRunRejected, events.KindToolReserved, events.KindToolRejected, events.KindToolSettled,
	events.KindToolLate, events.KindModelGranted, events.KindModelRejected, events.KindModelRecorded,
	events.KindProgressAccepted, events.KindProgressInvalid, events.KindRunReleased, events.KindRunEnding, events.KindRunProgress, events.KindRunTerminated,
}

// goTypes gives an empty Go value for each event type.
func goTypes() map[string]any {
	types := map[string]any{
		events.VerbRunStart.Type():       &events.RunStart{},
		events.VerbToolCall.Type():       &events.ToolCall{},
		events.VerbToolResult.Type():     &events.ToolResult{},
		events.VerbModelCall.Type():      &events.ModelCall{},
		events.VerbModelReport.Type():    &events.ModelReport{},
		events.VerbProgressReport.Type(): &events.ProgressReport{},
		events.VerbRunCancel.Type():      &events.RunCancel{},
		events.VerbRunFinish.Type():      &events.RunFinish{},
		events.TypeDispatch:              &events.Dispatch{},
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
	Type       typeNames             `json:"type"`
	Enum       []string              `json:"enum"` // null stands as ""
	Properties map[string]schemaNode `json:"properties"`
	Items      *schemaNode           `json:"items"`
	Required   []string              `json:"required"`
	Examples   []jsontext.Value      `json:"examples"`
}

// typeNames is the type of a value, or several.
type typeNames []string

func (n *typeNames) UnmarshalJSON(data []byte) error {
	if jsontext.Value(data).Kind() == '[' {
		return json.Unmarshal(data, (*[]string)(n))
	}
	*n = []string{""}
	return json.Unmarshal(data, &(*n)[0])
}

// nullable reports whether null is one of the types.
func (n typeNames) nullable() bool { return slices.Contains(n, "null") }

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
	want := make([]string, 0, 24)
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

// alwaysWritten may be left out by others, and stands as null in what Go writes:
// unknown usage shows.
const alwaysWritten = "harness.model.report.v1.usage"

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
		optional := options != "" || place+"."+name == alwaysWritten
		if optional == slices.Contains(schema.Required, name) {
			t.Errorf("%s.%s: may be left out in Go: %t, and the schema says otherwise", place, name, optional)
		}
		if property.Type.nullable() && !optional && goType.Field(field).Type.Kind() != reflect.Pointer {
			t.Errorf("%s.%s: may be null in the schema, and Go has no place for that", place, name)
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
	case goType.Kind() == reflect.Int, goType.Kind() == reflect.Int64, goType.Kind() == reflect.Uint64:
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
		compareType(t, place+"[]", goType.Elem(), *schema.Items)
	}
	if got := slices.DeleteFunc(slices.Clone(schema.Type), func(s string) bool { return s == "null" }); len(got) != 1 || got[0] != want {
		t.Errorf("%s: Go %s, schema %q, want %q", place, goType, schema.Type, want)
	}
}

// TestClosedSetsAreTheEnumsOfTheSchemas: each set stands here once more, so that
// a value that is added in Go or in a schema alone is noticed.
func TestClosedSetsAreTheEnumsOfTheSchemas(t *testing.T) {
	codes := texts(events.Codes()...)
	limits := memberNames(reflect.TypeFor[events.Limits]())
	outcomes := texts(events.OutcomeSuccess, events.OutcomeFailed, events.OutcomeCancelled, events.OutcomeTimedOut, events.OutcomeBudgetExhausted)
	principals := texts(events.CancelClientDisconnected, events.CancelUserRequested, events.CancelOperatorRequested)
	released := texts(events.ReleaseProtocolViolated, events.ReleaseStalled)
	reasons := slices.Concat([]string{"FINISHED_BY_AGENT"}, principals, texts(events.CancelDeadlineExceeded, events.CancelBudgetExhausted), released)
	evidence := texts(events.EvidenceFound, events.EvidenceNone)
	results := texts(events.ResultSucceeded, events.ResultFailed, events.ResultTooLarge)
	operations := texts(events.OperationIntentRouter, events.OperationSemanticGuard, events.OperationDiagnosisAgent, events.OperationEvidenceRepair)
	attempts := texts(events.AttemptSucceeded, events.AttemptFailed)
	failures := texts(events.FailureTransport, events.FailureTimeout, events.FailureRateLimited, events.FailureUnavailable, events.FailureInvalidResponse,
		events.FailureCancelled, events.FailureDeadlineExceeded, events.FailureBudgetExhausted, events.FailureNoEvidence,
		events.FailureBusinessRejection, events.FailureUnknown)
	violations := texts(events.ViolationEnvelope, events.ViolationStep, events.ViolationUnsupported, events.ViolationUnknownCall, events.ViolationNotReady,
		events.ViolationExpired, events.ViolationNoEvidence, events.ViolationRepeated, events.ViolationAlreadyFinal)
	compareEnums(t, map[string][]string{
		"tool.result outcome":              results,
		"run.cancel reason":                principals,
		"run.finish outcome":               texts(events.OutcomeSuccess, events.OutcomeFailed),
		"model.call operation":             operations,
		"model.report operation":           operations,
		"model.report outcome":             attempts,
		"model.report failure":             append(slices.Clone(failures), ""), // null
		"run.rejected code":                codes,
		"run.rejected limit":               limits,
		"run.rejected intent":              texts(events.VerbRunStart, events.VerbRunCancel, events.VerbRunFinish),
		"tool.rejected code":               codes,
		"tool.rejected limit":              limits,
		"tool.settled code":                codes,
		"tool.settled limit":               limits,
		"tool.settled status":              texts(events.StatusReady, events.StatusError),
		"tool.settled evidence":            append(slices.Clone(evidence), string(events.EvidenceError)),
		"tool.late outcome":                results,
		"model.granted operation":          operations,
		"model.rejected operation":         operations,
		"model.rejected intent":            texts(events.VerbModelCall, events.VerbModelReport),
		"model.rejected code":              codes,
		"model.rejected limit":             limits,
		"model.recorded operation":         operations,
		"model.recorded outcome":           attempts,
		"model.recorded failure":           failures,
		"model.recorded limit":             limits,
		"progress.invalid code":            append(slices.Clone(codes), events.InvalidProgressProtocol),
		"progress.invalid violations code": violations,
		"run.released reason":              released,
		"run.ending outcome":               outcomes,
		"run.ending reason":                reasons,
		"run.ending limit":                 limits,
		"run.progress observed evidence":   evidence,
		"run.terminated outcome":           outcomes,
		"run.terminated reason":            reasons,
	})
}

// compareEnums compares the enums of all schemas with the sets, under their
// places.
func compareEnums(t *testing.T, sets map[string][]string) {
	t.Helper()
	enums := map[string][]string{}
	for _, eventType := range schemas.Types() {
		collectEnums(strings.TrimSuffix(strings.TrimPrefix(eventType, "harness."), ".v1"), schemaOf(t, eventType), enums)
	}
	for place, enum := range enums {
		if got, want := sorted(enum), sorted(sets[place]); !slices.Equal(got, want) {
			t.Errorf("%s\nschema %q\nGo     %q", place, got, want)
		}
	}
	for place := range sets {
		if enums[place] == nil {
			t.Errorf("%s: the schema has no enum", place)
		}
	}
}

func collectEnums(place string, schema schemaNode, into map[string][]string) {
	if schema.Enum != nil {
		into[place] = schema.Enum
	}
	if schema.Items != nil {
		collectEnums(place, *schema.Items, into)
	}
	for name, property := range schema.Properties {
		collectEnums(place+" "+name, property, into)
	}
}

func TestEveryMessageFitsTheSchemas(t *testing.T) {
	registry := schemaRegistry(t)
	for _, code := range events.Codes() {
		for _, p := range []events.Payload{
			&events.RunRejected{RunID: "r", Intent: events.VerbRunStart, Code: code, Message: code.Message()},
			&events.ToolRejected{RunID: "r", Code: code, Message: code.Message()},
			&events.ModelRejected{RunID: "r", Intent: events.VerbModelCall, Code: code, Message: code.Message()},
			&events.ProgressInvalid{RunID: "r", Code: string(code), Message: code.Message()},
			&events.ToolSettled{ToolCallID: "c", Tool: "t", Call: 2, Status: events.StatusError, Evidence: events.EvidenceError, Code: code, Message: code.Message()},
		} {
			data, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := registry.Validate(p.Kind().Type(), data); err != nil {
				t.Errorf("%s: %v", code, err)
			}
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

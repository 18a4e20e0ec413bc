package harness_test

import (
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/schemas"
)

// row is data of an inbound event, and what becomes of them.
type row struct {
	name string
	data string
	want verdict
}

// verdict is what schema, Decode and Decide say. A code says that Decode takes
// what the schema refuses (a missing member reads as empty), and that Decide then
// answers with that code, which says more than INVALID_ENVELOPE does.
type verdict string

const (
	takes   verdict = "schema and Decode take it"
	refuses verdict = "schema and Decode refuse it"
	// JSON Schema counts characters and knows 1.0 as an integer; the bytes and
	// the literal are for Go to judge.
	onlyDecodeRefuses verdict = "the schema takes it, Decode does not"
)

const goodLimits = `{"model_calls":1,"tool_calls":1,"calls_per_tool":1,"input_tokens":1,"output_tokens":1,"total_tokens":1,"run_bytes":1}`

func startOf(deadline, limits string) string {
	return `{"run_id":"r","session_id":"s","deadline":` + deadline + `,"limits":` + limits + `}`
}

func withRunBytes(value string) string {
	return startOf(`"2026-01-01T00:00:00Z"`, strings.Replace(goodLimits, `"run_bytes":1`, `"run_bytes":`+value, 1))
}

func callOf(tool, more string) string {
	return `{"run_id":"r","tool_call_id":"c","tool":` + tool + more + `}`
}

func resultOf(more string) string {
	return `{"run_id":"r","tool_call_id":"c","dispatch_id":"r.1"` + more + `}`
}

func reportOf(more string) string {
	return `{"run_id":"r","operation":"INTENT_ROUTER","operation_id":"o","attempt":1,` + more + `}`
}

func claimsOf(list string) string { return `{"run_id":"r","step":1,"claims":[` + list + `]}` }

var rows = map[events.Verb][]row{
	events.VerbRunStart: {
		{"good", startOf(`"2026-01-01T00:00:00Z"`, goodLimits), takes},
		{"milliseconds and offset", startOf(`"2026-01-01T00:00:00.123+05:30"`, goodLimits), takes},
		{"nanoseconds", startOf(`"2026-02-28T23:59:59.123456789-12:00"`, goodLimits), takes},
		{"leap day", startOf(`"2028-02-29T00:00:00Z"`, goodLimits), takes},
		{"limit of zero, for the rules to refuse", withRunBytes("0"), takes},
		{"negative limit, for the rules to refuse", withRunBytes("-1"), takes},
		{"largest limit", withRunBytes("9223372036854775807"), takes},
		{"smallest limit", withRunBytes("-9223372036854775808"), takes},
		{"limit above int64", withRunBytes("9223372036854775808"), refuses},
		{"limit below int64", withRunBytes("-9223372036854775809"), refuses},
		{"limit with a fraction", withRunBytes("1.5"), refuses},
		{"limit as text", withRunBytes(`"1"`), refuses},
		{"limit written 1.0", withRunBytes("1.0"), onlyDecodeRefuses},
		{"limit written 1e3", withRunBytes("1e3"), onlyDecodeRefuses},
		{"limit null", withRunBytes("null"), "INVALID_LIMITS"},
		{"unknown limit", startOf(`"2026-01-01T00:00:00Z"`, strings.Replace(goodLimits, "run_bytes", "run_byte", 1)), refuses},
		{"one limit missing", startOf(`"2026-01-01T00:00:00Z"`, strings.Replace(goodLimits, `,"run_bytes":1`, "", 1)), "INVALID_LIMITS"},
		{"limits empty", startOf(`"2026-01-01T00:00:00Z"`, `{}`), "INVALID_LIMITS"},
		{"limits null", startOf(`"2026-01-01T00:00:00Z"`, `null`), "INVALID_LIMITS"},
		{"limits missing", `{"run_id":"r","session_id":"s","deadline":"2026-01-01T00:00:00Z"}`, "INVALID_LIMITS"},
		{"limits a list", startOf(`"2026-01-01T00:00:00Z"`, `[]`), refuses},
		{"deadline without zone", startOf(`"2026-01-01T00:00:00"`, goodLimits), refuses},
		{"deadline a date", startOf(`"2026-01-01"`, goodLimits), refuses},
		{"deadline a day that is not there", startOf(`"2026-02-30T00:00:00Z"`, goodLimits), refuses},
		{"deadline at 24 o'clock", startOf(`"2026-01-01T24:00:00Z"`, goodLimits), refuses},
		{"deadline in a leap second", startOf(`"2016-12-31T23:59:60Z"`, goodLimits), refuses},
		{"deadline in small letters", startOf(`"2026-01-01t00:00:00z"`, goodLimits), refuses},
		{"deadline with a comma", startOf(`"2026-01-01T00:00:00,5Z"`, goodLimits), refuses},
		{"deadline with a space", startOf(`"2026-01-01 00:00:00Z"`, goodLimits), refuses},
		{"deadline with an offset that is not there", startOf(`"2026-01-01T00:00:00+24:00"`, goodLimits), refuses},
		{"deadline with minutes of an offset that are not there", startOf(`"2026-01-01T00:00:00+01:60"`, goodLimits), refuses},
		{"deadline a number", startOf(`1767225600`, goodLimits), refuses},
		{"deadline null", startOf(`null`, goodLimits), refuses},
		{"deadline missing", `{"run_id":"r","session_id":"s","limits":` + goodLimits + `}`, refuses},
		{"run id missing", `{"session_id":"s","deadline":"2026-01-01T00:00:00Z","limits":` + goodLimits + `}`, "RUN_MISMATCH"},
		{"run id null", strings.Replace(startOf(`"2026-01-01T00:00:00Z"`, goodLimits), `"r"`, `null`, 1), "RUN_MISMATCH"},
		{"run id a number", strings.Replace(startOf(`"2026-01-01T00:00:00Z"`, goodLimits), `"r"`, `1`, 1), refuses},
		{"session id missing", `{"run_id":"r","deadline":"2026-01-01T00:00:00Z","limits":` + goodLimits + `}`, "INVALID_IDENTITY"},
		{"session id blank, for the rules to refuse", strings.Replace(startOf(`"2026-01-01T00:00:00Z"`, goodLimits), `"s"`, `" "`, 1), takes},
		{"unknown member", strings.Replace(startOf(`"2026-01-01T00:00:00Z"`, goodLimits), `{`, `{"agent":"x",`, 1), refuses},
		{"member in another case", strings.Replace(startOf(`"2026-01-01T00:00:00Z"`, goodLimits), `run_id`, `Run_ID`, 1), refuses},
		{"a list", `[]`, refuses},
		{"null", `null`, refuses},
		{"text", `"x"`, refuses},
		{"nothing", ``, refuses},
		{"something after it", startOf(`"2026-01-01T00:00:00Z"`, goodLimits) + `{}`, refuses},
		{"a name twice", strings.Replace(startOf(`"2026-01-01T00:00:00Z"`, goodLimits), `{`, `{"run_id":"r",`, 1), refuses},
	},
	events.VerbToolCall: {
		{"good", callOf(`"t"`, `,"arguments":{}`), takes},
		{"both claims", callOf(`"t"`, `,"arguments":{},"authorized":false,"read_only":true`), takes},
		{"arguments null, for the rules to refuse", callOf(`"t"`, `,"arguments":null`), takes},
		{"arguments a list, for the rules to refuse", callOf(`"t"`, `,"arguments":[]`), takes},
		{"arguments text, for the rules to refuse", callOf(`"t"`, `,"arguments":""`), takes},
		{"arguments of 127 levels", callOf(`"t"`, `,"arguments":`+strings.Repeat("[", 127)+strings.Repeat("]", 127)), takes},
		{"arguments of a level too many", callOf(`"t"`, `,"arguments":`+strings.Repeat("[", 128)+strings.Repeat("]", 128)), refuses},
		{"a number of 400 digits", callOf(`"t"`, `,"arguments":{"n":`+strings.Repeat("9", 400)+`}`), takes},
		{"a lone surrogate", callOf(`"t"`, `,"arguments":{"s":"\ud800"}`), refuses},
		{"invalid UTF-8", callOf(`"t"`, ",\"arguments\":{\"s\":\"\xff\"}"), refuses},
		{"a name twice in the arguments", callOf(`"t"`, `,"arguments":{"a":1,"a":2}`), refuses},
		{"arguments missing", callOf(`"t"`, ``), "INVALID_INPUT"},
		{"tool call id missing", `{"run_id":"r","tool":"t","arguments":{}}`, "INVALID_TOOL_CALL_ID"},
		{"tool call id empty, for the rules to refuse", `{"run_id":"r","tool_call_id":"","tool":"t","arguments":{}}`, takes},
		{"tool call id null", `{"run_id":"r","tool_call_id":null,"tool":"t","arguments":{}}`, "INVALID_TOOL_CALL_ID"},
		{"tool call id a number", `{"run_id":"r","tool_call_id":7,"tool":"t","arguments":{}}`, refuses},
		{"run id missing", `{"tool_call_id":"c","tool":"t","arguments":{}}`, "RUN_MISMATCH"},
		{"tool missing", `{"run_id":"r","tool_call_id":"c","arguments":{}}`, refuses},
		{"tool empty", callOf(`""`, `,"arguments":{}`), refuses},
		{"tool of 256 characters", callOf(`"`+strings.Repeat("t", 256)+`"`, `,"arguments":{}`), takes},
		{"tool of 257 characters", callOf(`"`+strings.Repeat("t", 257)+`"`, `,"arguments":{}`), refuses},
		{"tool of 256 characters in 512 bytes", callOf(`"`+strings.Repeat("é", 256)+`"`, `,"arguments":{}`), onlyDecodeRefuses},
		{"claim as text", callOf(`"t"`, `,"arguments":{},"authorized":"false"`), refuses},
		{"claims null", callOf(`"t"`, `,"arguments":{},"authorized":null,"read_only":null`), takes},
		{"unknown member", callOf(`"t"`, `,"arguments":{},"owner":"x"`), refuses},
	},
	events.VerbToolResult: {
		{"succeeded", resultOf(`,"outcome":"SUCCEEDED","result":{"a":1}`), takes},
		{"succeeded with null", resultOf(`,"outcome":"SUCCEEDED","result":null`), takes},
		{"succeeded with a size", resultOf(`,"outcome":"SUCCEEDED","result":"","size":0`), takes},
		{"succeeded without result", resultOf(`,"outcome":"SUCCEEDED"`), refuses},
		{"failed", resultOf(`,"outcome":"FAILED"`), takes},
		{"failed with what it said", resultOf(`,"outcome":"FAILED","result":"no route"`), takes},
		{"too large", resultOf(`,"outcome":"TOO_LARGE","size":5000000`), takes},
		{"too large without size", resultOf(`,"outcome":"TOO_LARGE"`), refuses},
		{"too large with result", resultOf(`,"outcome":"TOO_LARGE","size":1,"result":""`), refuses},
		{"too large with a null result", resultOf(`,"outcome":"TOO_LARGE","size":1,"result":null`), refuses},
		{"too large with a size of null", resultOf(`,"outcome":"TOO_LARGE","size":null`), refuses},
		{"too large with a size of zero", resultOf(`,"outcome":"TOO_LARGE","size":0`), refuses},
		{"too large with a size of one", resultOf(`,"outcome":"TOO_LARGE","size":1`), takes},
		{"negative size", resultOf(`,"outcome":"TOO_LARGE","size":-1`), refuses},
		{"size above int64", resultOf(`,"outcome":"TOO_LARGE","size":9223372036854775808`), refuses},
		{"size null", resultOf(`,"outcome":"FAILED","size":null`), takes},
		{"outcome missing", resultOf(`,"result":1`), refuses},
		{"outcome in small letters", resultOf(`,"outcome":"failed"`), refuses},
		{"outcome null", resultOf(`,"outcome":null`), refuses},
		{"outcome that facts have", resultOf(`,"outcome":"SUCCESS"`), refuses},
		{"dispatch id missing", `{"run_id":"r","tool_call_id":"c","outcome":"FAILED"}`, "UNKNOWN_CALL"},
		{"run id missing", `{"tool_call_id":"c","dispatch_id":"r.1","outcome":"FAILED"}`, "RUN_MISMATCH"},
		{"tool call id missing", `{"run_id":"r","dispatch_id":"r.1","outcome":"FAILED"}`, "UNKNOWN_CALL"},
		{"unknown member", resultOf(`,"outcome":"FAILED","error":"x"`), refuses},
	},
	events.VerbModelCall: {
		{"good", `{"run_id":"r","operation":"INTENT_ROUTER","operation_id":"o"}`, takes},
		{"a tool call is no model operation", `{"run_id":"r","operation":"TOOL_CALL","operation_id":"o"}`, refuses},
		{"operation in small letters", `{"run_id":"r","operation":"intent_router","operation_id":"o"}`, refuses},
		{"operation missing", `{"run_id":"r","operation_id":"o"}`, refuses},
		{"operation null", `{"run_id":"r","operation":null,"operation_id":"o"}`, refuses},
		{"operation id empty, for the rules to refuse", `{"run_id":"r","operation":"INTENT_ROUTER","operation_id":""}`, takes},
		{"operation id missing", `{"run_id":"r","operation":"INTENT_ROUTER"}`, "INVALID_ENVELOPE"},
		{"operation id null", `{"run_id":"r","operation":"INTENT_ROUTER","operation_id":null}`, "INVALID_ENVELOPE"},
		{"operation id a number", `{"run_id":"r","operation":"INTENT_ROUTER","operation_id":1}`, refuses},
		{"run id missing", `{"operation":"INTENT_ROUTER","operation_id":"o"}`, "RUN_MISMATCH"},
		{"unknown member", `{"run_id":"r","operation":"INTENT_ROUTER","operation_id":"o","attempt":2}`, refuses},
	},
	events.VerbModelReport: {
		{"succeeded", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":0,"output_tokens":0}`), takes},
		{"succeeded with a total and no failure", reportOf(`"outcome":"SUCCEEDED","failure":null,"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":4}`), takes},
		{"failed", reportOf(`"outcome":"FAILED","failure":"TRANSPORT","usage":null`), takes},
		{"usage null", reportOf(`"outcome":"SUCCEEDED","usage":null`), takes},
		{"usage missing", reportOf(`"outcome":"SUCCEEDED"`), takes},
		{"usage empty is not zero", reportOf(`"outcome":"SUCCEEDED","usage":{}`), refuses},
		{"input tokens missing", reportOf(`"outcome":"SUCCEEDED","usage":{"output_tokens":1}`), refuses},
		{"output tokens missing", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"total_tokens":2}`), refuses},
		{"input tokens null", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":null,"output_tokens":1}`), refuses},
		{"output tokens null", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":null}`), refuses},
		{"total tokens null", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":null}`), takes},
		{"most tokens", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1099511627776,"output_tokens":1099511627776,"total_tokens":1099511627776}`), takes},
		{"a token too many", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1099511627777,"output_tokens":1}`), refuses},
		{"a token too many in all", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":1099511627777}`), refuses},
		{"tokens of 2^63", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":9223372036854775808}`), refuses},
		{"negative tokens", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":-1}`), refuses},
		{"half a token", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":0.5,"output_tokens":1}`), refuses},
		{"tokens written 1.0", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1.0,"output_tokens":1}`), onlyDecodeRefuses},
		{"tokens as text", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":"1","output_tokens":1}`), refuses},
		{"a provider's own names", reportOf(`"outcome":"SUCCEEDED","usage":{"prompt_tokens":1,"completion_tokens":1}`), refuses},
		{"more than tokens", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":1,"cached_tokens":1}`), refuses},
		{"a name twice in the usage", reportOf(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":1,"input_tokens":0}`), refuses},
		{"usage a number", reportOf(`"outcome":"SUCCEEDED","usage":7`), refuses},
		{"usage a list", reportOf(`"outcome":"SUCCEEDED","usage":[]`), refuses},
		{"succeeded with a failure", reportOf(`"outcome":"SUCCEEDED","failure":"TRANSPORT","usage":null`), refuses},
		{"failed without a failure", reportOf(`"outcome":"FAILED","usage":null`), refuses},
		{"failed with a failure of null", reportOf(`"outcome":"FAILED","failure":null,"usage":null`), refuses},
		{"failed with a class that there is not", reportOf(`"outcome":"FAILED","failure":"BAD_LUCK","usage":null`), refuses},
		{"outcome missing", reportOf(`"usage":null`), refuses},
		{"outcome that runs have", reportOf(`"outcome":"SUCCESS","usage":null`), refuses},
		{"attempt zero", strings.Replace(reportOf(`"outcome":"SUCCEEDED"`), `"attempt":1`, `"attempt":0`, 1), refuses},
		{"attempt negative", strings.Replace(reportOf(`"outcome":"SUCCEEDED"`), `"attempt":1`, `"attempt":-1`, 1), refuses},
		{"attempt missing", strings.Replace(reportOf(`"outcome":"SUCCEEDED"`), `"attempt":1,`, ``, 1), refuses},
		{"attempt null", strings.Replace(reportOf(`"outcome":"SUCCEEDED"`), `"attempt":1`, `"attempt":null`, 1), refuses},
		{"largest attempt", strings.Replace(reportOf(`"outcome":"SUCCEEDED"`), `"attempt":1`, `"attempt":9223372036854775807`, 1), takes},
		{"attempt above int64", strings.Replace(reportOf(`"outcome":"SUCCEEDED"`), `"attempt":1`, `"attempt":9223372036854775808`, 1), refuses},
		{"operation missing", strings.Replace(reportOf(`"outcome":"SUCCEEDED"`), `"operation":"INTENT_ROUTER",`, ``, 1), refuses},
		{"operation id missing", strings.Replace(reportOf(`"outcome":"SUCCEEDED"`), `"operation_id":"o",`, ``, 1), "ATTEMPT_NOT_OPEN"},
		{"run id missing", strings.Replace(reportOf(`"outcome":"SUCCEEDED"`), `"run_id":"r",`, ``, 1), "RUN_MISMATCH"},
		{"unknown member", reportOf(`"outcome":"SUCCEEDED","model":"x"`), refuses},
	},
	events.VerbProgressReport: {
		{"no claim", `{"run_id":"r","step":1,"claims":[]}`, takes},
		{"a claim", claimsOf(`{"text":"x","supports":["c"]}`), takes},
		{"a negative claim of a final report", `{"run_id":"r","step":9223372036854775807,"claims":[{"text":"x","negative":true,"supports":["c","d"]}],"final":true}`, takes},
		{"flags null", `{"run_id":"r","step":1,"claims":[{"text":"x","negative":null,"supports":["c"]}],"final":null}`, takes},
		{"a flag as text", `{"run_id":"r","step":1,"claims":[],"final":"true"}`, refuses},
		{"claims missing", `{"run_id":"r","step":1}`, refuses},
		{"claims null", `{"run_id":"r","step":1,"claims":null}`, refuses},
		{"claims an object", `{"run_id":"r","step":1,"claims":{}}`, refuses},
		{"32 claims", claimsOf(strings.Repeat(`{"text":"x","supports":["c"]},`, 31) + `{"text":"x","supports":["c"]}`), takes},
		{"33 claims", claimsOf(strings.Repeat(`{"text":"x","supports":["c"]},`, 32) + `{"text":"x","supports":["c"]}`), refuses},
		{"a claim of null", claimsOf(`null`), refuses},
		{"a claim of text alone", claimsOf(`"x"`), refuses},
		{"text missing", claimsOf(`{"supports":["c"]}`), refuses},
		{"text null", claimsOf(`{"text":null,"supports":["c"]}`), refuses},
		{"text empty", claimsOf(`{"text":"","supports":["c"]}`), refuses},
		{"text of 2,048 bytes", claimsOf(`{"text":"` + strings.Repeat("x", 2048) + `","supports":["c"]}`), takes},
		{"text of 2,049 bytes", claimsOf(`{"text":"` + strings.Repeat("x", 2049) + `","supports":["c"]}`), refuses},
		{"text of 2,048 characters in 2,049 bytes", claimsOf(`{"text":"é` + strings.Repeat("x", 2047) + `","supports":["c"]}`), onlyDecodeRefuses},
		{"32 supports", claimsOf(`{"text":"x","supports":["c"` + strings.Repeat(`,"d"`, 31) + `]}`), takes},
		{"33 supports", claimsOf(`{"text":"x","supports":["c"` + strings.Repeat(`,"d"`, 32) + `]}`), refuses},
		{"supports of 262,144 bytes", claimsOf(`{"text":"x","supports":["` + strings.Repeat("c", 262144) + `"]}`), takes},
		{"supports of a byte more", claimsOf(`{"text":"x","supports":["` + strings.Repeat("c", 262143) + `"]},{"text":"y","supports":["dd"]}`), onlyDecodeRefuses},
		{"supports empty, for the rules to refuse", claimsOf(`{"text":"x","supports":[]}`), takes},
		{"supports missing", claimsOf(`{"text":"x"}`), "CLAIM_UNSUPPORTED"},
		{"supports null", claimsOf(`{"text":"x","supports":null}`), "CLAIM_UNSUPPORTED"},
		{"a support of null", claimsOf(`{"text":"x","supports":[null]}`), "UNKNOWN_CALL"},
		{"a support that is a number", claimsOf(`{"text":"x","supports":[7]}`), refuses},
		{"step zero", `{"run_id":"r","step":0,"claims":[]}`, refuses},
		{"step negative", `{"run_id":"r","step":-1,"claims":[]}`, refuses},
		{"step missing", `{"run_id":"r","claims":[]}`, refuses},
		{"step null", `{"run_id":"r","step":null,"claims":[]}`, refuses},
		{"step above int64", `{"run_id":"r","step":9223372036854775808,"claims":[]}`, refuses},
		{"step written 1.0", `{"run_id":"r","step":1.0,"claims":[]}`, onlyDecodeRefuses},
		{"run id missing", `{"step":1,"claims":[]}`, "RUN_MISMATCH"},
		{"unknown member", `{"run_id":"r","step":1,"claims":[],"confidence":1}`, refuses},
		{"unknown member of a claim", claimsOf(`{"text":"x","supports":["c"],"evidence":"y"}`), refuses},
	},
	events.VerbRunCancel: {
		{"disconnected", `{"run_id":"r","reason":"CLIENT_DISCONNECTED"}`, takes},
		{"user", `{"run_id":"r","reason":"USER_REQUESTED"}`, takes},
		{"operator", `{"run_id":"r","reason":"OPERATOR_REQUESTED"}`, takes},
		{"a reason that is the processor's", `{"run_id":"r","reason":"DEADLINE_EXCEEDED"}`, refuses},
		{"reason empty", `{"run_id":"r","reason":""}`, refuses},
		{"reason missing", `{"run_id":"r"}`, refuses},
		{"run id missing", `{"reason":"USER_REQUESTED"}`, "RUN_MISMATCH"},
		{"unknown member", `{"run_id":"r","reason":"USER_REQUESTED","by":"x"}`, refuses},
	},
	events.VerbRunFinish: {
		{"success", `{"run_id":"r","outcome":"SUCCESS"}`, takes},
		{"failed", `{"run_id":"r","outcome":"FAILED"}`, takes},
		{"an outcome that is the processor's", `{"run_id":"r","outcome":"CANCELLED"}`, refuses},
		{"outcome missing", `{"run_id":"r"}`, refuses},
		{"outcome a number", `{"run_id":"r","outcome":1}`, refuses},
		{"run id missing", `{"outcome":"SUCCESS"}`, "RUN_MISMATCH"},
		{"unknown member", `{"run_id":"r","outcome":"SUCCESS","why":"x"}`, refuses},
	},
}

func TestWhatASchemaRefusesIsRefusedByDecodeOrByDecide(t *testing.T) {
	registry, err := schemas.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	verbs := 0
	for verb, rows := range rows {
		verbs++
		for _, r := range rows {
			t.Run(string(verb)+"/"+r.name, func(t *testing.T) {
				d, m := r.world(t, verb)
				schemaErr := registry.Validate(verb.Type(), m.Data)
				in, err := events.Decode(d.subjects, m)
				if err != nil {
					t.Fatalf("the envelope: %v", err)
				}
				if want := r.want == takes || r.want == onlyDecodeRefuses; (schemaErr == nil) != want {
					t.Errorf("schema: %v, want good: %t\n%s", schemaErr, want, r.data)
				}
				decodes := r.want != refuses && r.want != onlyDecodeRefuses
				if (in.Problem == nil) != decodes {
					t.Errorf("Decode: %v, want good: %t\n%s", in.Problem, decodes, r.data)
				}
				if r.want == takes {
					return // what the rules say of it is shown elsewhere
				}
				want := string(r.want)
				if !decodes {
					want = map[bool]string{true: "INVALID_DATA", false: "INVALID_ENVELOPE"}[verb == events.VerbToolResult]
				}
				steps := d.deliver(m)
				if len(steps) != 1 || answer(steps[0]) != want {
					t.Errorf("Decide: %q, want %s\n%s", brief(steps), want, r.data)
				}
			})
		}
	}
	if verbs != 8 {
		t.Errorf("%d verbs were tried, want 8", verbs)
	}
}

// world has run r of alice, with call c of t open and attempt 1 of o granted,
// but for a start, which has nothing before it.
func (r row) world(t *testing.T, verb events.Verb) (*driver, events.Message) {
	t.Helper()
	rules := testRules()
	rules.Policy.Tools["t"] = harness.Tool{Name: "t", Executor: "web", ReadOnly: true, Timeout: time.Minute, Projector: projectorFunc(echo)}
	rules.Policy.Grants["alice"] = []string{"t"}
	d := newDriver(t, rules)
	if verb != events.VerbRunStart {
		d.agent("alice", "r", events.VerbRunStart, startData("r", minute, limitsJSON()))
	}
	switch verb {
	case events.VerbToolResult:
		d.agent("alice", "r", events.VerbToolCall, callData("r", "c", "t", `{}`))
		m := d.message(events.RoleExecutor, "web", "r", verb, r.data)
		return d, m
	case events.VerbModelReport:
		d.agent("alice", "r", events.VerbModelCall, `{"run_id":"r","operation":"INTENT_ROUTER","operation_id":"o"}`)
	default:
	}
	m := d.message(events.RoleAgent, "alice", "r", verb, r.data)
	return d, m
}

// answer gives the code of a refusal, or the reason of a dead letter.
func answer(s step) string {
	if s.fact == nil {
		return string(s.reason)
	}
	switch p := s.fact.Payload.(type) {
	case *events.RunRejected:
		return string(p.Code)
	case *events.ToolRejected:
		return string(p.Code)
	case *events.ModelRejected:
		return string(p.Code)
	case *events.ProgressInvalid:
		if len(p.Violations) == 1 {
			return string(p.Violations[0].Code)
		}
		return p.Code
	}
	return "none: " + s.brief()
}

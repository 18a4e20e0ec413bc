package events_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
)

// decodeVerb decodes data of one verb in an envelope that is in order.
func decodeVerb(tb testing.TB, verb events.Verb, data string) *events.Inbound {
	tb.Helper()
	subject := wire(tb).Agent("alice", "r1", verb)
	if verb == events.VerbToolResult {
		subject = wire(tb).Executor("web", "r1")
	}
	in, err := events.Decode(wire(tb), events.Message{
		Subject: stored(subject), Header: header(map[string][]string{"ce-type": {verb.Type()}}), Data: []byte(data),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

const limits = `{"model_calls":1,"tool_calls":2,"calls_per_tool":3,"input_tokens":4,"output_tokens":5,"total_tokens":6,"run_bytes":9223372036854775807}`

func TestEveryPayloadIsReadMemberByMember(t *testing.T) {
	yes, no := true, false
	deadline := time.Date(2026, 1, 1, 12, 0, 0, 500_000_000, time.UTC)
	for _, c := range []struct {
		verb events.Verb
		data string
		want any
	}{
		{events.VerbRunStart, `{"run_id":"r1","session_id":"s1","deadline":"2026-01-01T13:00:00.5+01:00","limits":` + limits + `}`,
			&events.RunStart{RunID: "r1", SessionID: "s1", Deadline: deadline, Limits: events.Limits{
				ModelCalls: 1, ToolCalls: 2, CallsPerTool: 3, InputTokens: 4, OutputTokens: 5, TotalTokens: 6, RunBytes: 9223372036854775807}}},
		{events.VerbToolCall, `{"run_id":"r1","tool_call_id":"c|1","tool":"a/b.c","arguments":{"n":1.0},"authorized":true,"read_only":false}`,
			&events.ToolCall{RunID: "r1", ToolCallID: "c|1", Tool: "a/b.c", Arguments: []byte(`{"n":1.0}`), Authorized: &yes, ReadOnly: &no}},
		{events.VerbToolResult, `{"run_id":"r1","tool_call_id":"c1","dispatch_id":"r1.2","outcome":"SUCCEEDED","result":null}`,
			&events.ToolResult{RunID: "r1", ToolCallID: "c1", DispatchID: "r1.2", Outcome: "SUCCEEDED", Result: []byte("null")}},
		{events.VerbToolResult, `{"run_id":"r1","tool_call_id":"c1","dispatch_id":"r1.2","outcome":"FAILED"}`,
			&events.ToolResult{RunID: "r1", ToolCallID: "c1", DispatchID: "r1.2", Outcome: "FAILED"}},
		{events.VerbToolResult, `{"run_id":"r1","tool_call_id":"c1","dispatch_id":"r1.2","outcome":"TOO_LARGE","size":9223372036854775807}`,
			&events.ToolResult{RunID: "r1", ToolCallID: "c1", DispatchID: "r1.2", Outcome: "TOO_LARGE", Size: 9223372036854775807}},
		{events.VerbRunCancel, `{"run_id":"r1","reason":"CLIENT_DISCONNECTED"}`,
			&events.RunCancel{RunID: "r1", Reason: "CLIENT_DISCONNECTED"}},
		{events.VerbRunFinish, `{"run_id":"r1","outcome":"FAILED"}`,
			&events.RunFinish{RunID: "r1", Outcome: "FAILED"}},
		{events.VerbModelCall, `{"run_id":"r1","operation":"EVIDENCE_REPAIR","operation_id":"o|1"}`,
			&events.ModelCall{RunID: "r1", Operation: "EVIDENCE_REPAIR", OperationID: "o|1"}},
		{events.VerbModelReport, `{"run_id":"r1","operation":"SEMANTIC_GUARD","operation_id":"o1","attempt":2,"outcome":"FAILED","failure":"RATE_LIMITED","usage":{"input_tokens":3,"output_tokens":0,"total_tokens":1099511627776}}`,
			&events.ModelReport{RunID: "r1", Operation: "SEMANTIC_GUARD", OperationID: "o1", Attempt: 2, Outcome: "FAILED", Failure: "RATE_LIMITED", Usage: &events.TokenUsage{InputTokens: 3, TotalTokens: 1 << 40}}},
		{events.VerbModelReport, `{"run_id":"r1","operation":"DIAGNOSIS_AGENT","operation_id":"o1","attempt":1,"outcome":"SUCCEEDED","failure":null,"usage":null}`,
			&events.ModelReport{RunID: "r1", Operation: "DIAGNOSIS_AGENT", OperationID: "o1", Attempt: 1, Outcome: "SUCCEEDED"}},
		{events.VerbProgressReport, `{"run_id":"r1","step":7,"claims":[{"text":"nothing é","negative":true,"supports":["c1","c|2"]},{"text":"x","supports":[]}],"final":true}`,
			&events.ProgressReport{RunID: "r1", Step: 7, Final: true, Claims: []events.Claim{{Text: "nothing é", Negative: true, Supports: []string{"c1", "c|2"}}, {Text: "x", Supports: []string{}}}}},
	} {
		in := decodeVerb(t, c.verb, c.data)
		if in.Problem != nil {
			t.Errorf("%s: %v", c.data, in.Problem)
		} else if diff := cmp.Diff(c.want, in.Payload); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.data, diff)
		}
	}
}

func TestDataThatDoNotFitTheVerbAreAProblemOfAReadableEvent(t *testing.T) {
	call := func(arguments string) string {
		return `{"run_id":"r1","tool_call_id":"c1","tool":"search","arguments":` + arguments + `}`
	}
	start := func(deadline, limits string) string {
		return `{"run_id":"r1","session_id":"s1","deadline":` + deadline + `,"limits":` + limits + `}`
	}
	result := func(rest string) string {
		return `{"run_id":"r1","tool_call_id":"c1","dispatch_id":"r1.2",` + rest + `}`
	}
	attempt := func(rest, number string) string {
		return `{"run_id":"r1","operation":"INTENT_ROUTER","operation_id":"o1","attempt":` + number + `,` + rest + `}`
	}
	claims := func(list string) string { return `{"run_id":"r1","step":1,"claims":[` + list + `]}` }
	for _, c := range []struct {
		verb events.Verb
		data string
		want string // part of the problem
	}{
		{events.VerbToolCall, ``, "data:"},
		{events.VerbToolCall, `null`, "tool: want 1 to 256 bytes, got 0"},
		{events.VerbToolCall, `[]`, "data:"},
		{events.VerbToolCall, `"{}"`, "data:"},
		{events.VerbToolCall, `{}`, "tool: want 1 to 256 bytes, got 0"},
		{events.VerbToolCall, call(`{"a":1`), "data:"},
		{events.VerbToolCall, call(`{}`) + call(`{}`), "data:"},
		{events.VerbToolCall, call(`{"a":1,"a":2}`), "duplicate"},
		{events.VerbToolCall, call(`{"a":"\ud800"}`), "surrogate"},
		{events.VerbToolCall, call("{\"a\":\"\xff\"}"), "UTF-8"},
		{events.VerbToolCall, call(`{"a":01}`), "data:"},
		{events.VerbToolCall, call(`{"a":NaN}`), "data:"},
		{events.VerbToolCall, call("{\"a\":\"\n\"}"), "data:"},
		{events.VerbToolCall, strings.Replace(call(`{}`), `"search"`, `""`, 1), "tool: want 1 to 256 bytes, got 0"},
		{events.VerbToolCall, strings.Replace(call(`{}`), `search`, strings.Repeat("t", 257), 1), "tool: want 1 to 256 bytes, got 257"},
		{events.VerbToolCall, strings.Replace(call(`{}`), `search`, strings.Repeat("é", 129), 1), "tool: want 1 to 256 bytes, got 258"},
		{events.VerbToolCall, strings.Replace(call(`{}`), `"search"`, `7`, 1), "tool"},
		{events.VerbToolCall, strings.Replace(call(`{}`), `}`, `},"more":1`, 1), "unknown"},
		{events.VerbToolCall, strings.Replace(call(`{}`), `"tool"`, `"Tool"`, 1), "unknown"},
		{events.VerbToolCall, strings.Replace(call(`{}`), `}`, `},"authorized":"no"`, 1), "authorized"},
		{events.VerbRunStart, start(`"2026-01-01T12:00:00"`, limits), "deadline"},
		{events.VerbRunStart, start(`"tomorrow"`, limits), "deadline"},
		{events.VerbRunStart, start(`1767225600`, limits), "deadline"},
		{events.VerbRunStart, start(`null`, limits), "deadline: want an instant"},
		{events.VerbRunStart, start(`"0001-01-01T00:00:00Z"`, limits), "deadline: want an instant"},
		{events.VerbRunStart, start(`"2026-01-01T12:00:00Z"`, `{"tool_calls":9223372036854775808}`), "tool_calls"},
		{events.VerbRunStart, start(`"2026-01-01T12:00:00Z"`, `{"tool_calls":1.5}`), "tool_calls"},
		{events.VerbRunStart, start(`"2026-01-01T12:00:00Z"`, `{"tool_calls":"2"}`), "tool_calls"},
		{events.VerbRunStart, start(`"2026-01-01T12:00:00Z"`, `{"toolCalls":2}`), "unknown"},
		{events.VerbToolResult, result(`"outcome":"SUCCEEDED"`), "result: want a JSON value"},
		{events.VerbToolResult, result(`"outcome":"TOO_LARGE","result":1`), "result: want none"},
		{events.VerbToolResult, result(`"outcome":"TOO_LARGE","size":-1`), "size: want the bytes of the raw response with outcome TOO_LARGE, got -1"},
		{events.VerbToolResult, result(`"outcome":"TOO_LARGE"`), "size: want the bytes of the raw response with outcome TOO_LARGE, got 0"},
		{events.VerbToolResult, result(`"outcome":"FAILED","size":-1`), "size: want zero or more bytes, got -1"},
		{events.VerbToolResult, result(`"outcome":"succeeded","result":1`), "outcome: want SUCCEEDED, FAILED or TOO_LARGE"},
		{events.VerbToolResult, result(`"outcome":""`), "outcome: want"},
		{events.VerbToolResult, result(`"result":1`), "outcome: want"},
		{events.VerbRunCancel, `{"run_id":"r1"}`, "reason: want CLIENT_DISCONNECTED"},
		{events.VerbRunCancel, `{"run_id":"r1","reason":"BORED"}`, "reason: want CLIENT_DISCONNECTED"},
		{events.VerbRunCancel, `{"run_id":"r1","reason":"DEADLINE_EXCEEDED"}`, "reason: want CLIENT_DISCONNECTED"}, // the core's own
		{events.VerbModelCall, `{"run_id":"r1","operation":"TOOL_CALL","operation_id":"o1"}`, `operation: want INTENT_ROUTER, SEMANTIC_GUARD, DIAGNOSIS_AGENT or EVIDENCE_REPAIR, got "TOOL_CALL"`},
		{events.VerbModelCall, `{"run_id":"r1","operation_id":"o1"}`, "operation: want"},
		{events.VerbModelReport, attempt(`"outcome":"SUCCEEDED"`, "0"), "attempt: want 1 or more, got 0"},
		{events.VerbModelReport, `{"run_id":"r1","operation":"X","operation_id":"o1","attempt":1,"outcome":"SUCCEEDED"}`, "operation: want"},
		{events.VerbModelReport, attempt(`"outcome":"DONE"`, "1"), `outcome: want SUCCEEDED or FAILED, got "DONE"`},
		{events.VerbModelReport, attempt(`"outcome":"SUCCEEDED","failure":"UNKNOWN"`, "1"), `failure: want none with outcome SUCCEEDED, got "UNKNOWN"`},
		{events.VerbModelReport, attempt(`"outcome":"FAILED"`, "1"), "failure: want a failure class such as TRANSPORT or UNKNOWN"},
		{events.VerbModelReport, attempt(`"outcome":"FAILED","failure":"transport"`, "1"), `failure: want a failure class such as TRANSPORT or UNKNOWN, got "transport"`},
		{events.VerbModelReport, attempt(`"outcome":"SUCCEEDED","usage":{"input_tokens":1}`, "1"), "want input_tokens and output_tokens, or null"},
		{events.VerbModelReport, attempt(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":-1}`, "1"), "usage: want numbers of tokens from 0 to 1099511627776, or null where they are unknown, got -1"},
		{events.VerbModelReport, attempt(`"outcome":"SUCCEEDED","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":1099511627777}`, "1"), "usage: want numbers"},
		{events.VerbModelReport, attempt(`"outcome":"SUCCEEDED","usage":{"prompt_tokens":1}`, "1"), "unknown object member name"},
		{events.VerbProgressReport, `{"run_id":"r1","step":0,"claims":[]}`, "step: want 1 or more, got 0"},
		{events.VerbProgressReport, `{"run_id":"r1","step":1}`, "claims: want a list of at most 32, got 0"},
		{events.VerbProgressReport, claims(strings.Repeat(`{"text":"x","supports":[]},`, 32) + `{"text":"x","supports":[]}`), "claims: want a list of at most 32, got 33"},
		{events.VerbProgressReport, claims(`{"text":"x","supports":[]},{"text":"","supports":[]}`), "claims[1].text: want 1 to 2048 bytes, got 0"},
		{events.VerbProgressReport, claims(`{"text":"` + strings.Repeat("é", 1024) + `x","supports":[]}`), "claims[0].text: want 1 to 2048 bytes, got 2049"},
		{events.VerbProgressReport, claims(`{"text":"x","supports":["a"` + strings.Repeat(`,"a"`, 32) + `]}`), "claims[0].supports: want at most 32, got 33"},
		{events.VerbProgressReport, claims(`{"text":"x","supports":["` + strings.Repeat("a", 262_144) + `"]},{"text":"x","supports":["b"]}`), "claims: want call ids of at most 262144 bytes in all, got 262145"},
		{events.VerbRunFinish, `{"run_id":"r1"}`, "outcome: want SUCCESS or FAILED"},
		{events.VerbRunFinish, `{"run_id":"r1","outcome":"CANCELLED"}`, "outcome: want SUCCESS or FAILED"},
		{events.VerbRunFinish, `{"run_id":"r1","outcome":"success"}`, "outcome: want SUCCESS or FAILED"},
	} {
		in := decodeVerb(t, c.verb, c.data)
		switch {
		case in.Problem == nil:
			t.Errorf("%s %.120s: accepted", c.verb, c.data)
		case in.Payload != nil:
			t.Errorf("%s %.120s: has a payload and a problem", c.verb, c.data)
		case !strings.Contains(in.Problem.Error(), c.want):
			t.Errorf("%s %.120s: the problem is %q, want it to say %q", c.verb, c.data, in.Problem, c.want)
		case in.ID != "e1" || string(in.Data) != c.data:
			t.Errorf("%s %.120s: the envelope got lost: %+v", c.verb, c.data, in)
		}
	}
}

func TestArgumentsOfAnyJSONKindReachThePreflight(t *testing.T) {
	// Whether they are an object is judged later, where the answer has a code.
	for _, arguments := range []string{
		`{}`, `null`, `""`, `[]`, `"{\"a\":1}"`, `{"n":` + strings.Repeat("9", 400) + `}`, `{"n":1e400}`, `{"":{"":[]}}`,
	} {
		in := decodeVerb(t, events.VerbToolCall, `{"run_id":"r1","tool_call_id":"c1","tool":"search","arguments":`+arguments+`}`)
		if in.Problem != nil {
			t.Errorf("%.60s: %v", arguments, in.Problem)
		} else if got := string(in.Payload.(*events.ToolCall).Arguments); got != arguments {
			t.Errorf("%.60s: became %.60s", arguments, got)
		}
	}
}

func TestAnEmptyResultIsAResultWhenItIsWritten(t *testing.T) {
	for _, result := range []string{`null`, `""`, `[]`, `{}`, `0`, `false`} {
		sent := events.ToolResult{RunID: "r1", ToolCallID: "c1", DispatchID: "r1.2", Outcome: events.ResultSucceeded, Result: []byte(result)}
		data, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"run_id":"r1","tool_call_id":"c1","dispatch_id":"r1.2","outcome":"SUCCEEDED","result":` + result + `}`
		if string(data) != want {
			t.Errorf("%s: written as %s", result, data)
		}
		if in := decodeVerb(t, events.VerbToolResult, string(data)); in.Problem != nil {
			t.Errorf("%s: %v", result, in.Problem)
		}
	}
}

func TestTheTypeMustBeThatOfTheVerb(t *testing.T) {
	for _, other := range []string{"harness.run.start.v1", "harness.tool.call.v2", "tool.call", "HARNESS.TOOL.CALL.V1"} {
		in, err := decodeCall(t, header(map[string][]string{"ce-type": {other}}), callData)
		if err != nil {
			t.Errorf("%s: %v", other, err)
		} else if in.Problem == nil || !strings.Contains(in.Problem.Error(), `want "harness.tool.call.v1" on this subject`) {
			t.Errorf("%s: problem %v", other, in.Problem)
		}
	}
}

func TestTheTotalIsAsTheProviderCountsItAndAtLeastTheSum(t *testing.T) {
	for usage, want := range map[events.TokenUsage]int64{
		{}: 0, {InputTokens: 2, OutputTokens: 3}: 5, {InputTokens: 2, OutputTokens: 3, TotalTokens: 4}: 5,
		{InputTokens: 2, OutputTokens: 3, TotalTokens: 5}: 5, {InputTokens: 2, OutputTokens: 3, TotalTokens: 9}: 9,
		{InputTokens: 1 << 40, OutputTokens: 1 << 40}: 1 << 41,
	} {
		if got := usage.Total(); got != want {
			t.Errorf("%+v: %d in all, want %d", usage, got, want)
		}
	}
}

func TestEveryCodeHasOneFixedSentence(t *testing.T) {
	codes := events.Codes()
	if len(codes) != 27 {
		t.Errorf("the set has %d codes, want 27", len(codes))
	}
	seen := map[string]events.Code{}
	for _, code := range codes {
		message := code.Message()
		if len(message) < 10 || len(message) > 120 || !strings.HasSuffix(message, ".") {
			t.Errorf("%s: %q is no short sentence", code, message)
		}
		if other, twice := seen[message]; twice {
			t.Errorf("%s and %s share a sentence", code, other)
		}
		seen[message] = code
	}
	if got := events.Code("NO_SUCH_CODE").Message(); got != "" {
		t.Errorf("a code outside the set says %q", got)
	}
}

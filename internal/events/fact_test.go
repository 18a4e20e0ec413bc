package events_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
)

var decidedAt = time.Date(2026, 1, 1, 12, 0, 0, 123_000_000, time.UTC)

// factOf is the third fact of run r1 with that payload.
func factOf(payload events.Payload) *events.Fact {
	return &events.Fact{
		Agent: "alice", Run: "r1", Sequence: 3, Time: decidedAt,
		Cause: events.Cause{
			Source: "/agents/alice", ID: "e 1", Sequence: 7, Decision: true,
			Trace: events.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "v=1"},
		},
		PreviousDigest: "sha256:00", Rules: events.RulesVersion, Payload: payload,
	}
}

// payloads is one full payload of every kind.
func payloads() []events.Payload {
	yes := true
	later := time.Date(2026, 1, 1, 13, 0, 0, 7_000_000, time.UTC)
	return []events.Payload{
		&events.RunStarted{RunID: "r1", SessionID: "s é\u2028\"\\", Agent: "alice", Policy: "sha256:aa", Deadline: later, ExpiresAt: later.Add(time.Hour),
			Limits: events.Limits{ModelCalls: 1, ToolCalls: 2, CallsPerTool: 3, InputTokens: 4, OutputTokens: 5, TotalTokens: 6, RunBytes: 9223372036854775807}},
		&events.RunRejected{RunID: "r1", Intent: events.VerbRunStart, Code: events.CodeInvalidLimits, Message: events.CodeInvalidLimits.Message(), Limit: "tool_calls"},
		&events.ToolReserved{ToolCallID: "c|1/+=~@.", Tool: "a/b.c \u0001", Executor: "web", Deadline: later, RequestBytes: 12, RequestDigest: "sha256:bb", ArgumentsDigest: "sha256:cc"},
		&events.ToolRejected{RunID: "r1", ToolCallID: "c1", Tool: "search", Code: events.CodeDuplicateToolCall, Message: events.CodeDuplicateToolCall.Message(), SameArguments: &yes, Limit: "run_bytes"},
		&events.ToolSettled{ToolCallID: "c1", Tool: "search", Call: 2, Status: events.StatusReady, Evidence: events.EvidenceFound, Result: []byte(`{"b":1,"a":[2]}`), RawBytes: 4000, RawDigest: "sha256:dd", RawStored: true},
		&events.ToolSettled{ToolCallID: "c1", Tool: "search", Call: 2, Status: events.StatusError, Evidence: events.EvidenceError, Code: events.CodeBudgetExhausted, Message: events.CodeBudgetExhausted.Message(), RawBytes: 4000, Limit: "run_bytes"},
		&events.ToolLate{RunID: "r1", ToolCallID: "c1", Call: 2, Outcome: events.ResultFailed, RawBytes: 9},
		&events.RunEnding{Outcome: events.OutcomeBudgetExhausted, Reason: "BUDGET_EXHAUSTED", Limit: "tool_calls"},
		&events.RunProgress{Observed: []events.Observation{{ToolCallID: "c1", Tool: "search", Call: 2, Evidence: events.EvidenceNone}}, LeftOut: map[string]int64{"ERROR": 2, "EXPIRED": 1}, Steps: 3, Final: true},
		&events.ModelGranted{Operation: events.OperationIntentRouter, OperationID: "o|1", Attempt: 2},
		&events.ModelRejected{RunID: "r1", Intent: events.VerbModelCall, Operation: events.OperationSemanticGuard, OperationID: "o1", Code: events.CodeBudgetExhausted, Message: events.CodeBudgetExhausted.Message(), Limit: "model_calls"},
		&events.ModelRejected{RunID: "r1", Intent: events.VerbModelReport, Code: events.CodeInvalidEnvelope, Message: events.CodeInvalidEnvelope.Message()},
		&events.ModelRecorded{Operation: events.OperationIntentRouter, OperationID: "o1", Attempt: 1, Outcome: events.AttemptFailed, Failure: events.FailureTimeout},
		&events.ModelRecorded{Operation: events.OperationIntentRouter, OperationID: "o1", Attempt: 2, Outcome: events.AttemptSucceeded, Usage: &events.TokenUsage{}},
		&events.ModelRecorded{Operation: events.OperationDiagnosisAgent, OperationID: "o2", Attempt: 1, Outcome: events.AttemptSucceeded, Usage: &events.TokenUsage{InputTokens: 1, OutputTokens: 2, TotalTokens: 1 << 40}, Limit: "total_tokens"},
		&events.ProgressAccepted{Step: 2, Claims: 3, Final: true},
		&events.ProgressInvalid{RunID: "r1", Code: events.InvalidProgressProtocol, Message: "Repair it.", Step: 4, RepairsLeft: 2,
			Violations: []events.Violation{{Code: events.ViolationEnvelope, Claim: -1}, {Code: events.ViolationNoEvidence, Claim: 31, ToolCallID: "c1"}}},
		&events.ProgressInvalid{RunID: "r1", Code: string(events.CodeRunNotActive), Message: events.CodeRunNotActive.Message()},
		&events.RunReleased{Reason: events.ReleaseStalled, GraceUntil: later},
		&events.RunTerminated{Outcome: events.OutcomeSuccess, Reason: "FINISHED_BY_AGENT", EndedAt: decidedAt, Calls: map[string]int64{"READY": 1, "ERROR": 2},
			Usage: events.Usage{ModelCalls: 1, ToolCalls: 3, CallsByTool: map[string]int64{"search": 2, "a/b.c": 1}, InputTokens: 4, OutputTokens: 5, TotalTokens: 9, UnknownUsage: 1, RunBytes: 77}},
	}
}

func TestEveryFactComesBackAsItWasEncoded(t *testing.T) {
	s := wire(t)
	kinds := map[events.Kind]bool{}
	for _, payload := range payloads() {
		kinds[payload.Kind()] = true
		inside := factOf(payload)
		outside := factOf(payload)
		outside.Sequence, outside.PreviousDigest, outside.OutsideKey = 0, "", "in-7"
		outside.Cause.Trace = events.Trace{}
		bare := factOf(payload)
		bare.Sequence, bare.PreviousDigest, bare.Cause = 1, "", events.Cause{ID: "tick", Sequence: 18446744073709551615}
		for _, fact := range []*events.Fact{inside, outside, bare} {
			encoded, err := fact.Encode()
			if err != nil {
				t.Fatalf("%s: %v", payload.Kind(), err)
			}
			decoded, digest, err := events.DecodeFact(s, fact.Subject(s), encoded.Header, encoded.Data)
			if err != nil {
				t.Errorf("%s: %v", payload.Kind(), err)
				continue
			}
			if diff := cmp.Diff(fact, decoded); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", payload.Kind(), diff)
			}
			if digest != encoded.Digest {
				t.Errorf("%s: digest %s, encoded with %s", payload.Kind(), digest, encoded.Digest)
			}
		}
	}
	if len(kinds) != 15 {
		t.Errorf("%d kinds were tried, want 15", len(kinds))
	}
}

func TestAnAgentResultKeepsItsBytesThroughAFact(t *testing.T) {
	for _, result := range []string{
		`null`, `true`, `0`, `""`, `[]`, `{}`,
		`"\u00e9"`, `"é"`, `"\/"`, `"/"`, `"\u003c\u003E<>&"`, `"\u2028` + "\u2028" + `"`, `"\ud83d\ude00😀"`, `"\b\f\u0008\u000A\n\u007f` + "\x7f" + `"`,
		`1.0`, `1e400`, `1E+2`, `-0`, `-0.0`, `0.10`, `9007199254740993`, `123456789012345678901234567890`,
		`{"z":1,"a":2,"\u0061\/":3}`, `[1.0,[1.00,{"k":[]}]]`,
	} {
		fact := factOf(&events.ToolSettled{ToolCallID: "c1", Tool: "search", Call: 2, Status: events.StatusReady, Evidence: events.EvidenceFound, Result: []byte(result)})
		encoded, err := fact.Encode()
		if err != nil {
			t.Errorf("%s: %v", result, err)
			continue
		}
		decoded, _, err := events.DecodeFact(wire(t), fact.Subject(wire(t)), encoded.Header, encoded.Data)
		if err != nil {
			t.Errorf("%s: %v", result, err)
		} else if got := string(decoded.Payload.(*events.ToolSettled).Result); got != result {
			t.Errorf("%s: became %s", result, got)
		}
	}
}

func TestTheOrderOfAMapDoesNotReachAFact(t *testing.T) {
	for range 20 { // maps are ranged over in another order each time
		fact := factOf(&events.RunProgress{LeftOut: map[string]int64{"h": 8, "b": 2, "a": 1, "g": 7, "c": 3, "f": 6, "e": 5, "d": 4}})
		encoded, err := fact.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(encoded.Data), `{"observed":[],"left_out":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8},"steps":0,"final":false}`; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

func TestUnknownUsageShowsAsNullAndKnownZeroAsZero(t *testing.T) {
	for data, usage := range map[string]*events.TokenUsage{
		`{"operation":"INTENT_ROUTER","operation_id":"o1","attempt":1,"outcome":"SUCCEEDED","usage":null}`:                                                  nil,
		`{"operation":"INTENT_ROUTER","operation_id":"o1","attempt":1,"outcome":"SUCCEEDED","usage":{"input_tokens":0,"output_tokens":0}}`:                  {},
		`{"operation":"INTENT_ROUTER","operation_id":"o1","attempt":1,"outcome":"SUCCEEDED","usage":{"input_tokens":3,"output_tokens":0,"total_tokens":4}}`: {InputTokens: 3, TotalTokens: 4},
	} {
		fact := factOf(&events.ModelRecorded{Operation: events.OperationIntentRouter, OperationID: "o1", Attempt: 1, Outcome: events.AttemptSucceeded, Usage: usage})
		encoded, err := fact.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(encoded.Data); got != data {
			t.Errorf("got  %s\nwant %s", got, data)
		}
	}
}

func TestUsageWithAnUnknownNumberIsNoFact(t *testing.T) {
	s := wire(t)
	fact := factOf(&events.ModelRecorded{Operation: events.OperationIntentRouter, OperationID: "o1", Attempt: 1, Outcome: events.AttemptSucceeded})
	encoded, err := fact.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, usage := range []string{`{}`, `{"input_tokens":1}`, `{"input_tokens":null,"output_tokens":1}`, `{"input_tokens":1,"output_tokens":1,"more":1}`, `7`} {
		data := strings.Replace(string(encoded.Data), "null", usage, 1)
		if f, _, err := events.DecodeFact(s, fact.Subject(s), encoded.Header, []byte(data)); err == nil {
			t.Errorf("%s: read as %+v", usage, f.Payload)
		}
	}
}

func TestAPayloadThatIsNoJSONIsNotEncoded(t *testing.T) {
	for _, result := range []string{`{"a":`, `{"a":1,"a":2}`, "\"\xff\"", `"\ud800"`, `1 2`} {
		if encoded, err := factOf(&events.ToolSettled{Result: []byte(result)}).Encode(); err == nil {
			t.Errorf("%q: encoded as %s", result, encoded.Data)
		}
	}
}

func TestTheAttributesOfAFactAreExactlyThese(t *testing.T) {
	fact := factOf(&events.RunEnding{Outcome: events.OutcomeSuccess, Reason: "FINISHED_BY_AGENT"})
	fact.Time = time.Date(2026, 1, 1, 14, 0, 0, 5_999_999, time.FixedZone("", 2*3600)) // told in UTC, in milliseconds
	encoded, err := fact.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"ce-causationid":       {"e%201"},
		"ce-causationsequence": {"7"},
		"ce-causationsource":   {"/agents/alice"},
		"ce-correlationid":     {"r1"},
		"ce-datacontenttype":   {"application/json"},
		"ce-dataschema":        {"urn:runledger:schema:harness.run.ending.v1"},
		"ce-decision":          {"true"},
		"ce-id":                {"r1.3"},
		"ce-partitionkey":      {"r1"},
		"ce-previousdigest":    {"sha256:00"},
		"ce-rulesversion":      {"1"},
		"ce-sequence":          {"00000000000000000003"},
		"ce-source":            {"/agents/alice/runs/r1"},
		"ce-specversion":       {"1.0"},
		"ce-time":              {"2026-01-01T12:00:00.005Z"},
		"ce-traceparent":       {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"ce-tracestate":        {"v=1"},
		"ce-type":              {"harness.run.ending.v1"},
	}
	if diff := cmp.Diff(want, encoded.Header); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, want := string(encoded.Data), `{"outcome":"SUCCESS","reason":"FINISHED_BY_AGENT"}`; got != want {
		t.Errorf("data %s, want %s", got, want)
	}

	outside := &events.Fact{
		Agent: "bob", Run: "r1", OutsideKey: "in-7", Time: decidedAt, Rules: "1",
		Cause:   events.Cause{ID: "tick", Sequence: 7},
		Payload: &events.RunRejected{RunID: "r1", Intent: "run.cancel", Code: "RUN_NOT_FOUND", Message: "There is no such run."},
	}
	if encoded, err = outside.Encode(); err != nil {
		t.Fatal(err)
	}
	want = map[string][]string{
		"ce-causationid":       {"tick"},
		"ce-causationsequence": {"7"},
		"ce-correlationid":     {"r1"},
		"ce-datacontenttype":   {"application/json"},
		"ce-dataschema":        {"urn:runledger:schema:harness.run.rejected.v1"},
		"ce-decision":          {"false"},
		"ce-id":                {"outside.in-7"},
		"ce-partitionkey":      {"r1"},
		"ce-rulesversion":      {"1"},
		"ce-source":            {"/agents/bob/runs/r1"},
		"ce-specversion":       {"1.0"},
		"ce-time":              {"2026-01-01T12:00:00.123Z"},
		"ce-type":              {"harness.run.rejected.v1"},
	}
	if diff := cmp.Diff(want, encoded.Header); diff != "" {
		t.Errorf("outside: (-want +got)\n%s", diff)
	}
	if got, want := outside.Subject(wire(t)), "harness.v1.outside.bob.r1.run.rejected.in-7"; got != want {
		t.Errorf("outside: subject %s, want %s", got, want)
	}
}

func TestOnlyAHigherRulesVersionIsANewerOne(t *testing.T) {
	if err := events.CheckRules("1"); err != nil {
		t.Errorf("ours: got %v", err)
	}
	for version, newer := range map[string]bool{"2": true, "10": true, "0": false, "": false, "01": false, "-1": false, "x": false, "99999999999": false} {
		if err := events.CheckRules(version); err == nil || errors.Is(err, events.ErrNewer) != newer {
			t.Errorf("%q: got %v, want it refused, and as newer: %t", version, err, newer)
		}
	}
}

func TestAStoredFactThatContradictsItselfIsRefused(t *testing.T) {
	s := wire(t)
	good := factOf(&events.RunEnding{Outcome: events.OutcomeSuccess, Reason: "FINISHED_BY_AGENT"})
	for name, c := range map[string]struct {
		subject string
		change  map[string][]string // of the header; nil values remove
		data    string
		want    string
	}{
		"another prefix":     {subject: "other.v1.fact.alice.r1.run.ending", want: "fact subject: want"},
		"no fact":            {subject: "harness.v1.in.agent.alice.r1.run.finish", want: "fact subject: want"},
		"cut subject":        {subject: "harness.v1.fact.alice.r1.run", want: "fact subject: want"},
		"empty subject":      {subject: "-", want: "fact subject: want"},
		"unknown kind":       {subject: "harness.v1.fact.alice.r1.run.paused", want: `kind "run.paused": written by a newer version`},
		"newer rules":        {change: map[string][]string{"ce-rulesversion": {"2"}}, want: `rules version: want "1", got "2": written by a newer version`},
		"rules 01":           {change: map[string][]string{"ce-rulesversion": {"01"}}, want: `rules version: want "1", got "01"`},
		"no rules":           {change: map[string][]string{"ce-rulesversion": nil}, want: "rules version"},
		"no sequence":        {change: map[string][]string{"ce-sequence": nil}, want: "a sequence exactly where"},
		"sequence zero":      {change: map[string][]string{"ce-sequence": {"00000000000000000000"}}, want: "a sequence exactly where"},
		"sequence outside":   {subject: "harness.v1.outside.alice.r1.run.ending.in-7", want: "a sequence exactly where"},
		"negative sequence":  {change: map[string][]string{"ce-sequence": {"-1"}}, want: "attribute sequence"},
		"sequence 2^64":      {change: map[string][]string{"ce-sequence": {"18446744073709551616"}}, want: "attribute sequence"},
		"causation sequence": {change: map[string][]string{"ce-causationsequence": {"x"}}, want: "attribute causationsequence"},
		"decision":           {change: map[string][]string{"ce-decision": {"maybe"}}, want: "attribute decision"},
		"time":               {change: map[string][]string{"ce-time": {"noon"}}, want: "attribute time"},
		"two values":         {change: map[string][]string{"ce-id": {"a", "b"}}, want: "want one value"},
		"unknown member":     {data: `{"outcome":"SUCCESS","reason":"R","more":1}`, want: "unknown"},
		"member twice":       {data: `{"outcome":"SUCCESS","outcome":"FAILED"}`, want: "duplicate"},
		"no data":            {data: "-", want: "fact on"},
	} {
		encoded, err := good.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for key, values := range c.change {
			if values == nil {
				delete(encoded.Header, key)
			} else {
				encoded.Header[key] = values
			}
		}
		subject, data := good.Subject(s), encoded.Data
		if c.subject != "" {
			subject = strings.TrimPrefix(c.subject, "-")
		}
		if c.data != "" {
			data = []byte(strings.TrimPrefix(c.data, "-"))
		}
		if fact, _, err := events.DecodeFact(s, subject, encoded.Header, data); err == nil {
			t.Errorf("%s: decoded as %+v", name, fact)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %q, want it to say %q", name, err, c.want)
		}
	}
}

// digestByHand computes a digest from what lies on the wire, by the sentence
// that defines it and by none of the code that it checks.
func digestByHand(t *testing.T, header map[string][]string, data []byte) string {
	t.Helper()
	lines := make([]string, 0, len(header))
	for key, values := range header {
		value := values[0]
		for code := range 256 {
			value = strings.ReplaceAll(value, fmt.Sprintf("%%%02X", code), string([]byte{byte(code)}))
		}
		lines = append(lines, fmt.Sprintf("%s=%d:%s\n", strings.TrimPrefix(key, "ce-"), len(value), value))
	}
	slices.Sort(lines) // no name here is the beginning of another
	sum := sha256.Sum256([]byte(strings.Join(lines, "") + "\n" + string(data)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestTheDigestIsTheOneThatIsDocumented(t *testing.T) {
	for _, payload := range payloads() {
		fact := factOf(payload)
		fact.Cause.ID = "é \"1\""
		encoded, err := fact.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if want := digestByHand(t, encoded.Header, encoded.Data); encoded.Digest != want {
			t.Errorf("%s: %s, want %s", payload.Kind(), encoded.Digest, want)
		}
	}
	// Values that were computed with sha256sum.
	if got, want := events.DigestBytes(nil), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; got != want {
		t.Errorf("of nothing: %s, want %s", got, want)
	}
	if got, want := events.DigestBytes([]byte("abc")), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; got != want {
		t.Errorf("of abc: %s, want %s", got, want)
	}
	got := events.Digest([]events.Attribute{{Name: "id", Value: "é"}, {Name: "type", Value: ""}}, []byte("{}"))
	if want := "sha256:c1540a152c065b64e7bd974c967b903812dcda2627785c188407eab13058f017"; got != want {
		t.Errorf("of a small event: %s, want %s", got, want)
	}
}

func TestTheDigestCoversEveryAttributeAndTheData(t *testing.T) {
	fact := factOf(&events.RunEnding{Outcome: events.OutcomeSuccess, Reason: "R"})
	encoded, err := fact.Encode()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{encoded.Digest: "nothing"}
	note := func(what string, header map[string][]string, data []byte) {
		_, digest, err := events.DecodeFact(wire(t), fact.Subject(wire(t)), header, data)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if other, twice := seen[digest]; twice {
			t.Errorf("a change of %s gives the digest of a change of %s", what, other)
		}
		seen[digest] = what
	}
	for _, name := range []string{"ce-causationid", "ce-causationsource", "ce-correlationid", "ce-id", "ce-partitionkey", "ce-previousdigest", "ce-source", "ce-traceparent", "ce-tracestate", "ce-type", "ce-dataschema"} {
		h := map[string][]string{}
		for key, values := range encoded.Header {
			h[key] = values
		}
		h[name] = []string{h[name][0] + "x"}
		note(name, h, encoded.Data)
	}
	note("data", encoded.Header, []byte(`{"outcome":"FAILED","reason":"R"}`))
	note("white space", encoded.Header, []byte(`{"outcome":"SUCCESS","reason":"R" }`))
}

package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/policy"
)

const smallest = `version: 1
tools:
  - name: look
    executor: eyes
    timeout: 10s
grants:
  - agent: "*"
    tools: ["*"]
`

const complete = `# every key there is
version: 1
tools:
  - name: get.user/details
    executor: airline
    read_only: true
    timeout: 1m30s
    input_schema: {type: object, required: [user_id], properties: {user_id: {type: string}}}
    projector: {name: json, keep: [name, {path: "items[].id", as: item}], max_items: 5, max_bytes: 8KiB, max_string: 100, max_depth: 4, max_input: 2KiB, max_cost: 5000, parse_text: true, scope: [query], no_evidence_when_empty: [items]}
  - {name: other, executor: second, timeout: 1ms}
  - {name: third, executor: airline, timeout: 24h}
grants:
  - agent: bot-1
    tools: [other, get.user/details]
  - agent: "*"
    tools: [third]
ceilings: {model_calls: 1, tool_calls: 2, calls_per_tool: 3, input_tokens: 4, output_tokens: 5, total_tokens: 6, run_bytes: 7MiB}
bytes: {request: 1KiB, raw_response: 2 KiB, record: 3072, agent_result: 8KiB}
longest_run: 336h
ttl: 1s
allow_colon_in_tool_call_ids: true
observed: 7
progress: {max_repairs: 2, max_repeats: 5, grace: 1m}
`

func parse(t *testing.T, text string) *harness.Policy {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEveryKeyReachesThePolicy(t *testing.T) {
	p := parse(t, complete)
	if p.Digest != events.DigestBytes([]byte(complete)) {
		t.Errorf("digest %s, want that of the bytes", p.Digest)
	}
	if want := (events.Limits{ModelCalls: 1, ToolCalls: 2, CallsPerTool: 3, InputTokens: 4, OutputTokens: 5, TotalTokens: 6, RunBytes: 7 << 20}); p.Ceilings != want {
		t.Errorf("ceilings %+v", p.Ceilings)
	}
	if want := (harness.ByteLimits{Request: 1024, RawResponse: 2048, Record: 3072, AgentResult: 8192}); p.Bytes != want {
		t.Errorf("bytes %+v", p.Bytes)
	}
	if p.LongestRun != 14*24*time.Hour || p.TTL != time.Second || !p.AllowColon || p.Observed != 7 {
		t.Errorf("got %s %s %t %d", p.LongestRun, p.TTL, p.AllowColon, p.Observed)
	}
	if want := (harness.ProgressLimits{MaxRepairs: 2, MaxRepeats: 5, Grace: time.Minute}); p.Progress != want {
		t.Errorf("progress %+v", p.Progress)
	}
	tool := p.Tools["get.user/details"]
	if tool.Name != "get.user/details" || tool.Executor != "airline" || !tool.ReadOnly || tool.Timeout != 90*time.Second {
		t.Errorf("tool %+v", tool)
	}
	if err := tool.Input.Check([]byte(`{"user_id":"x"}`)); err != nil {
		t.Errorf("good arguments: %v", err)
	}
	if err := tool.Input.Check([]byte(`{"user_id":5}`)); err == nil {
		t.Error("bad arguments were taken")
	}
	projection, err := tool.Projector.Project([]byte(`"{\"name\":\"n\",\"secret\":1,\"items\":[{\"id\":1},{\"id\":2},{\"id\":3},{\"id\":4},{\"id\":5},{\"id\":6}],\"query\":\"q\"}"`))
	if want := `{"result":{"name":"n","items":[{"item":1},{"item":2},{"item":3},{"item":4},{"item":5}]},"scope":{"query":"q"},"left_out":{"items":1,"paths":2}}`; err != nil || string(projection.Result) != want {
		t.Errorf("got  %s %v\nwant %s", projection.Result, err, want)
	}
	for _, grant := range []struct {
		agent, tool string
		want        bool
	}{{"bot-1", "other", true}, {"bot-1", "third", true}, {"bot-2", "third", true}, {"bot-2", "other", false}} {
		if got := p.Granted(grant.agent, grant.tool); got != grant.want {
			t.Errorf("%s may call %s: %t, want %t", grant.agent, grant.tool, got, grant.want)
		}
	}
	if got := strings.Join(policy.Executors(p), " "); got != "airline second" {
		t.Errorf("executors %q, want airline and second", got)
	}
}

func TestDefaultsAreThoseOfTheDocumentation(t *testing.T) {
	p := parse(t, smallest)
	if want := (events.Limits{ModelCalls: 1000, ToolCalls: 1000, CallsPerTool: 1000, InputTokens: 10_000_000, OutputTokens: 1_000_000, TotalTokens: 11_000_000, RunBytes: 67_108_864}); p.Ceilings != want {
		t.Errorf("ceilings %+v", p.Ceilings)
	}
	if want := (harness.ByteLimits{Request: 262_144, RawResponse: 786_432, Record: 1_048_576, AgentResult: 32_768}); p.Bytes != want {
		t.Errorf("bytes %+v", p.Bytes)
	}
	if p.LongestRun != time.Hour || p.TTL != 24*time.Hour || p.AllowColon || p.Observed != 100 {
		t.Errorf("got %s %s %t %d", p.LongestRun, p.TTL, p.AllowColon, p.Observed)
	}
	if want := (harness.ProgressLimits{MaxRepairs: 3, MaxRepeats: 10, Grace: 30 * time.Second}); p.Progress != want {
		t.Errorf("progress %+v", p.Progress)
	}
	tool := p.Tools["look"]
	if tool.ReadOnly || tool.Input != nil || tool.Projector == nil {
		t.Errorf("want a tool that is not read-only, takes any object and has a projector, got %+v", tool)
	}
}

func TestTheDigestNamesTheExactBytes(t *testing.T) {
	a, b := parse(t, smallest), parse(t, smallest+"# a remark\n")
	if a.Digest == b.Digest {
		t.Error("two files, one digest")
	}
	if a.Digest != parse(t, smallest).Digest {
		t.Error("one file, two digests")
	}
	if a.Digest != "sha256:10d74ee5ba057df5d6d7e47d3cb55ca691d182ef7bebe3e1ac79830cb6db96fa" {
		t.Errorf("digest %s", a.Digest)
	}
}

func TestTheDefaultProjectorKeepsToASmallerAgentResult(t *testing.T) {
	raw := []byte(`["` + strings.Repeat(`aaaaaaaa","`, 20) + `b"]`)
	projection, err := parse(t, smallest+"bytes: {agent_result: 100}\n").Tools["look"].Projector.Project(raw)
	if err != nil || len(projection.Result) > 100 || !strings.Contains(string(projection.Result), "left_out") {
		t.Errorf("want at most 100 bytes that say what was left out, got %s %v", projection.Result, err)
	}
}

// edit puts a line in place of another one of the smallest policy.
func edit(old, with string) string {
	if !strings.Contains(smallest, old) {
		panic("no " + old)
	}
	return strings.Replace(smallest, old, with, 1)
}

func TestABadPolicyIsRefusedWithThePlaceAndWhatIsWanted(t *testing.T) {
	for _, test := range policyFaults() {
		t.Run(test.name, func(t *testing.T) { checkFault(t, test.text, test.want) })
	}
}

func TestABadInputSchemaIsRefusedWithThePlaceAndWhatIsWanted(t *testing.T) {
	for _, test := range schemaFaults() {
		t.Run(test.name, func(t *testing.T) { checkFault(t, tool("    input_schema: "+test.text+"\n"), test.want) })
	}
}

func checkFault(t *testing.T, text string, want []string) {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte(text))
	if err == nil || p != nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
	var typed *policy.Error
	if !errors.As(err, &typed) || len(typed.Problems) != len(want) {
		t.Errorf("want an *Error with %d problems, got %T", len(want), err)
	}
}

func TestAnErrorShowsFiftyProblemsAndCountsTheRest(t *testing.T) {
	_, err := policy.Parse("p.yaml", []byte(smallest+strings.Repeat("x", 1)+": 1\n"+manyUnknownKeys(60)))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 51 || lines[50] != "p.yaml: and 11 more" {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func manyUnknownKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("key" + strings.Repeat("y", i) + ": 1\n")
	}
	return b.String()
}

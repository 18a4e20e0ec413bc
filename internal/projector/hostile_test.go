package projector_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/projector"
)

type projectorFunc func(raw []byte) (harness.Projection, error)

func (f projectorFunc) Project(raw []byte) (harness.Projection, error) { return f(raw) }

const canary = "canary-7f3a"

// settle gives the fact that the rules make of a raw response.
func settle(t *testing.T, p harness.Projector, raw string) *events.ToolSettled {
	t.Helper()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	most := int64(1 << 40)
	rules := &harness.Rules{Policy: &harness.Policy{
		Tools: map[string]harness.Tool{"look": {Name: "look", Executor: "eyes", ReadOnly: true, Timeout: time.Minute, Projector: p}},
		Bytes: harness.ByteLimits{Request: 1 << 20, RawResponse: 8 << 20, Record: 8 << 20, AgentResult: 32 << 10},
	}}
	run := &harness.Run{
		ID: "r1", Agent: "bot", Phase: harness.PhaseRunning, Sequence: 2, Deadline: noon.Add(time.Hour), ExpiresAt: noon.Add(2 * time.Hour),
		Limits: events.Limits{ModelCalls: most, ToolCalls: most, CallsPerTool: most, InputTokens: most, OutputTokens: most, TotalTokens: most, RunBytes: most},
	}
	call := &harness.Record{RunID: "r1", ToolCallID: "c1", Tool: "look", Executor: "eyes", Call: 2, Status: events.StatusProjecting, ExpiresAt: run.ExpiresAt, Deadline: noon.Add(time.Minute)}
	in := &events.Inbound{
		Address:  events.Address{Role: events.RoleExecutor, Principal: "eyes", Run: "r1", Verb: events.VerbToolResult},
		Sequence: 3, ID: "e3", Source: "/executors/eyes", Time: noon,
		Payload: &events.ToolResult{RunID: "r1", ToolCallID: "c1", DispatchID: events.DispatchID("r1", 2), Outcome: events.ResultSucceeded, Result: []byte(raw)},
	}
	decision := rules.Decide(&harness.State{Run: run, Records: map[string]*harness.Record{"c1": call}}, in, noon)
	settled, ok := decision.Fact.Payload.(*events.ToolSettled)
	if !ok || strings.Contains(decision.Detail, canary) {
		t.Fatalf("got %+v", decision)
	}
	return settled
}

// checkFailed wants PROJECTION_FAILED with the raw response kept, and nothing of
// it told.
func checkFailed(t *testing.T, name, raw string, p *events.ToolSettled) {
	t.Helper()
	if p.Status != events.StatusError || p.Evidence != events.EvidenceError || p.Code != events.CodeProjectionFailed || p.Result != nil ||
		p.Message != "The result could not be reduced to a safe form." ||
		!p.RawStored || p.RawBytes != int64(len(raw)) || p.RawDigest != events.DigestBytes([]byte(raw)) {
		t.Errorf("%s: got %+v", name, p)
	}
}

func TestAHostileProjectorIsProjectionFailedWithTheRawResponseKept(t *testing.T) {
	const raw = `{"secret":"` + canary + `"}`
	gives := func(result string, evidence events.Evidence) projectorFunc {
		return func([]byte) (harness.Projection, error) {
			return harness.Projection{Result: []byte(result), Evidence: evidence}, nil
		}
	}
	for name, p := range map[string]projectorFunc{
		"a panic":             func([]byte) (harness.Projection, error) { panic(canary) },
		"a bad index":         func(raw []byte) (harness.Projection, error) { return harness.Projection{Result: raw[:len(raw)+1]}, nil },
		"an error":            func([]byte) (harness.Projection, error) { return harness.Projection{}, errors.New(canary) },
		"no evidence at all":  gives(`{}`, ""),
		"evidence ERROR":      gives(`{}`, events.EvidenceError),
		"unknown evidence":    gives(`{}`, "MAYBE"),
		"no result":           gives(``, found),
		"a result that is no": gives(`{"a":`, found),
		"two results":         gives(`{} {}`, found),
		"a name twice":        gives(`{"a":1,"a":2}`, nothing),
		"invalid UTF-8":       gives("\"\xff\"", found),
	} {
		checkFailed(t, name, raw, settle(t, p, raw))
	}
}

func TestWhatAProjectorRefusesIsProjectionFailedWithTheRawResponseKept(t *testing.T) {
	cheap := func(c *projector.JSONConfig) { c.MaxCost = projector.MinCost }
	large := `["` + canary + `"` + strings.Repeat(`,1`, 50_000) + `]`
	for name, test := range map[string]struct {
		config projector.Config
		raw    string
	}{
		"too costly to read":            {jsons(cheap), large},
		"too costly to render":          {jsons(cheap, func(c *projector.JSONConfig) { c.MaxItems, c.MaxBytes = 4000, 9000 }), `["` + canary + `"` + strings.Repeat(`,1`, 3000) + `]`},
		"an expression that fails":      {jsons(func(c *projector.JSONConfig) { c.Evidence = "size(result.rows) > 0" }), `{"error":"` + canary + `"}`},
		"an expression that is costly":  {jsons(func(c *projector.JSONConfig) { c.Evidence = "result.all(x, result.all(y, y != 7))" }), large},
		"an MCP error":                  {mcp(), `{"isError":true,"content":[{"type":"text","text":"Unknown tool: ` + canary + `"}]}`},
		"an error instead of rows":      {rows(), `{"error":"` + canary + `"}`},
		"an error instead of passages":  {passages(), `{"error":"` + canary + `"}`},
		"a number instead of a log":     {logs(), `{"lines":7,"x":"` + canary + `"}`},
		"a number instead of a text":    {texts(), `{"text":7,"x":"` + canary + `"}`},
		"a scope that is not there":     {texts(func(c *projector.TextConfig) { c.Scope = []string{"q"} }), `{"text":"` + canary + `"}`},
		"a name twice":                  {jsons(), `{"` + canary + `":1,"` + canary + `":2}`},
		"a lone surrogate":              {texts(), `"` + canary + `\ud800"`},
		"nested ten thousand times":     {rows(), strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)},
		"deeper than an expression may": {rows(func(c *projector.RowsConfig) { c.Evidence = "true" }), strings.Repeat("[", 200) + strings.Repeat("]", 200)},
	} {
		checkFailed(t, name, test.raw, settle(t, compile(t, test.config), test.raw))
	}
}

func TestAResultWithinItsBoundSettlesAsReady(t *testing.T) {
	p := settle(t, compile(t, rows(func(c *projector.RowsConfig) { c.Scope = []string{"table"} })), `{"table":"orders","rows":[]}`)
	if p.Status != events.StatusReady || p.Evidence != nothing || string(p.Result) != `{"rows":[],"total":0,"scope":{"table":"orders"}}` || p.Code != "" || !p.RawStored {
		t.Errorf("got %+v", p)
	}
}

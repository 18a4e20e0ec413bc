package harness_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// noon is when every test begins; runs start at noon and have a minute.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// after gives the instant that long after noon.
func after(d time.Duration) time.Time { return noon.Add(d) }

// projectorFunc is a projector that a test writes down.
type projectorFunc func(raw []byte) (harness.Projection, error)

func (f projectorFunc) Project(raw []byte) (harness.Projection, error) { return f(raw) }

// echo shows the agent the raw response as it is; what is empty is no evidence.
func echo(raw []byte) (harness.Projection, error) {
	p := harness.Projection{Result: raw, Evidence: events.EvidenceFound}
	switch string(raw) {
	case `null`, `""`, `[]`, `{}`:
		p.Evidence = events.EvidenceNone
	}
	return p, nil
}

// schemaFunc is an input schema that a test writes down.
type schemaFunc func(arguments []byte) error

func (f schemaFunc) Check(arguments []byte) error { return f(arguments) }

// wantsQ is the input schema of search.
func wantsQ(arguments []byte) error {
	if !bytes.Contains(arguments, []byte(`"q"`)) {
		return errors.New("q is missing")
	}
	return nil
}

// testPolicy has two read-only tools of two executors, one tool that writes, and
// one that only carol may call.
func testPolicy() *harness.Policy {
	tools := map[string]harness.Tool{}
	for _, tool := range []harness.Tool{
		{Name: "search", Executor: "web", ReadOnly: true, Timeout: 10 * time.Second, Input: schemaFunc(wantsQ)},
		{Name: "read_file", Executor: "files", ReadOnly: true, Timeout: 2 * time.Minute},
		{Name: "delete_file", Executor: "files", Timeout: 10 * time.Second},
		{Name: "salaries", Executor: "web", ReadOnly: true, Timeout: 10 * time.Second},
	} {
		tool.Projector = projectorFunc(echo)
		tools[tool.Name] = tool
	}
	const ceiling = 1 << 40
	return &harness.Policy{
		Digest: "sha256:policy", Tools: tools,
		Grants:     map[string][]string{"alice": {"search", "read_file", "delete_file"}, "carol": {"*"}, "*": {"search"}},
		Ceilings:   events.Limits{ModelCalls: ceiling, ToolCalls: ceiling, CallsPerTool: ceiling, InputTokens: ceiling, OutputTokens: ceiling, TotalTokens: ceiling, RunBytes: ceiling},
		Bytes:      harness.ByteLimits{Request: 1000, RawResponse: 1000, Record: 1500, AgentResult: 500},
		LongestRun: time.Hour, TTL: 24 * time.Hour, Observed: 100,
		Progress: harness.ProgressLimits{MaxRepairs: 2, MaxRepeats: 3, Grace: 20 * time.Second},
	}
}

func testRules() *harness.Rules {
	return &harness.Rules{Policy: testPolicy(), Progress: testProgress{}}
}

// testProgress judges progress by small rules that a test can follow.
type testProgress struct{}

// Check finds one violation at most of each support: a claim needs calls of this
// run that are READY, and evidence unless it is negative.
func (testProgress) Check(report *events.ProgressReport, record func(string) *harness.Record, now time.Time) (wrong []events.Violation) {
	for i, claim := range report.Claims {
		if len(claim.Supports) == 0 {
			wrong = append(wrong, events.Violation{Code: "CLAIM_UNSUPPORTED", Claim: i})
		}
		for _, id := range claim.Supports {
			code := events.ViolationCode("")
			switch r := record(id); {
			case r == nil:
				code = "UNKNOWN_CALL"
			case !now.Before(r.ExpiresAt):
				code = "CALL_EXPIRED"
			case r.Status != events.StatusReady:
				code = "CALL_NOT_READY"
			case r.Evidence == events.EvidenceNone && !claim.Negative:
				code = "NO_EVIDENCE"
			}
			if harness.CheckToolCallID(id, true) != nil {
				id = "" // nothing is repeated that no id can be
			}
			if code != "" {
				wrong = append(wrong, events.Violation{Code: code, Claim: i, ToolCallID: id})
			}
		}
	}
	return wrong
}

// Project tells READY calls in order of reservation.
func (testProgress) Project(_ *harness.Run, completed []harness.Record, _ time.Time, most int) *events.RunProgress {
	p := &events.RunProgress{Observed: []events.Observation{}}
	for _, c := range completed {
		switch {
		case c.Status == events.StatusReady && len(p.Observed) < most:
			p.Observed = append(p.Observed, events.Observation{ToolCallID: c.ToolCallID, Tool: c.Tool, Call: c.Call, Evidence: c.Evidence})
		default:
			if p.LeftOut == nil {
				p.LeftOut = map[string]int64{}
			}
			p.LeftOut[string(c.Status)]++
		}
	}
	return p
}

func TestAGrantIsByNameOrByStarAndNothingElse(t *testing.T) {
	p := testPolicy()
	for _, c := range []struct {
		agent, tool string
		want        bool
	}{
		{"alice", "search", true}, {"alice", "salaries", false}, {"alice", "SEARCH", false}, {"alice", "*", false},
		{"carol", "salaries", true}, {"carol", "anything", true},
		{"bob", "search", true}, {"bob", "read_file", false}, {"", "search", true}, {"", "salaries", false},
	} {
		if got := p.Granted(c.agent, c.tool); got != c.want {
			t.Errorf("%q may call %q: got %v, want %v", c.agent, c.tool, got, c.want)
		}
	}
}

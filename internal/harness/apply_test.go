package harness_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// chain is a history that a test writes by hand: each fact follows the one
// before it in sequence, digest and time, unless the test breaks it.
type chain struct {
	t     *testing.T
	state harness.State
	now   time.Time
}

func newChain(t *testing.T) *chain {
	t.Helper()
	c := &chain{t: t, now: noon}
	c.mustApply(&events.RunStarted{
		RunID: "r1", SessionID: "s1", Agent: "alice", Policy: "sha256:policy", Deadline: after(time.Minute), ExpiresAt: after(time.Hour),
		Limits: events.Limits{ModelCalls: 10, ToolCalls: 2, CallsPerTool: 2, InputTokens: 10, OutputTokens: 10, TotalTokens: 10, RunBytes: 100},
	})
	return c
}

// next is the next fact of the chain, decided of the next event.
func (c *chain) next(p events.Payload) *events.Fact {
	f := &events.Fact{Agent: "alice", Run: "r1", Sequence: 1, Time: c.now, Rules: events.RulesVersion, Payload: p}
	if run := c.state.Run; run != nil {
		f.Sequence, f.PreviousDigest = run.Sequence+1, run.Digest
	}
	f.Cause = events.Cause{Source: "/a", ID: "e", Sequence: f.Sequence * 10, Decision: true}
	return f
}

func (c *chain) apply(f *events.Fact) error {
	_, err := c.state.Apply(f, harness.Stored{Sequence: f.Sequence * 100, Digest: "digest " + f.ID()})
	return err
}

func (c *chain) mustApply(payloads ...events.Payload) *chain {
	c.t.Helper()
	for _, p := range payloads {
		if err := c.apply(c.next(p)); err != nil {
			c.t.Fatal(err)
		}
	}
	return c
}

func reserved(id string, bytes int64) *events.ToolReserved {
	return &events.ToolReserved{ToolCallID: id, Tool: "search", Executor: "web", Deadline: after(10 * time.Second), RequestBytes: bytes}
}

func ready(id string, call uint64) *events.ToolSettled {
	return &events.ToolSettled{ToolCallID: id, Tool: "search", Call: call, Status: "READY", Evidence: "EVIDENCE_FOUND", Result: []byte(`[1]`), RawBytes: 10, RawStored: true}
}

func failed(id string, call uint64) *events.ToolSettled {
	return &events.ToolSettled{ToolCallID: id, Tool: "search", Call: call, Status: "ERROR", Evidence: "ERROR", Code: "TOOL_TIMEOUT"}
}

func granted(id string, attempt int) *events.ModelGranted {
	return &events.ModelGranted{Operation: "INTENT_ROUTER", OperationID: id, Attempt: attempt}
}

func grants(n int) (all []events.Payload) {
	for i := range n {
		all = append(all, granted(fmt.Sprintf("o%d", i), 1))
	}
	return all
}

func recordedOf(id string, attempt int, inputTokens int64, limit string) *events.ModelRecorded {
	return &events.ModelRecorded{
		Operation: "INTENT_ROUTER", OperationID: id, Attempt: attempt, Outcome: "FAILED", Failure: "TRANSPORT",
		Usage: &events.TokenUsage{InputTokens: inputTokens}, Limit: limit,
	}
}

var (
	released   = &events.RunReleased{Reason: "PROGRESS_STALLED", GraceUntil: noon.Add(10 * time.Second)}
	ending     = &events.RunEnding{Outcome: "SUCCESS", Reason: "FINISHED_BY_AGENT"}
	progress   = &events.RunProgress{Observed: []events.Observation{}}
	terminated = &events.RunTerminated{Outcome: "SUCCESS", Reason: "FINISHED_BY_AGENT"}
)

func TestAHistoryIsAppliedFactByFact(t *testing.T) {
	c := newChain(t)
	c.now = after(time.Second)
	c.mustApply(reserved("c1", 30))
	want := &harness.Run{
		ID: "r1", SessionID: "s1", Agent: "alice", Policy: "sha256:policy",
		Limits:    events.Limits{ModelCalls: 10, ToolCalls: 2, CallsPerTool: 2, InputTokens: 10, OutputTokens: 10, TotalTokens: 10, RunBytes: 100},
		StartedAt: noon, Deadline: after(time.Minute), ExpiresAt: after(time.Hour),
		StartCause: events.Cause{Source: "/a", ID: "e", Sequence: 10, Decision: true},
		Sequence:   2, Stream: 200, Digest: "digest r1.2", At: after(time.Second), Inbound: 20,
		Usage: events.Usage{ToolCalls: 1, CallsByTool: map[string]int64{"search": 1}, RunBytes: 30},
		Open: []*harness.Record{{
			RunID: "r1", ToolCallID: "c1", Tool: "search", Executor: "web", Call: 2, Status: "PROJECTING",
			ReservedAt: after(time.Second), Deadline: after(10 * time.Second), ExpiresAt: after(time.Hour),
			Cause: events.Cause{Source: "/a", ID: "e", Sequence: 20, Decision: true}, RequestBytes: 30,
		}},
		Calls: map[events.Status]int64{}, Phase: "RUNNING",
	}
	if diff := cmp.Diff(want, c.state.Run); diff != "" {
		t.Errorf("reserved: (-want +got)\n%s", diff)
	}

	c.now = after(2 * time.Second)
	c.mustApply(ready("c1", 2), &events.ToolRejected{Code: "DUPLICATE_TOOL_CALL"})
	want.Sequence, want.Stream, want.Digest, want.At, want.Inbound = 4, 400, "digest r1.4", after(2*time.Second), 40
	want.Open, want.Calls = []*harness.Record{}, map[events.Status]int64{"READY": 1}
	want.Usage.RunBytes = 43                                                // 30 of the request, 10 raw, 3 shown
	want.Recent = []harness.Repetition{{Key: 0x869d5e4108d17390, Count: 1}} // printf 'search\n\nREADY \n' | sha256sum
	if diff := cmp.Diff(want, c.state.Run); diff != "" {
		t.Errorf("settled: (-want +got)\n%s", diff)
	}

	c.mustApply(reserved("c2", 1), ending)
	if run := c.state.Run; run.Phase != "ENDING" || run.Termination != (harness.Termination{Outcome: "SUCCESS", Reason: "FINISHED_BY_AGENT", At: after(2 * time.Second)}) {
		t.Errorf("ending: %+v", run)
	}
	c.now = after(3 * time.Second)
	c.mustApply(failed("c2", 5), progress, terminated)
	if run := c.state.Run; run.Phase != "TERMINATED" || !run.ProgressTold || len(run.Open) != 0 || !run.Termination.At.Equal(after(2*time.Second)) || run.Calls["ERROR"] != 1 || run.Usage.ToolCalls != 2 {
		t.Errorf("terminated: %+v", run)
	}
}

func TestApplyGivesTheRecordThatAFactTouched(t *testing.T) {
	c := newChain(t)
	open, err := c.state.Apply(c.next(reserved("c1", 1)), harness.Stored{Sequence: 2, Digest: "d"})
	if err != nil || open == nil || open.Status != "PROJECTING" || c.state.Records["c1"] != open {
		t.Fatalf("reserved: %+v, %v", open, err)
	}
	settled, err := c.state.Apply(c.next(ready("c1", 2)), harness.Stored{Sequence: 3, Digest: "d"})
	if err != nil || settled == nil || settled.Status != "READY" || c.state.Records["c1"] != settled {
		t.Fatalf("settled: %+v, %v", settled, err)
	}
	if open.Status != "PROJECTING" {
		t.Error("a settle changed a record that somebody may be looking at")
	}
	if r, err := c.state.Apply(c.next(&events.ToolRejected{Code: "UNAUTHORIZED"}), harness.Stored{}); r != nil || err != nil {
		t.Errorf("a refusal touched %+v, %v", r, err)
	}
}

func TestOnlyADecisionAdvancesTheAppliedInboundSequence(t *testing.T) {
	c := newChain(t).mustApply(reserved("c1", 1))
	due := c.next(failed("c1", 2))
	due.Cause = events.Cause{ID: "tick", Sequence: 77}
	if err := c.apply(due); err != nil {
		t.Fatal(err)
	}
	if got := c.state.Run.Inbound; got != 20 {
		t.Errorf("the applied sequence is %d, want 20", got)
	}
	if r := c.state.Records["c1"]; r.ResultCause != (events.Cause{}) {
		t.Errorf("a timeout is told as a result of %+v", r.ResultCause)
	}
	decision := c.next(ending)
	decision.Cause.Sequence = 77
	if err := c.apply(decision); err != nil || c.state.Run.Inbound != 77 {
		t.Errorf("the applied sequence is %d, want 77 (%v)", c.state.Run.Inbound, err)
	}
}

func TestAFactOutsideEveryHistoryChangesNothing(t *testing.T) {
	c := newChain(t)
	before := *c.state.Run
	f := &events.Fact{Agent: "bob", Run: "r1", OutsideKey: "in-9", Time: after(time.Hour), Payload: &events.ToolRejected{Code: "RUN_NOT_OWNED"}}
	if err := c.apply(f); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&before, c.state.Run); diff != "" {
		t.Error(diff)
	}
	empty := harness.State{}
	if r, err := empty.Apply(f, harness.Stored{}); r != nil || err != nil || empty.Run != nil {
		t.Errorf("of no run: %+v, %v, %+v", r, err, empty.Run)
	}
}

func TestAFactThatDoesNotFollowFromTheHistoryIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before []events.Payload // after run.started
		fact   events.Payload
		damage func(*events.Fact)
		want   string
	}{
		"a gap":                      {fact: reserved("c1", 1), damage: func(f *events.Fact) { f.Sequence++ }, want: "want sequence 2"},
		"a fact twice":               {fact: reserved("c1", 1), damage: func(f *events.Fact) { f.Sequence-- }, want: "want sequence 2"},
		"another digest":             {fact: reserved("c1", 1), damage: func(f *events.Fact) { f.PreviousDigest = "x" }, want: "want the digest of fact 1"},
		"no digest":                  {fact: reserved("c1", 1), damage: func(f *events.Fact) { f.PreviousDigest = "" }, want: "want the digest of fact 1"},
		"an earlier instant":         {fact: reserved("c1", 1), damage: func(f *events.Fact) { f.Time = f.Time.Add(-time.Millisecond) }, want: "time goes back"},
		"an event decided before":    {fact: reserved("c1", 1), damage: func(f *events.Fact) { f.Cause.Sequence = 10 }, want: "event 10 was decided before"},
		"an earlier event":           {fact: reserved("c1", 1), damage: func(f *events.Fact) { f.Cause.Sequence = 9 }, want: "event 9 was decided before"},
		"a fact of another run":      {fact: reserved("c1", 1), damage: func(f *events.Fact) { f.Run = "r2" }, want: "want a fact of run r1"},
		"a second start":             {fact: &events.RunStarted{RunID: "r1", Limits: events.Limits{ToolCalls: 1 << 40}}, want: "begins with run.started"},
		"a kind of no history":       {fact: &events.ToolLate{}, want: "belongs to no history"},
		"a refused start":            {fact: &events.RunRejected{}, want: "belongs to no history"},
		"an open id again":           {before: []events.Payload{reserved("c1", 1)}, fact: reserved("c1", 1), want: "a call id once"},
		"a call over tool_calls":     {before: []events.Payload{reserved("c1", 1), reserved("c2", 1)}, fact: reserved("c3", 1), want: "tool_calls would be 3, and the limit is 2"},
		"a request over run_bytes":   {fact: reserved("c1", 101), want: "run_bytes would be 101, and the limit is 100"},
		"a result over run_bytes":    {before: []events.Payload{reserved("c1", 88)}, fact: ready("c1", 2), want: "run_bytes would be 101, and the limit is 100"},
		"a call after a used limit":  {before: []events.Payload{&events.ToolRejected{Code: "BUDGET_EXHAUSTED", Limit: "calls_per_tool"}}, fact: reserved("c1", 1), want: "only a running run with budget left reserves"},
		"a settle of nothing":        {fact: ready("c1", 2), want: "call 2 is not open"},
		"a settle twice":             {before: []events.Payload{reserved("c1", 1), ready("c1", 2)}, fact: failed("c1", 2), want: "call 2 is not open"},
		"a settle of another id":     {before: []events.Payload{reserved("c1", 1)}, fact: ready("c2", 2), want: "call 2 is not open"},
		"a settle of another call":   {before: []events.Payload{reserved("c1", 1)}, fact: ready("c1", 3), want: "call 3 is not open"},
		"a settle as PROJECTING":     {before: []events.Payload{reserved("c1", 1)}, fact: &events.ToolSettled{ToolCallID: "c1", Call: 2, Status: "PROJECTING", Evidence: "EVIDENCE_FOUND"}, want: "a call settles"},
		"READY without evidence":     {before: []events.Payload{reserved("c1", 1)}, fact: &events.ToolSettled{ToolCallID: "c1", Call: 2, Status: "READY"}, want: "a call settles"},
		"READY with evidence ERROR":  {before: []events.Payload{reserved("c1", 1)}, fact: &events.ToolSettled{ToolCallID: "c1", Call: 2, Status: "READY", Evidence: "ERROR"}, want: "a call settles"},
		"ERROR with evidence":        {before: []events.Payload{reserved("c1", 1)}, fact: &events.ToolSettled{ToolCallID: "c1", Call: 2, Status: "ERROR", Evidence: "NO_EVIDENCE"}, want: "a call settles"},
		"a second ending":            {before: []events.Payload{ending}, fact: &events.RunEnding{Outcome: "FAILED"}, want: "the outcome is fixed already"},
		"a call after the ending":    {before: []events.Payload{ending}, fact: reserved("c1", 1), want: "only a running run with budget left reserves"},
		"a refusal after the ending": {before: []events.Payload{ending}, fact: &events.ToolRejected{Code: "UNAUTHORIZED"}, want: "only a running run"},
		"progress of a running run":  {fact: progress, want: "progress is told once"},
		"progress before all is in":  {before: []events.Payload{reserved("c1", 1), ending}, fact: progress, want: "progress is told once"},
		"progress twice":             {before: []events.Payload{ending, progress}, fact: progress, want: "progress is told once"},
		"terminated while running":   {fact: terminated, want: "terminates once"},
		"terminated with open calls": {before: []events.Payload{reserved("c1", 1), ending}, fact: terminated, want: "terminates once"},
		"terminated, no progress":    {before: []events.Payload{ending}, fact: terminated, want: "terminates once"},
		"terminated otherwise":       {before: []events.Payload{ending, progress}, fact: &events.RunTerminated{Outcome: "FAILED"}, want: "terminates once"},
		"terminated twice":           {before: []events.Payload{ending, progress, terminated}, fact: terminated, want: "the run has terminated"},
		"anything after the end":     {before: []events.Payload{ending, progress, terminated}, fact: reserved("c1", 1), want: "the run has terminated"},

		"a grant after the ending":         {before: []events.Payload{ending}, fact: granted("o1", 1), want: "only a running run"},
		"a grant after a used limit":       {before: []events.Payload{&events.ModelRejected{Code: "BUDGET_EXHAUSTED", Limit: "model_calls"}}, fact: granted("o1", 1), want: "only a run with budget left"},
		"a grant after passed tokens":      {before: []events.Payload{granted("o1", 1), recordedOf("o1", 1, 11, "input_tokens")}, fact: granted("o2", 1), want: "only a run with budget left"},
		"a grant after tokens, untold":     {before: []events.Payload{granted("o1", 1), recordedOf("o1", 1, 11, "")}, fact: granted("o2", 1), want: "input_tokens would be 11, and the limit is 10"},
		"a grant after the release":        {before: []events.Payload{released}, fact: granted("o1", 1), want: "only a run with budget left that is not released"},
		"a call after the release":         {before: []events.Payload{released}, fact: reserved("c1", 1), want: "only a running run with budget left"},
		"a grant while one is open":        {before: []events.Payload{granted("o1", 1)}, fact: granted("o1", 2), want: "an attempt is granted when the one before it has ended"},
		"a grant that leaves one out":      {before: []events.Payload{granted("o1", 1), recordedOf("o1", 1, 1, "")}, fact: granted("o1", 3), want: "an attempt is granted when the one before it has ended"},
		"a grant again":                    {before: []events.Payload{granted("o1", 1), recordedOf("o1", 1, 1, "")}, fact: granted("o1", 1), want: "an attempt is granted when the one before it has ended"},
		"a grant over model_calls":         {before: grants(10), fact: granted("o", 1), want: "model_calls would be 11, and the limit is 10"},
		"a record of another attempt":      {before: []events.Payload{granted("o1", 1)}, fact: recordedOf("o1", 2, 1, ""), want: "the attempt is not open"},
		"a record twice":                   {before: []events.Payload{granted("o1", 1), recordedOf("o1", 1, 1, "")}, fact: recordedOf("o1", 1, 1, ""), want: "the attempt is not open"},
		"a record after the ending":        {before: []events.Payload{granted("o1", 1), ending}, fact: recordedOf("o1", 1, 1, ""), want: "only a running run"},
		"a refused attempt after it":       {before: []events.Payload{ending}, fact: &events.ModelRejected{Code: "RETRY_NOT_ALLOWED"}, want: "only a running run"},
		"a step that leaves one out":       {fact: &events.ProgressAccepted{Step: 2}, want: "want step 1"},
		"a step twice":                     {before: []events.Payload{&events.ProgressAccepted{Step: 1}}, fact: &events.ProgressAccepted{Step: 1}, want: "want step 2"},
		"a step after the final one":       {before: []events.Payload{&events.ProgressAccepted{Step: 1, Final: true}}, fact: &events.ProgressAccepted{Step: 2}, want: "none after a final report"},
		"a step after the ending":          {before: []events.Payload{ending}, fact: &events.ProgressAccepted{Step: 1}, want: "only a running run"},
		"a wrong report after the ending":  {before: []events.Payload{ending}, fact: &events.ProgressInvalid{Code: "INVALID_PROGRESS_PROTOCOL"}, want: "only a running run"},
		"a release after the ending":       {before: []events.Payload{ending}, fact: released, want: "only a running run"},
		"a second release":                 {before: []events.Payload{released}, fact: &events.RunReleased{Reason: "PROGRESS_PROTOCOL_VIOLATED"}, want: "a run is released once"},
		"progress of models before it all": {before: []events.Payload{granted("o1", 1)}, fact: terminated, want: "terminates once"},
	} {
		chain := newChain(t).mustApply(c.before...)
		f := chain.next(c.fact)
		if c.damage != nil {
			c.damage(f)
		}
		err := chain.apply(f)
		if !errors.Is(err, harness.ErrBrokenInvariant) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a broken invariant that says %q", name, err, c.want)
		}
	}
}

func TestAHistoryBeginsWithRunStartedAsFactOne(t *testing.T) {
	started := &events.RunStarted{RunID: "r1", Agent: "alice"}
	for name, f := range map[string]*events.Fact{
		"another kind":    {Run: "r1", Sequence: 1, Payload: ending},
		"fact two":        {Run: "r1", Sequence: 2, Payload: started},
		"a digest before": {Run: "r1", Sequence: 1, PreviousDigest: "x", Payload: started},
	} {
		state := harness.State{}
		if _, err := state.Apply(f, harness.Stored{}); !errors.Is(err, harness.ErrBrokenInvariant) || state.Run != nil {
			t.Errorf("%s: %v, %+v", name, err, state.Run)
		}
	}
}

func TestARecordExpiresAtItsOwnInstant(t *testing.T) {
	r := harness.Record{ExpiresAt: noon}
	if r.Expired(noon.Add(-1)) || !r.Expired(noon) || !r.Expired(noon.Add(1)) {
		t.Error("want it expired at the instant and after, not before")
	}
}

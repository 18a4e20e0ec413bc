package harness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// TestAnySequenceOfEventsKeepsTheRules sends random events through two drivers,
// one of which forgets all it knows after every fact, as if it had crashed.
func TestAnySequenceOfEventsKeepsTheRules(t *testing.T) { rapid.Check(t, anySequenceKeepsTheRules) }

// FuzzDecide is the same, steered by the coverage that the fuzzer sees.
func FuzzDecide(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anySequenceKeepsTheRules)) }

func anySequenceKeepsTheRules(t *rapid.T) {
	rules := testRules()
	rules.Policy.Progress = harness.ProgressLimits{
		MaxRepairs: rapid.SampledFrom([]int{2, 1, 0}).Draw(t, "repairs"),
		MaxRepeats: rapid.SampledFrom([]int{1, 1, 2, 100}).Draw(t, "repeats"),
		Grace:      rapid.SampledFrom([]time.Duration{20 * time.Second, 2 * time.Second}).Draw(t, "grace"),
	}
	steady, crashing := newDriver(t, rules), newDriver(t, rules)
	crashing.forgetful = true
	world := &world{t: t, driver: steady}
	for range rapid.IntRange(1, 60).Draw(t, "events") {
		m := world.next()
		crashing.now = steady.now
		a, b := brief(steady.deliver(m)), brief(crashing.deliver(m))
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("%s %s: answered otherwise after a crash\n%s", m.Subject, m.Data, diff)
		}
	}
	if diff := cmp.Diff(steady.outside, crashing.outside); diff != "" {
		t.Fatalf("outside every history: answered otherwise after a crash\n%s", diff)
	}
	for run, history := range steady.history {
		facts, digests := readHistory(t, steady, history)
		j := &judge{policy: steady.rules.Policy.Progress}
		j.read(facts, digests)
		for _, fault := range j.faults {
			t.Errorf("%s: %s", run, fault)
		}
		_, others := readHistory(t, crashing, crashing.history[run])
		if diff := cmp.Diff(digests, others); diff != "" {
			t.Errorf("%s: another history after a crash\n%s", run, diff)
		}
		replayed, records, models := crashing.replay(run)
		steady.runs[run].Stream, replayed.Stream = 0, 0 // the two streams number alike, but not by duty
		if diff := cmp.Diff(steady.runs[run], replayed, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: replay gives another run\n%s", run, diff)
		}
		if diff := cmp.Diff(steady.records[run], records, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: replay gives other records\n%s", run, diff)
		}
		if diff := cmp.Diff(steady.models[run], models, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: replay gives other model operations\n%s", run, diff)
		}
	}
}

func readHistory(t rapid.TB, d *driver, history []published) (facts []*events.Fact, digests []string) {
	t.Helper()
	for _, p := range history {
		f, digest, err := events.DecodeFact(d.subjects, p.subject, p.encoded.Header, p.encoded.Data)
		if err != nil {
			t.Fatal(err)
		}
		facts, digests = append(facts, f), append(digests, digest)
	}
	return facts, digests
}

var long = strings.Repeat("x", 400)

// world draws what the principals do next. It looks into the driver only to
// name true dispatches now and then.
type world struct {
	t      *rapid.T
	driver *driver
	sent   []events.Message
}

func pick[T any](w *world, label string, choices ...T) T {
	return rapid.SampledFrom(choices).Draw(w.t, label)
}

func (w *world) next() events.Message {
	w.driver.now = w.driver.now.Add(pick(w, "time passes", 0, 0, 0, 0, time.Millisecond, time.Millisecond, time.Second, time.Second, 9*time.Second, 25*time.Second, -time.Second))
	run := pick(w, "run", "r1", "r1", "r1", "r1", "r1", "r2")
	if w.driver.runs[run] == nil && rapid.IntRange(0, 9).Draw(w.t, "start first") > 0 {
		return w.keep(w.start(run))
	}
	switch pick(w, "what", "call", "call", "call", "call", "result", "result", "result", "result", "result", "call", "tick", "again", "redelivered", "end", "start",
		"model", "model", "attempt", "attempt", "report", "report") {
	case "call":
		return w.keep(w.call(run))
	case "result":
		if state := w.driver.runs[run]; state != nil && len(state.Open) == 0 && rapid.IntRange(0, 3).Draw(w.t, "of no open call") > 0 {
			return w.keep(w.call(run))
		}
		return w.keep(w.result(run))
	case "model":
		return w.keep(w.model(run))
	case "attempt":
		if len(w.driver.models[run]) == 0 {
			return w.keep(w.model(run))
		}
		return w.keep(w.attempt(run))
	case "report":
		return w.keep(w.report(run))
	case "end":
		return w.keep(w.end(run))
	case "start":
		return w.keep(w.start(run))
	case "again":
		if len(w.sent) > 0 {
			return w.driver.again(rapid.SampledFrom(w.sent).Draw(w.t, "which"))
		}
	case "redelivered":
		if len(w.sent) > 0 && w.sent[len(w.sent)-1].Sequence == w.driver.inbound {
			return w.sent[len(w.sent)-1]
		}
	}
	return w.driver.message(events.RoleTimer, "", run, events.VerbTick, "")
}

func (w *world) keep(m events.Message) events.Message {
	w.sent = append(w.sent, m)
	return m
}

func (w *world) agent() string {
	return pick(w, "agent", "alice", "alice", "alice", "alice", "alice", "alice", "alice", "bob")
}

func (w *world) start(run string) events.Message {
	limits := limitsJSON(
		fmt.Sprintf(`"tool_calls":%d`, pick(w, "tool calls", 0, 1, 2, 4, 6, 8, 8, 8)),
		fmt.Sprintf(`"calls_per_tool":%d`, pick(w, "calls per tool", 1, 3, 4, 5)),
		fmt.Sprintf(`"run_bytes":%d`, pick(w, "run bytes", 50, 150, 300, 700, 1500, 2500, 10000)),
		fmt.Sprintf(`"model_calls":%d`, pick(w, "model calls", 1, 2, 4, 8, 8)),
		fmt.Sprintf(`"input_tokens":%d`, pick(w, "input tokens", 5, 20, 1000, 1000)),
		fmt.Sprintf(`"total_tokens":%d`, pick(w, "total tokens", 8, 30, 1000, 1000)))
	return w.driver.message(events.RoleAgent, w.agent(), run, events.VerbRunStart, startData(run, minute, limits))
}

func (w *world) id() string { return pick(w, "id", "c1", "c2", "c3", "c4", "c|5", "c6", "c7", "c:8") }

func (w *world) call(run string) events.Message {
	tool := pick(w, "tool", "search", "search", "search", "search", "read_file", "read_file", "read_file", "read_file", "delete_file", "salaries", "nope")
	data := callData(run, w.id(), tool, pick(w, "arguments", `{"q":1}`, `{"q":1}`, `{"q":1}`, `{"q":"é"}`, `{ "q":2.0}`, `{"q":1e400}`, `{}`, `[]`, `{"q":`))
	return w.driver.message(events.RoleAgent, w.agent(), run, events.VerbToolCall, data)
}

func (w *world) result(run string) events.Message {
	id, executor, dispatch := w.id(), pick(w, "executor", "web", "files"), run+".2"
	if state := w.driver.runs[run]; state != nil && len(state.Open) > 0 && rapid.IntRange(0, 3).Draw(w.t, "an open one") > 0 {
		open := rapid.SampledFrom(state.Open).Draw(w.t, "open call")
		id, executor, dispatch = open.ToolCallID, open.Executor, events.DispatchID(run, open.Call)
	} else if r, ok := w.driver.records[run][id]; ok && rapid.Bool().Draw(w.t, "a settled one") {
		executor, dispatch = r.Executor, events.DispatchID(r.RunID, r.Call)
	}
	rest := pick(w, "result", succeeded(`[ 1 ]`), succeeded(`"\u00e9\/"`), succeeded(`[]`), succeeded(`null`), succeeded(`{"a":1e400}`), succeeded(`"`+long+`"`),
		succeeded(`"`+long+long+long+`"`), `"outcome":"FAILED"`, `"outcome":"FAILED","result":"disk"`, `"outcome":"TOO_LARGE","size":99999`, `"outcome":"?"`)
	return w.driver.message(events.RoleExecutor, executor, run, events.VerbToolResult, resultData(run, id, dispatch, rest))
}

// model asks for an attempt. Few ids over few operations, so that retries and
// mistaken identities are common.
func (w *world) model(run string) events.Message {
	id := pick(w, "operation id", "o1", "o1", "o2", "o3", "o 4")
	operation := pick(w, "operation", "INTENT_ROUTER", "INTENT_ROUTER", "INTENT_ROUTER", "SEMANTIC_GUARD", "DIAGNOSIS_AGENT", "EVIDENCE_REPAIR", "TOOL_CALL")
	if op, ok := w.driver.models[run][id]; ok && rapid.IntRange(0, 3).Draw(w.t, "the true operation") > 0 {
		operation = string(op.Operation)
	}
	return w.driver.message(events.RoleAgent, w.agent(), run, events.VerbModelCall, modelData(run, id, operation))
}

// attempt reports how one ended: mostly one that is open.
func (w *world) attempt(run string) events.Message {
	id, operation, attempt := pick(w, "operation id", "o1", "o2", "o3"), "INTENT_ROUTER", pick(w, "attempt", 1, 1, 2)
	for open, op := range w.driver.models[run] {
		if op.Open && open < id {
			id = open // the first open one, or the one that was drawn
		}
	}
	if op, ok := w.driver.models[run][id]; ok && rapid.IntRange(0, 3).Draw(w.t, "the true attempt") > 0 {
		operation, attempt = string(op.Operation), op.Attempts
	}
	rest := pick(w, "outcome", failedWith("TRANSPORT"), failedWith("TRANSPORT"), failedWith("INVALID_RESPONSE"), failedWith("NO_EVIDENCE"), failedWith("UNKNOWN"),
		usedTokens(1, 1), usedTokens(3, 2), usedTokens(0, 0), usedTokens(9, 9), `"outcome":"SUCCEEDED","usage":null`,
		`"outcome":"FAILED","failure":"TIMEOUT","usage":{"input_tokens":2,"output_tokens":0,"total_tokens":5}`, `"outcome":"SUCCEEDED","usage":{}`)
	return w.driver.message(events.RoleAgent, w.agent(), run, events.VerbModelReport, modelReportData(run, id, operation, attempt, rest))
}

// report tells of a step: mostly the next one, about calls that mostly are there.
func (w *world) report(run string) events.Message {
	step := pick(w, "step", 1, 2)
	if state := w.driver.runs[run]; state != nil && rapid.IntRange(0, 3).Draw(w.t, "the next step") > 0 {
		step = state.Step + 1
	}
	var claims []string
	for range rapid.IntRange(0, 2).Draw(w.t, "claims") {
		claims = append(claims, claim(pick(w, "text", "a", "no a"), w.id(), w.id()))
	}
	data := reportData(run, step, pick(w, "final", false, false, true), claims...)
	if rapid.IntRange(0, 9).Draw(w.t, "misfit") == 0 {
		data = `{"run_id":"` + run + `","step":1}`
	}
	return w.driver.message(events.RoleAgent, w.agent(), run, events.VerbProgressReport, data)
}

func (w *world) end(run string) events.Message {
	switch pick(w, "end", "finish", "fail", "cancel", "operator", "misfit") {
	case "finish":
		return w.driver.message(events.RoleAgent, w.agent(), run, events.VerbRunFinish, `{"run_id":"`+run+`","outcome":"SUCCESS"}`)
	case "fail":
		return w.driver.message(events.RoleAgent, w.agent(), run, events.VerbRunFinish, `{"run_id":"`+run+`","outcome":"FAILED"}`)
	case "cancel":
		return w.driver.message(events.RoleAgent, w.agent(), run, events.VerbRunCancel, `{"run_id":"`+run+`","reason":"USER_REQUESTED"}`)
	case "operator":
		return w.driver.message(events.RoleOperator, "olga", run, events.VerbRunCancel, `{"run_id":"`+run+`","reason":"OPERATOR_REQUESTED"}`)
	}
	return w.driver.message(events.RoleAgent, w.agent(), run, events.VerbRunFinish, `{"run_id":"`+run+`"}`)
}

package harness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// ask is a model call that is granted, until a test breaks it.
type ask struct {
	agent, run            string // of the subject
	runID, id, more       string // of the data
	usedID, usedBudget    bool   // what happened in the run before
	released, ended, late bool
}

func goodAsk() *ask { return &ask{agent: "alice", run: "r1", runID: "r1", id: "o1"} }

// make starts alice's run, brings it to where the test wants it, and asks.
func (a *ask) make(t *testing.T) (*driver, []step) {
	t.Helper()
	d := newDriver(t, testRules())
	d.start(`"model_calls":2`)
	if a.usedID {
		d.model("o1", "INTENT_ROUTER")
	}
	for i := int(d.runs["r1"].Usage.ModelCalls); a.usedBudget && i < 2; i++ {
		d.model(fmt.Sprintf("b%d", i), "SEMANTIC_GUARD")
	}
	for i := 0; a.released && i < 3; i++ {
		d.report(7)
	}
	if a.ended {
		d.finish("FAILED")
	}
	if a.late {
		d.now = after(time.Minute)
		d.tick()
	}
	data := strings.TrimSuffix(modelData(a.runID, a.id, "INTENT_ROUTER"), "}") + a.more + "}"
	steps := d.agent(a.agent, a.run, events.VerbModelCall, data)
	return d, steps
}

// modelFaults breaks a model call at each check, in the order in which they are
// made. No fault hides another: any two can be in one call.
var modelFaults = []struct {
	code    events.Code
	name    string
	outside bool // the answer stands in no history
	damage  func(*ask)
}{
	{"INVALID_ENVELOPE", "unknown member", false, func(a *ask) { a.more = `,"unknown":1` }},
	{"INVALID_ENVELOPE", "unsafe id", false, func(a *ask) { a.id = "o{1}" }},
	{"RUN_MISMATCH", "data of another run", false, func(a *ask) { a.runID = "r7" }},
	{"RUN_NOT_FOUND", "unknown run", true, func(a *ask) {
		if a.runID == a.run {
			a.runID = "r9"
		}
		a.run = "r9"
	}},
	{"RUN_NOT_OWNED", "another agent", true, func(a *ask) { a.agent = "bob" }},
	{"DEADLINE_EXCEEDED", "timed out", true, func(a *ask) { a.late = true }},
	{"RUN_NOT_ACTIVE", "ended run", true, func(a *ask) { a.ended = true }},
	{"RUN_RELEASED", "released run", false, func(a *ask) { a.released = true }},
	{"RETRY_NOT_ALLOWED", "operation under way", false, func(a *ask) { a.usedID = true }},
	{"BUDGET_EXHAUSTED", "used budget", false, func(a *ask) { a.usedBudget = true }},
}

func TestAGoodModelCallIsGrantedItsFirstAttempt(t *testing.T) {
	d, steps := goodAsk().make(t)
	expect(t, "good", steps, "model.granted 1")
	if p := *payload[*events.ModelGranted](t, steps, 0); p != (events.ModelGranted{Operation: "INTENT_ROUTER", OperationID: "o1", Attempt: 1}) {
		t.Errorf("granted %+v", p)
	}
	if used := d.runs["r1"].Used(); used.ModelCalls != 1 || used.UnknownUsage != 1 || used.ToolCalls != 0 || used.RunBytes != 0 {
		t.Errorf("used %+v, want one model call of unknown usage", used)
	}
	want := harness.ModelOperation{
		ID: "o1", Operation: "INTENT_ROUTER", Attempts: 1, Open: true,
		Granted: events.Cause{Source: "/agents/alice", ID: "e2", Sequence: 2, Decision: true},
	}
	if got := d.models["r1"]["o1"]; got != want {
		t.Errorf("remembered %+v, want %+v", got, want)
	}
}

func TestOfTwoFaultsOfAModelCallTheEarlierCheckAnswers(t *testing.T) {
	for i, first := range modelFaults {
		for _, second := range modelFaults[i:] {
			if first.code == "DEADLINE_EXCEEDED" && second.code == "RUN_NOT_ACTIVE" {
				continue // a run ends once
			}
			a := goodAsk()
			first.damage(a)
			if first.name != second.name {
				second.damage(a)
			}
			name := first.name + " and " + second.name
			d, steps := a.make(t)
			if len(steps) == 0 || steps[0].fact == nil {
				t.Errorf("%s: got %q", name, brief(steps))
				continue
			}
			p, ok := steps[0].fact.Payload.(*events.ModelRejected)
			if !ok || p.Code != first.code || p.Message != first.code.Message() || p.Intent != "model.call" || p.RunID != a.run {
				t.Errorf("%s: got %q %+v, want model.rejected %s", name, brief(steps), p, first.code)
				continue
			}
			if n := len(d.models["r1"]); n > 2 || d.models["r9"] != nil {
				t.Errorf("%s: a refused call is remembered", name)
			}
		}
	}
}

func TestARefusedModelCallStandsInTheHistoryOnlyWhereTheSpeakerOwnsARunningRun(t *testing.T) {
	for _, fault := range modelFaults {
		a := goodAsk()
		fault.damage(a)
		d, steps := a.make(t)
		f := steps[0].fact
		if got := f.Sequence == 0; got != fault.outside || f.Agent != a.agent {
			t.Errorf("%s: outside %v to %s, want %v to %s", fault.name, got, f.Agent, fault.outside, a.agent)
		}
		if want := fmt.Sprintf("in-%d", d.inbound); fault.outside && f.OutsideKey != want {
			t.Errorf("%s: outside under %q, want %q", fault.name, f.OutsideKey, want)
		}
	}
}

func TestARefusedModelCallNamesWhatItWasAboutWhereThatHasTheForm(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	for id, want := range map[string]string{"o 1": "", "": "", strings.Repeat("x", 2049): "", "a:b": "a:b"} {
		p := payload[*events.ModelRejected](t, d.model(id, "INTENT_ROUTER"), 0)
		if p.OperationID != want || p.Operation != "INTENT_ROUTER" || p.Code != "INVALID_ENVELOPE" {
			t.Errorf("%.20q: told %+v", id, p)
		}
	}
	p := payload[*events.ModelRejected](t, d.modelReport("o 1", "SEMANTIC_GUARD", 1, usedTokens(1, 1)), 0)
	if p.OperationID != "" || p.Operation != "SEMANTIC_GUARD" || p.Code != "ATTEMPT_NOT_OPEN" || p.Intent != "model.report" {
		t.Errorf("a report: told %+v", p)
	}
	steps := d.agent("alice", "r1", events.VerbModelCall, `{"more":1}`)
	if p := payload[*events.ModelRejected](t, steps, 0); p.OperationID != "" || p.Operation != "" {
		t.Errorf("data that do not fit: told %+v", p)
	}
	if got := steps[0].detail; !strings.Contains(got, "unknown object member name") {
		t.Errorf("the operator is told %q", got)
	}
	steps = d.model("o{1}", "INTENT_ROUTER")
	if got := steps[0].detail; !strings.HasPrefix(got, "operation_id: ") {
		t.Errorf("the operator is told %q", got)
	}
}

func TestAColonInAnOperationIdIsAllowedWhereThePolicyAllowsIt(t *testing.T) {
	rules := testRules()
	rules.Policy.AllowColon = true
	d := newDriver(t, rules)
	d.start()
	expect(t, "colon", d.model("route:1", "INTENT_ROUTER"), "model.granted 1")
	expect(t, "its report", d.modelReport("route:1", "INTENT_ROUTER", 1, usedTokens(1, 1)), "model.recorded SUCCEEDED")
}

func TestModelCallsAreGrantedUpToTheLimitExactly(t *testing.T) {
	d := newDriver(t, testRules())
	d.start(`"model_calls":3`)
	for i := range 3 {
		expect(t, fmt.Sprintf("call %d", i+1), d.model(fmt.Sprintf("o%d", i), "DIAGNOSIS_AGENT"), "model.granted 1")
	}
	steps := d.model("o3", "DIAGNOSIS_AGENT")
	expect(t, "call 4", steps, "model.rejected BUDGET_EXHAUSTED", "run.ending BUDGET_EXHAUSTED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due")
	if got := payload[*events.ModelRejected](t, steps, 0).Limit; got != "model_calls" {
		t.Errorf("the refusal names %q", got)
	}
	if p := payload[*events.RunEnding](t, steps, 1); p.Limit != "model_calls" || p.Reason != "BUDGET_EXHAUSTED" {
		t.Errorf("the ending is %+v", p)
	}
	if used := payload[*events.RunTerminated](t, steps, 3).Usage; used.ModelCalls != 3 || used.UnknownUsage != 3 || used.TotalTokens != 0 {
		t.Errorf("used %+v, want 3 model calls, all of unknown usage", used)
	}
}

func TestARetryCountsAsAModelCall(t *testing.T) {
	d := newDriver(t, testRules())
	d.start(`"model_calls":1`)
	d.model("o1", "INTENT_ROUTER")
	d.modelReport("o1", "INTENT_ROUTER", 1, failedWith("TRANSPORT"))
	if got := brief(d.model("o1", "INTENT_ROUTER"))[0]; got != "model.rejected BUDGET_EXHAUSTED" {
		t.Errorf("got %s", got)
	}
}

// TestEachFailureOfEachOperationIsGrantedASecondAttemptAsThePolicySays is the
// table of the requirement, enforced over events.
func TestEachFailureOfEachOperationIsGrantedASecondAttemptAsThePolicySays(t *testing.T) {
	tried := 0
	for _, operation := range operations[:4] { // a tool call is a tool.call
		for _, class := range failureClasses {
			tried++
			name := string(operation) + " after " + string(class)
			d := newDriver(t, testRules())
			d.start()
			op := string(operation)
			expect(t, name+", first", d.model("o1", op), "model.granted 1")
			expect(t, name+", reported", d.modelReport("o1", op, 1, failedWith(class)), "model.recorded FAILED")
			if !retried[operation][class] {
				expect(t, name+", second", d.model("o1", op), "model.rejected RETRY_NOT_ALLOWED")
				continue
			}
			expect(t, name+", second", d.model("o1", op), "model.granted 2")
			expect(t, name+", reported", d.modelReport("o1", op, 2, failedWith(class)), "model.recorded FAILED")
			expect(t, name+", third", d.model("o1", op), "model.rejected RETRY_NOT_ALLOWED")
			if used := d.runs["r1"].Used(); used.ModelCalls != 2 || used.UnknownUsage != 2 {
				t.Errorf("%s: used %+v, want two model calls", name, used)
			}
		}
	}
	if tried != 44 {
		t.Errorf("%d pairs were tried, want 44", tried)
	}
}

func TestNoAttemptIsGrantedOfAnOperationThatIsUnderWayDoneOrAnother(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*driver)
		op     string
		want   string
	}{
		"under way":           {func(*driver) {}, "INTENT_ROUTER", "model.rejected RETRY_NOT_ALLOWED"},
		"done":                {func(d *driver) { d.modelReport("o1", "INTENT_ROUTER", 1, usedTokens(1, 1)) }, "INTENT_ROUTER", "model.rejected RETRY_NOT_ALLOWED"},
		"failed, as another":  {func(d *driver) { d.modelReport("o1", "INTENT_ROUTER", 1, failedWith("TIMEOUT")) }, "SEMANTIC_GUARD", "model.rejected RETRY_NOT_ALLOWED"},
		"failed, as the same": {func(d *driver) { d.modelReport("o1", "INTENT_ROUTER", 1, failedWith("TIMEOUT")) }, "INTENT_ROUTER", "model.granted 2"},
		"second under way": {func(d *driver) {
			d.modelReport("o1", "INTENT_ROUTER", 1, failedWith("TIMEOUT"))
			d.model("o1", "INTENT_ROUTER")
		}, "INTENT_ROUTER", "model.rejected RETRY_NOT_ALLOWED"},
	} {
		d := newDriver(t, testRules())
		d.start()
		d.model("o1", "INTENT_ROUTER")
		c.before(d)
		expect(t, name, d.model("o1", c.op), c.want)
		expect(t, name+", another operation", d.model("o2", c.op), "model.granted 1")
	}
}

func TestTheSameOperationIdInAnotherRunIsAnotherOperation(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	d.model("o1", "INTENT_ROUTER")
	d.agent("alice", "r2", events.VerbRunStart, startData("r2", minute, limitsJSON()))
	expect(t, "r2", d.agent("alice", "r2", events.VerbModelCall, modelData("r2", "o1", "SEMANTIC_GUARD")), "model.granted 1")
}

func TestAModelOperationAndAToolCallMayShareAnId(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	expect(t, "model", d.model("c1", "DIAGNOSIS_AGENT"), "model.granted 1")
	expect(t, "tool", d.call("c1", "search", `{"q":1}`), "tool.reserved")
	expect(t, "report", d.modelReport("c1", "DIAGNOSIS_AGENT", 1, usedTokens(1, 1)), "model.recorded SUCCEEDED")
}

func TestTheSameModelEventAgainIsNothingNew(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	asked := d.message("agent", "alice", "r1", "model.call", modelData("r1", "o1", "INTENT_ROUTER"))
	told := d.message("agent", "alice", "r1", "model.report", modelReportData("r1", "o1", "INTENT_ROUTER", 1, failedWith("TRANSPORT")))
	expect(t, "too early", d.deliver(d.again(told)), "model.rejected ATTEMPT_NOT_OPEN")
	expect(t, "asked", d.deliver(d.again(asked)), "model.granted 1")
	expect(t, "asked again", d.deliver(d.again(asked)), "nothing")
	expect(t, "told", d.deliver(d.again(told)), "model.recorded FAILED")
	expect(t, "told again", d.deliver(d.again(told)), "nothing")
	expect(t, "asked again: it grants no second attempt", d.deliver(d.again(asked)), "nothing")
	expect(t, "a new event does", d.model("o1", "INTENT_ROUTER"), "model.granted 2")
	expect(t, "told of the first, again", d.deliver(d.again(told)), "nothing")
	if used := d.runs["r1"].Used(); used.ModelCalls != 2 {
		t.Errorf("used %+v, want two model calls", used)
	}

	forged := d.again(asked)
	forged.Subject = "harness.v1.part.0.in.agent.bob.r1.model.call"
	expect(t, "another agent's is another event", d.deliver(forged), "model.rejected RUN_NOT_OWNED outside")
	forged = d.again(told)
	forged.Subject = "harness.v1.part.0.in.agent.bob.r1.model.report"
	expect(t, "another agent's is another event", d.deliver(forged), "model.rejected RUN_NOT_OWNED outside")
	d.finish("FAILED")
	expect(t, "after the end", d.deliver(d.again(told)), "nothing")
}

func TestAReleasedRunRecordsAttemptsThatAreUnderWay(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	d.model("o1", "INTENT_ROUTER")
	d.call("c1", "search", `{"q":1}`)
	for range 3 {
		d.report(9)
	}
	expect(t, "a new attempt", d.model("o2", "INTENT_ROUTER"), "model.rejected RUN_RELEASED")
	expect(t, "a new call", d.call("c2", "search", `{"q":1}`), "tool.rejected RUN_RELEASED")
	expect(t, "the open attempt", d.modelReport("o1", "INTENT_ROUTER", 1, failedWith("TRANSPORT")), "model.recorded FAILED")
	expect(t, "its retry", d.model("o1", "INTENT_ROUTER"), "model.rejected RUN_RELEASED")
	expect(t, "the open call", d.result("web", "c1", succeeded(`1`)), "tool.settled READY EVIDENCE_FOUND")
}

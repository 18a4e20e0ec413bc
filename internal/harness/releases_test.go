package harness_test

import (
	"fmt"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// violated is a run that was released at noon because its reports were wrong. It
// has 20 seconds of grace.
func violated(t *testing.T) *driver {
	t.Helper()
	d := withKnowledge(t, testRules())
	d.report(9)
	d.report(9)
	expect(t, "the third", d.report(9), "progress.invalid STEP_OUT_OF_ORDER", "run.released PROGRESS_PROTOCOL_VIOLATED due")
	return d
}

// stalled is a run that was released at noon because it repeated itself.
func stalled(t *testing.T) *driver {
	t.Helper()
	d := newDriver(t, testRules())
	d.start()
	d.call("open", "read_file", `{}`)
	for i := range 3 {
		d.call(fmt.Sprintf("s%d", i), "search", `{"q":1}`)
		expect(t, "a repeat", d.result("web", fmt.Sprintf("s%d", i), succeeded(`[1]`)), "tool.settled READY EVIDENCE_FOUND")
	}
	d.call("s3", "search", `{"q":1}`)
	expect(t, "one too many", d.result("web", "s3", succeeded(`[1]`)), "tool.settled READY EVIDENCE_FOUND", "run.released PROGRESS_STALLED due")
	return d
}

var releases = map[events.ReleaseReason]func(*testing.T) *driver{"PROGRESS_PROTOCOL_VIOLATED": violated, "PROGRESS_STALLED": stalled}

func TestAReleasedRunHasAGraceAndDoesNothingNew(t *testing.T) {
	for reason, release := range releases {
		d := release(t)
		run := d.runs["r1"]
		if run.Released != reason || !run.GraceUntil.Equal(after(20*time.Second)) || run.Phase != harness.PhaseRunning {
			t.Errorf("%s: the run is %+v", reason, run)
		}
		if at, ok := run.NextDue(); !ok || !at.Equal(after(20*time.Second)) {
			t.Errorf("%s: next due at %s, %v, want the end of the grace", reason, at, ok)
		}
		used := run.Used()
		expect(t, string(reason), d.call("new", "search", `{"q":1}`), "tool.rejected RUN_RELEASED")
		expect(t, string(reason), d.model("new", "INTENT_ROUTER"), "model.rejected RUN_RELEASED")
		if got := d.runs["r1"].Used(); got.ToolCalls != used.ToolCalls || got.ModelCalls != used.ModelCalls || got.RunBytes != used.RunBytes {
			t.Errorf("%s: refusals used something: %+v", reason, got)
		}
		expect(t, string(reason)+", the open call", d.result("files", "open", succeeded(`[1]`)), "tool.settled READY EVIDENCE_FOUND")
		expect(t, string(reason)+", released once", d.tick())
	}
}

func TestTheGraceOfAReleasedRunEndsItAsFailed(t *testing.T) {
	for reason, release := range releases {
		d := release(t)
		d.now = after(20*time.Second - time.Millisecond)
		expect(t, string(reason)+", just before", d.tick())
		d.now = after(20 * time.Second)
		steps := d.tick()
		expect(t, string(reason)+", at its end", steps,
			"run.ending FAILED due", "tool.settled ERROR RUN_TERMINATED due", "run.progress due", "run.terminated FAILED due")
		if p := payload[*events.RunEnding](t, steps, 0); p.Reason != string(reason) || p.Limit != "" {
			t.Errorf("%s: the ending is %+v", reason, p)
		}
		if p := payload[*events.RunTerminated](t, steps, 3); p.Reason != string(reason) {
			t.Errorf("%s: terminated by %s", reason, p.Reason)
		}
		expect(t, string(reason)+", a finish after it", d.finish("SUCCESS"), "run.rejected RUN_NOT_ACTIVE outside")
		expect(t, string(reason)+", a call after it", d.call("new", "search", `{"q":1}`), "tool.rejected RUN_NOT_ACTIVE outside")
	}
}

func TestHowAReleasedRunMayFinish(t *testing.T) {
	for name, c := range map[string]struct {
		release func(*testing.T) *driver
		before  func(*driver)
		asked   string
		outcome events.Outcome
		reason  string
	}{
		"violated, SUCCESS with nothing":                 {violated, func(*driver) {}, "SUCCESS", "FAILED", "PROGRESS_PROTOCOL_VIOLATED"},
		"violated, SUCCESS with a report, not the final": {violated, func(d *driver) { d.report(1, claim("a", "yes")) }, "SUCCESS", "FAILED", "PROGRESS_PROTOCOL_VIOLATED"},
		"violated, SUCCESS with a final one that fails":  {violated, func(d *driver) { d.lastReport(1, claim("a", "bad")) }, "SUCCESS", "FAILED", "PROGRESS_PROTOCOL_VIOLATED"},
		"violated, SUCCESS with a final one that holds":  {violated, func(d *driver) { d.lastReport(1, claim("a", "yes")) }, "SUCCESS", "SUCCESS", "FINISHED_BY_AGENT"},
		"violated, SUCCESS with one of two steps": {violated, func(d *driver) {
			d.report(1, claim("a", "yes"))
			d.lastReport(2, claim("no b", "none"))
		}, "SUCCESS", "SUCCESS", "FINISHED_BY_AGENT"},
		"violated, FAILED":                     {violated, func(*driver) {}, "FAILED", "FAILED", "FINISHED_BY_AGENT"},
		"violated, FAILED with a final report": {violated, func(d *driver) { d.lastReport(1) }, "FAILED", "FAILED", "FINISHED_BY_AGENT"},
		"stalled, SUCCESS with what it has":    {stalled, func(*driver) {}, "SUCCESS", "SUCCESS", "FINISHED_BY_AGENT"},
		"stalled, SUCCESS with a report":       {stalled, func(d *driver) { d.lastReport(1, claim("a", "s0")) }, "SUCCESS", "SUCCESS", "FINISHED_BY_AGENT"},
		"stalled, FAILED":                      {stalled, func(*driver) {}, "FAILED", "FAILED", "FINISHED_BY_AGENT"},
		"stalled, SUCCESS after ten wrong reports": {stalled, func(d *driver) {
			for range 10 {
				d.report(9)
			}
		}, "SUCCESS", "SUCCESS", "FINISHED_BY_AGENT"},
	} {
		d := c.release(t)
		c.before(d)
		steps := d.finish(c.asked)
		expect(t, name, steps, "run.ending "+string(c.outcome), "tool.settled ERROR RUN_TERMINATED due", "run.progress due", "run.terminated "+string(c.outcome)+" due")
		if p := payload[*events.RunEnding](t, steps, 0); p.Reason != c.reason {
			t.Errorf("%s: the reason is %s, want %s", name, p.Reason, c.reason)
		}
		if !steps[0].fact.Cause.Decision {
			t.Errorf("%s: the ending is not the answer to the finish", name)
		}
	}
}

func TestAFinalReportBeforeTheReleaseCountsToo(t *testing.T) {
	d := withKnowledge(t, testRules())
	expect(t, "final", d.lastReport(1, claim("a", "yes")), "progress.accepted 1")
	d.report(2)
	d.report(2)
	expect(t, "too many", d.report(2), "progress.invalid FINAL_REPORT_EXISTS", "run.released PROGRESS_PROTOCOL_VIOLATED due")
	if got := brief(d.finish("SUCCESS"))[0]; got != "run.ending SUCCESS" {
		t.Errorf("got %s", got)
	}
}

func TestAReleasedRunCanBeCancelledAsAnyOther(t *testing.T) {
	for reason, release := range releases {
		d := release(t)
		if got := brief(d.cancel("USER_REQUESTED"))[0]; got != "run.ending CANCELLED" {
			t.Errorf("%s: by its owner: %s", reason, got)
		}
		d = release(t)
		if got := brief(d.operatorCancels("OPERATOR_REQUESTED"))[0]; got != "run.ending CANCELLED" {
			t.Errorf("%s: by an operator: %s", reason, got)
		}
	}
}

func TestTheDeadlineEndsAReleasedRunEvenInItsGrace(t *testing.T) {
	// Released at 50 s with a grace of 20 s; the deadline is at 60 s.
	d := newDriver(t, testRules())
	d.start()
	d.now = after(50 * time.Second)
	for range 3 {
		d.report(9)
	}
	if run := d.runs["r1"]; run.Released == "" || !run.GraceUntil.Equal(after(70*time.Second)) {
		t.Fatalf("the run is %+v", run)
	}
	if at, _ := d.runs["r1"].NextDue(); !at.Equal(after(time.Minute)) {
		t.Errorf("next due at %s, want the deadline", at)
	}
	d.now = after(59999 * time.Millisecond)
	expect(t, "just before", d.tick())
	d.now = after(time.Minute)
	steps := d.tick()
	expect(t, "at the deadline", steps, "run.ending TIMED_OUT due", "run.progress due", "run.terminated TIMED_OUT due")
	if p := payload[*events.RunEnding](t, steps, 0); p.Reason != "DEADLINE_EXCEEDED" {
		t.Errorf("the reason is %s", p.Reason)
	}
}

func TestWhereGraceAndDeadlineHavePassedTheDeadlineTells(t *testing.T) {
	d := violated(t)
	d.now = after(time.Hour)
	expect(t, "much later", d.finish("SUCCESS"), "tool.settled ERROR TOOL_TIMEOUT due",
		"run.ending TIMED_OUT due", "run.progress due", "run.terminated TIMED_OUT due", "run.rejected RUN_NOT_ACTIVE outside")
}

func TestABudgetThatIsUsedUpInTheGraceEndsTheRun(t *testing.T) {
	d := newDriver(t, testRules())
	d.start(`"input_tokens":5`, `"total_tokens":100`, `"output_tokens":100`)
	d.model("o1", "INTENT_ROUTER")
	for range 3 {
		d.report(9)
	}
	expect(t, "tokens", d.modelReport("o1", "INTENT_ROUTER", 1, usedTokens(6, 0)),
		"model.recorded SUCCEEDED", "run.ending BUDGET_EXHAUSTED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due")
}

func TestACallThatTimesOutInTheGraceSettles(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	d.call("c1", "search", `{"q":1}`) // until 10 s
	for range 3 {
		d.report(9)
	}
	if at, _ := d.runs["r1"].NextDue(); !at.Equal(after(10 * time.Second)) {
		t.Errorf("next due at %s, want the call's deadline", at)
	}
	d.now = after(10 * time.Second)
	expect(t, "timeout", d.tick(), "tool.settled ERROR TOOL_TIMEOUT due")
}

func TestARunThatRepeatsItselfInItsGraceIsNotReleasedAgain(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	for i := range 6 {
		d.call(fmt.Sprintf("c%d", i), "search", `{"q":1}`)
	}
	for range 3 {
		d.report(9)
	}
	for i := range 6 {
		expect(t, "settled", d.result("web", fmt.Sprintf("c%d", i), succeeded(`1`)), "tool.settled READY EVIDENCE_FOUND")
	}
	if got := d.runs["r1"].Released; got != "PROGRESS_PROTOCOL_VIOLATED" {
		t.Errorf("released as %s", got)
	}
}

func TestARunThatMustBeReleasedIsWhateverComesNext(t *testing.T) {
	// A crash after the wrong report.
	d := withKnowledge(t, testRules())
	d.report(9)
	d.report(9)
	in, err := events.Decode(d.subjects, d.message("agent", "alice", "r1", "progress.report", reportData("r1", 9, false)))
	if err != nil {
		t.Fatal(err)
	}
	d.publish(in, d.rules.Decide(d.load("r1", in), in, noon).Fact)
	d.now = after(3 * time.Second)
	steps := d.call("new", "search", `{"q":1}`)
	expect(t, "a call", steps, "run.released PROGRESS_PROTOCOL_VIOLATED due", "tool.rejected RUN_RELEASED")
	if p := payload[*events.RunReleased](t, steps, 0); !p.GraceUntil.Equal(after(23 * time.Second)) {
		t.Errorf("its grace ends at %s, want 20 s from now on", p.GraceUntil)
	}
}

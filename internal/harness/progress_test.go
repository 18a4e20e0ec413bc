package harness_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// withKnowledge starts a run that has a READY call with evidence (yes), one
// without (none), one that failed (bad), and one that is open.
func withKnowledge(t *testing.T, rules *harness.Rules) *driver {
	t.Helper()
	d := newDriver(t, rules)
	d.start()
	for id, result := range map[string]string{"yes": succeeded(`[1]`), "none": succeeded(`[]`), "bad": `"outcome":"FAILED"`} {
		d.call(id, "search", fmt.Sprintf(`{"q":%q}`, id))
		d.result("web", id, result)
	}
	d.call("open", "read_file", `{}`)
	return d
}

func TestAReportThatHoldsIsAcceptedStepByStep(t *testing.T) {
	d := withKnowledge(t, testRules())
	for step, claims := range [][]string{
		{},
		{claim("a", "yes")},
		{claim("no b", "none"), claim("no c", "yes", "none"), claim("d", "yes")},
	} {
		steps := d.report(step+1, claims...)
		expect(t, fmt.Sprintf("step %d", step+1), steps, fmt.Sprintf("progress.accepted %d", step+1))
		if p := *payload[*events.ProgressAccepted](t, steps, 0); p != (events.ProgressAccepted{Step: step + 1, Claims: len(claims)}) {
			t.Errorf("step %d: accepted %+v", step+1, p)
		}
	}
	steps := d.lastReport(4, claim("a", "yes"))
	if p := *payload[*events.ProgressAccepted](t, steps, 0); p != (events.ProgressAccepted{Step: 4, Claims: 1, Final: true}) {
		t.Errorf("the last: accepted %+v", p)
	}
	steps = d.finish("SUCCESS")
	if p := payload[*events.RunProgress](t, steps, 2); p.Steps != 4 || !p.Final || len(p.Observed) != 2 {
		t.Errorf("the run's progress is %+v, want 4 steps, the last final, 2 observations", p)
	}
}

func TestEveryViolationOfAReportIsNamedWithItsPlace(t *testing.T) {
	at := func(code events.ViolationCode, claim int, id string) events.Violation {
		return events.Violation{Code: code, Claim: claim, ToolCallID: id}
	}
	for name, c := range map[string]struct {
		step   int
		claims []string
		want   []events.Violation
	}{
		"a claim of nothing":          {1, []string{claim("a")}, []events.Violation{at("CLAIM_UNSUPPORTED", 0, "")}},
		"a call that is not there":    {1, []string{claim("a", "ghost")}, []events.Violation{at("UNKNOWN_CALL", 0, "ghost")}},
		"a call that failed":          {1, []string{claim("a", "bad")}, []events.Violation{at("CALL_NOT_READY", 0, "bad")}},
		"a call that is open":         {1, []string{claim("a", "open")}, []events.Violation{at("CALL_NOT_READY", 0, "open")}},
		"one that found nothing":      {1, []string{claim("a", "none")}, []events.Violation{at("NO_EVIDENCE", 0, "none")}},
		"several, in their order":     {1, []string{claim("a", "yes", "none"), claim("no b"), claim("no c", "none", "open", "bad")}, []events.Violation{at("NO_EVIDENCE", 0, "none"), at("CLAIM_UNSUPPORTED", 1, ""), at("CALL_NOT_READY", 2, "open"), at("CALL_NOT_READY", 2, "bad")}},
		"a step too far":              {2, []string{claim("a", "ghost")}, []events.Violation{at("STEP_OUT_OF_ORDER", -1, "")}},
		"a step far away":             {1 << 40, nil, []events.Violation{at("STEP_OUT_OF_ORDER", -1, "")}},
		"an id that no call can have": {1, []string{claim("a", "c{1}", "")}, []events.Violation{at("UNKNOWN_CALL", 0, ""), at("UNKNOWN_CALL", 0, "")}},
	} {
		d := withKnowledge(t, testRules())
		steps := d.report(c.step, c.claims...)
		p := payload[*events.ProgressInvalid](t, steps, 0)
		want := &events.ProgressInvalid{
			RunID: "r1", Code: "INVALID_PROGRESS_PROTOCOL", Message: "The report does not hold; repair what is named and report the same step again.",
			Step: c.step, Violations: c.want, RepairsLeft: 1,
		}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if f := steps[0].fact; f.Sequence == 0 || !f.Cause.Decision || len(steps) != 1 {
			t.Errorf("%s: told as %q", name, brief(steps))
		}
		if run := d.runs["r1"]; run.Step != 0 || run.Invalid != 1 || run.Phase != harness.PhaseRunning {
			t.Errorf("%s: the run is %+v", name, run)
		}
		expect(t, name+", repaired", d.report(1, claim("a", "yes")), "progress.accepted 1")
	}
}

func TestDataThatAreNoReportAreAViolationToo(t *testing.T) {
	d := withKnowledge(t, testRules())
	steps := d.agent("alice", "r1", events.VerbProgressReport, `{"run_id":"r1","step":1}`)
	p := payload[*events.ProgressInvalid](t, steps, 0)
	if p.Code != "INVALID_PROGRESS_PROTOCOL" || p.Step != 0 || p.RepairsLeft != 1 || !slices.Equal(p.Violations, []events.Violation{{Code: "INVALID_ENVELOPE", Claim: -1}}) {
		t.Errorf("told %+v", p)
	}
	if !strings.Contains(steps[0].detail, "claims: want a list") {
		t.Errorf("the operator is told %q", steps[0].detail)
	}
	if data := string(d.history["r1"][len(d.history["r1"])-1].encoded.Data); strings.Contains(data, "want a list") {
		t.Errorf("the fact shows the detail: %s", data)
	}
}

func TestStepsAreReportedInOrderAndAnInvalidOneUnderItsNumberAgain(t *testing.T) {
	rules := testRules()
	rules.Policy.Progress.MaxRepairs = 10
	d := withKnowledge(t, rules)
	expect(t, "wrong", d.report(1, claim("a", "bad")), "progress.invalid CALL_NOT_READY")
	expect(t, "the next instead of the repair", d.report(2, claim("a", "yes")), "progress.invalid STEP_OUT_OF_ORDER")
	expect(t, "the repair", d.report(1, claim("a", "yes")), "progress.accepted 1")
	expect(t, "the same step again", d.report(1, claim("a", "yes")), "progress.invalid STEP_OUT_OF_ORDER")
	expect(t, "the next", d.report(2), "progress.accepted 2")
	expect(t, "back", d.report(1), "progress.invalid STEP_OUT_OF_ORDER")
	expect(t, "the last", d.lastReport(3), "progress.accepted 3")
	expect(t, "after the last", d.report(4), "progress.invalid FINAL_REPORT_EXISTS")
	expect(t, "another last", d.lastReport(3), "progress.invalid FINAL_REPORT_EXISTS")
	if run := d.runs["r1"]; run.Step != 3 || !run.Final || run.Invalid != 6 {
		t.Errorf("step %d, final %v, %d wrong, want 3, true, 6", run.Step, run.Final, run.Invalid)
	}
}

func TestAReportThatIsRefusedForOtherReasonsIsNoWrongReport(t *testing.T) {
	for name, c := range map[string]struct {
		send func(*driver) []step
		want string
		left int
	}{
		"data of another run": {func(d *driver) []step {
			return d.agent("alice", "r1", events.VerbProgressReport, reportData("r2", 1, false))
		}, "progress.invalid RUN_MISMATCH", 2},
		"an unknown run": {func(d *driver) []step {
			return d.agent("alice", "r9", events.VerbProgressReport, reportData("r9", 1, false))
		}, "progress.invalid RUN_NOT_FOUND outside", 0},
		"an unknown run, data that do not fit": {func(d *driver) []step {
			return d.agent("alice", "r9", events.VerbProgressReport, `{}`)
		}, "progress.invalid INVALID_ENVELOPE outside", 0},
		"another agent": {func(d *driver) []step {
			return d.agent("bob", "r1", events.VerbProgressReport, reportData("r1", 1, false))
		}, "progress.invalid RUN_NOT_OWNED outside", 0},
		"another agent, data that do not fit": {func(d *driver) []step {
			return d.agent("bob", "r1", events.VerbProgressReport, `{}`)
		}, "progress.invalid INVALID_ENVELOPE outside", 0},
		"after the end": {func(d *driver) []step {
			d.finish("SUCCESS")
			return d.report(1)
		}, "progress.invalid RUN_NOT_ACTIVE outside", 2},
		"after the end, data that do not fit": {func(d *driver) []step {
			d.finish("SUCCESS")
			return d.agent("alice", "r1", events.VerbProgressReport, `{}`)
		}, "progress.invalid RUN_NOT_ACTIVE outside", 2},
		"after the deadline": {func(d *driver) []step {
			d.now = after(time.Hour)
			d.tick()
			return d.report(1)
		}, "progress.invalid DEADLINE_EXCEEDED outside", 2},
	} {
		d := withKnowledge(t, testRules())
		steps := c.send(d)
		expect(t, name, steps, c.want)
		p := payload[*events.ProgressInvalid](t, steps, 0)
		if p.Message != events.Code(p.Code).Message() || p.Message == "" || p.Violations != nil || p.RepairsLeft != c.left {
			t.Errorf("%s: told %+v, want %d repairs left", name, p, c.left)
		}
		if got := d.runs["r1"].Invalid; got != 0 {
			t.Errorf("%s: %d wrong reports were counted", name, got)
		}
	}
}

func TestTheSameReportAgainIsNothingNewAndNoWrongReport(t *testing.T) {
	d := withKnowledge(t, testRules())
	good := d.message("agent", "alice", "r1", "progress.report", reportData("r1", 1, false, claim("a", "yes")))
	expect(t, "first", d.deliver(d.again(good)), "progress.accepted 1")
	for range 5 { // an agent that never saw the acknowledgement
		expect(t, "again", d.deliver(d.again(good)), "nothing")
	}
	wrong := d.message("agent", "alice", "r1", "progress.report", reportData("r1", 2, false, claim("a", "bad")))
	expect(t, "a wrong one", d.deliver(d.again(wrong)), "progress.invalid CALL_NOT_READY")
	expect(t, "again", d.deliver(d.again(wrong)), "nothing")
	if run := d.runs["r1"]; run.Invalid != 1 || run.Step != 1 {
		t.Errorf("step %d, %d wrong, want 1 and 1", run.Step, run.Invalid)
	}
	forged := d.again(wrong)
	forged.Subject = "harness.v1.part.0.in.agent.bob.r1.progress.report"
	expect(t, "another agent's is another event", d.deliver(forged), "progress.invalid RUN_NOT_OWNED outside")
	other := d.again(wrong)
	other.Header = map[string][]string{"ce-specversion": {"1.0"}, "ce-id": wrong.Header["ce-id"], "ce-source": {"/elsewhere"}, "ce-type": wrong.Header["ce-type"]}
	expect(t, "the id of another source is another event", d.deliver(other), "progress.invalid CALL_NOT_READY")
	d.finish("SUCCESS")
	expect(t, "after the end", d.deliver(d.again(other)), "nothing")
}

func TestWrongReportsAreCountedApartFromEverythingElse(t *testing.T) {
	// Refused calls and attempts, retries, failed calls and good reports use none
	// of the repairs; wrong reports use nothing else.
	d := withKnowledge(t, testRules())
	used := d.runs["r1"].Used()
	expect(t, "wrong 1", d.report(1, claim("a", "bad")), "progress.invalid CALL_NOT_READY")
	for i := range 5 {
		expect(t, "refused call", d.call("yes", "search", fmt.Sprintf(`{"q":%d}`, i)), "tool.rejected DUPLICATE_TOOL_CALL")
		expect(t, "refused attempt", d.modelReport("o9", "INTENT_ROUTER", 1, usedTokens(1, 1)), "model.rejected ATTEMPT_NOT_OPEN")
		expect(t, "good report", d.report(i+1), fmt.Sprintf("progress.accepted %d", i+1))
	}
	expect(t, "wrong 2", d.report(6, claim("a", "bad")), "progress.invalid CALL_NOT_READY")
	if got := d.runs["r1"].Used(); !cmp.Equal(used, got) {
		t.Errorf("reports changed the usage from %+v to %+v", used, got)
	}
	steps := d.report(6, claim("a", "bad"))
	expect(t, "wrong 3", steps, "progress.invalid CALL_NOT_READY", "run.released PROGRESS_PROTOCOL_VIOLATED due")
	if got := payload[*events.ProgressInvalid](t, steps, 0).RepairsLeft; got != 0 {
		t.Errorf("%d repairs left, want 0", got)
	}
}

func TestTheRepairsThatAPolicyAllowsAreExact(t *testing.T) {
	for repairs := range 4 {
		rules := testRules()
		rules.Policy.Progress.MaxRepairs = repairs
		d := withKnowledge(t, rules)
		for wrong := 1; wrong <= repairs; wrong++ {
			steps := d.report(9)
			expect(t, fmt.Sprintf("%d repairs, wrong %d", repairs, wrong), steps, "progress.invalid STEP_OUT_OF_ORDER")
			if got := payload[*events.ProgressInvalid](t, steps, 0).RepairsLeft; got != repairs-wrong {
				t.Errorf("%d repairs, wrong %d: %d left, want %d", repairs, wrong, got, repairs-wrong)
			}
		}
		expect(t, fmt.Sprintf("%d repairs, one too many", repairs), d.report(9), "progress.invalid STEP_OUT_OF_ORDER", "run.released PROGRESS_PROTOCOL_VIOLATED due")
	}
}

func TestAReportIsJudgedByRecordsAsTheyAreAtItsTime(t *testing.T) {
	d := withKnowledge(t, testRules())
	expect(t, "open", d.report(1, claim("a", "open")), "progress.invalid CALL_NOT_READY")
	d.result("files", "open", succeeded(`[1]`))
	expect(t, "settled", d.report(1, claim("a", "open")), "progress.accepted 1")
	d.agent("alice", "r2", events.VerbRunStart, startData("r2", minute, limitsJSON()))
	expect(t, "a call of another run", d.agent("alice", "r2", events.VerbProgressReport, reportData("r2", 1, false, claim("a", "yes"))), "progress.invalid UNKNOWN_CALL")
}

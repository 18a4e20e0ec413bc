package harness_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
)

func TestAReportIsRecordedOnlyOfTheAttemptThatIsOpen(t *testing.T) {
	first := func(d *driver) { d.model("o1", "INTENT_ROUTER") }
	failed := func(d *driver) { first(d); d.modelReport("o1", "INTENT_ROUTER", 1, failedWith("TIMEOUT")) }
	second := func(d *driver) { failed(d); d.model("o1", "INTENT_ROUTER") }
	for name, c := range map[string]struct {
		before  func(*driver)
		id, op  string
		attempt int
		want    string
	}{
		"the open one":                {first, "o1", "INTENT_ROUTER", 1, "model.recorded SUCCEEDED"},
		"the open second":             {second, "o1", "INTENT_ROUTER", 2, "model.recorded SUCCEEDED"},
		"one that was never asked":    {func(*driver) {}, "o1", "INTENT_ROUTER", 1, "model.rejected ATTEMPT_NOT_OPEN"},
		"another id":                  {first, "o2", "INTENT_ROUTER", 1, "model.rejected ATTEMPT_NOT_OPEN"},
		"another operation":           {first, "o1", "SEMANTIC_GUARD", 1, "model.rejected ATTEMPT_NOT_OPEN"},
		"an attempt that is to come":  {first, "o1", "INTENT_ROUTER", 2, "model.rejected ATTEMPT_NOT_OPEN"},
		"one that was reported":       {failed, "o1", "INTENT_ROUTER", 1, "model.rejected ATTEMPT_NOT_OPEN"},
		"the first during the second": {second, "o1", "INTENT_ROUTER", 1, "model.rejected ATTEMPT_NOT_OPEN"},
		"the largest attempt":         {first, "o1", "INTENT_ROUTER", 1<<62 + 1, "model.rejected ATTEMPT_NOT_OPEN"},
	} {
		d := newDriver(t, testRules())
		d.start()
		c.before(d)
		used := d.runs["r1"].Used()
		expect(t, name, d.modelReport(c.id, c.op, c.attempt, usedTokens(3, 2)), c.want)
		if got := d.runs["r1"].Used(); strings.HasPrefix(c.want, "model.rejected") && !cmp.Equal(used, got) {
			t.Errorf("%s: a refused report was counted: %+v", name, got)
		}
	}
}

func TestAReportOfAnotherRunAgentOrTimeIsRefused(t *testing.T) {
	data := modelReportData("r1", "o1", "INTENT_ROUTER", 1, usedTokens(3, 2))
	for name, c := range map[string]struct {
		send func(*driver) []step
		want []string
	}{
		"data of another run": {func(d *driver) []step {
			return d.agent("alice", "r1", events.VerbModelReport, strings.Replace(data, "r1", "r2", 1))
		}, []string{"model.rejected RUN_MISMATCH"}},
		"an unknown run": {func(d *driver) []step {
			return d.agent("alice", "r2", events.VerbModelReport, strings.Replace(data, "r1", "r2", 1))
		}, []string{"model.rejected RUN_NOT_FOUND outside"}},
		"another agent":    {func(d *driver) []step { return d.agent("bob", "r1", events.VerbModelReport, data) }, []string{"model.rejected RUN_NOT_OWNED outside"}},
		"data that misfit": {func(d *driver) []step { return d.agent("alice", "r1", events.VerbModelReport, `{}`) }, []string{"model.rejected INVALID_ENVELOPE"}},
		"after the end": {func(d *driver) []step {
			d.finish("SUCCESS")
			return d.agent("alice", "r1", events.VerbModelReport, data)
		}, []string{"model.rejected RUN_NOT_ACTIVE outside"}},
		"at the deadline": {func(d *driver) []step {
			d.now = after(time.Minute)
			return d.agent("alice", "r1", events.VerbModelReport, data)
		}, []string{"run.ending TIMED_OUT due", "run.progress due", "run.terminated TIMED_OUT due", "model.rejected DEADLINE_EXCEEDED outside"}},
	} {
		d := newDriver(t, testRules())
		d.start()
		d.model("o1", "INTENT_ROUTER")
		expect(t, name, c.send(d), c.want...)
		if used := d.runs["r1"].Used(); used.TotalTokens != 0 || used.UnknownUsage != 1 {
			t.Errorf("%s: used %+v", name, used)
		}
	}
}

func TestAnEndedRunTellsItsOpenAttemptsAsUnknownUsage(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	d.model("o1", "INTENT_ROUTER")
	d.modelReport("o1", "INTENT_ROUTER", 1, usedTokens(3, 2))
	d.model("o2", "DIAGNOSIS_AGENT")
	steps := d.finish("SUCCESS")
	expect(t, "finish", steps, "run.ending SUCCESS", "run.progress due", "run.terminated SUCCESS due")
	want := events.Usage{ModelCalls: 2, InputTokens: 3, OutputTokens: 2, TotalTokens: 5, UnknownUsage: 1}
	if got := payload[*events.RunTerminated](t, steps, 2).Usage; !cmp.Equal(want, got) {
		t.Errorf("used %+v, want %+v", got, want)
	}
}

// TestUsageIsRecordedAsItWasReported: at a limit the run goes on, above it the
// usage stands and the run ends.
func TestUsageIsRecordedAsItWasReported(t *testing.T) {
	const limits = `"input_tokens":10 "output_tokens":8 "total_tokens":15`
	for name, c := range map[string]struct {
		usage           string
		in, out, total  int64
		unknown         int64
		limit, accepted string
	}{
		"none":                      {`null`, 0, 0, 0, 1, "", "model.recorded SUCCEEDED"},
		"zero":                      {`{"input_tokens":0,"output_tokens":0}`, 0, 0, 0, 0, "", "model.recorded SUCCEEDED"},
		"zero, with a total":        {`{"input_tokens":0,"output_tokens":0,"total_tokens":3}`, 0, 0, 3, 0, "", "model.recorded SUCCEEDED"},
		"a total below the sum":     {`{"input_tokens":4,"output_tokens":3,"total_tokens":1}`, 4, 3, 7, 0, "", "model.recorded SUCCEEDED"},
		"a total above the sum":     {`{"input_tokens":4,"output_tokens":3,"total_tokens":15}`, 4, 3, 15, 0, "", "model.recorded SUCCEEDED"},
		"input at the limit":        {`{"input_tokens":10,"output_tokens":5}`, 10, 5, 15, 0, "", "model.recorded SUCCEEDED"},
		"input above the limit":     {`{"input_tokens":11,"output_tokens":0}`, 11, 0, 11, 0, "input_tokens", "model.recorded SUCCEEDED"},
		"output at the limit":       {`{"input_tokens":7,"output_tokens":8}`, 7, 8, 15, 0, "", "model.recorded SUCCEEDED"},
		"output above the limit":    {`{"input_tokens":0,"output_tokens":9}`, 0, 9, 9, 0, "output_tokens", "model.recorded SUCCEEDED"},
		"sum above the limit":       {`{"input_tokens":8,"output_tokens":8}`, 8, 8, 16, 0, "total_tokens", "model.recorded SUCCEEDED"},
		"total above the limit":     {`{"input_tokens":1,"output_tokens":1,"total_tokens":16}`, 1, 1, 16, 0, "total_tokens", "model.recorded SUCCEEDED"},
		"all above: the first tell": {`{"input_tokens":1099511627776,"output_tokens":1099511627776}`, 1 << 40, 1 << 40, 1 << 41, 0, "input_tokens", "model.recorded SUCCEEDED"},
		"negative":                  {`{"input_tokens":-1,"output_tokens":1}`, 0, 0, 0, 1, "", "model.rejected INVALID_ENVELOPE"},
		"half known":                {`{"input_tokens":1}`, 0, 0, 0, 1, "", "model.rejected INVALID_ENVELOPE"},
		"too large to be true":      {`{"input_tokens":1099511627777,"output_tokens":1}`, 0, 0, 0, 1, "", "model.rejected INVALID_ENVELOPE"},
	} {
		d := newDriver(t, testRules())
		d.start(strings.Fields(limits)...)
		d.model("o1", "DIAGNOSIS_AGENT")
		steps := d.modelReport("o1", "DIAGNOSIS_AGENT", 1, `"outcome":"SUCCEEDED","usage":`+c.usage)
		want := []string{c.accepted}
		if c.limit != "" {
			want = append(want, "run.ending BUDGET_EXHAUSTED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due")
		}
		expect(t, name, steps, want...)
		wantUsage := events.Usage{ModelCalls: 1, InputTokens: c.in, OutputTokens: c.out, TotalTokens: c.total, UnknownUsage: c.unknown}
		if got := d.runs["r1"].Used(); !cmp.Equal(wantUsage, got) {
			t.Errorf("%s: used %+v, want %+v", name, got, wantUsage)
		}
		if p, ok := steps[0].fact.Payload.(*events.ModelRecorded); ok {
			if (p.Usage == nil) != (c.unknown == 1) || p.Limit != c.limit {
				t.Errorf("%s: recorded %+v", name, p)
			}
			if data := string(d.history["r1"][2].encoded.Data); (p.Usage == nil) != strings.Contains(data, `"usage":null`) {
				t.Errorf("%s: the fact tells %s", name, data)
			}
		}
		if c.limit == "" {
			continue
		}
		if p := payload[*events.RunEnding](t, steps, 1); p.Limit != c.limit {
			t.Errorf("%s: the ending names %q", name, p.Limit)
		}
		expect(t, name+", and then", d.model("o2", "DIAGNOSIS_AGENT"), "model.rejected RUN_NOT_ACTIVE outside")
		expect(t, name+", and then", d.call("c1", "search", `{"q":1}`), "tool.rejected RUN_NOT_ACTIVE outside")
	}
}

func TestTokensAddUpOverAttemptsThatFailToo(t *testing.T) {
	d := newDriver(t, testRules())
	d.start(`"input_tokens":10`, `"output_tokens":100`, `"total_tokens":100`)
	d.model("o1", "INTENT_ROUTER")
	expect(t, "first", d.modelReport("o1", "INTENT_ROUTER", 1, `"outcome":"FAILED","failure":"TIMEOUT","usage":{"input_tokens":6,"output_tokens":0}`), "model.recorded FAILED")
	d.model("o1", "INTENT_ROUTER")
	d.model("o2", "SEMANTIC_GUARD")
	expect(t, "to the limit", d.modelReport("o2", "SEMANTIC_GUARD", 1, usedTokens(4, 1)), "model.recorded SUCCEEDED")
	if used := d.runs["r1"].Used(); used.InputTokens != 10 || used.UnknownUsage != 1 {
		t.Errorf("used %+v", used)
	}
	expect(t, "another attempt at the limit", d.model("o3", "DIAGNOSIS_AGENT"), "model.granted 1")
	steps := d.modelReport("o1", "INTENT_ROUTER", 2, usedTokens(1, 0))
	expect(t, "one token more", steps, "model.recorded SUCCEEDED", "run.ending BUDGET_EXHAUSTED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due")
	want := events.Usage{ModelCalls: 4, InputTokens: 11, OutputTokens: 1, TotalTokens: 12, UnknownUsage: 1}
	if got := payload[*events.RunTerminated](t, steps, 3).Usage; !cmp.Equal(want, got) {
		t.Errorf("used %+v, want %+v", got, want)
	}
}

func TestABudgetOfTokensThatWasPassedEndsTheRunAfterACrashToo(t *testing.T) {
	d := newDriver(t, testRules())
	d.start(`"input_tokens":1`)
	d.model("o1", "INTENT_ROUTER")
	in, err := events.Decode(d.subjects, d.message("agent", "alice", "r1", "model.report", modelReportData("r1", "o1", "INTENT_ROUTER", 1, usedTokens(2, 0))))
	if err != nil {
		t.Fatal(err)
	}
	d.publish(in, d.rules.Decide(d.load("r1", in), in, noon).Fact)
	expect(t, "whatever comes", d.model("o2", "INTENT_ROUTER"),
		"run.ending BUDGET_EXHAUSTED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due", "model.rejected RUN_NOT_ACTIVE outside")
}

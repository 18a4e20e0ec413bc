package harness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

func TestARunStartsAsItsOwnerAsks(t *testing.T) {
	d := newDriver(t, testRules())
	steps := d.agent("alice", "r1", events.VerbRunStart, startData("r1", `"2026-01-01T13:01:00.0019+01:00"`, limitsJSON(`"tool_calls":7`)))
	expect(t, "start", steps, "run.started")
	want := events.RunStarted{
		RunID: "r1", SessionID: "s1", Agent: "alice", Policy: "sha256:policy",
		Deadline: after(time.Minute + time.Millisecond), ExpiresAt: after(24*time.Hour + time.Minute + time.Millisecond), // whole milliseconds
		Limits: events.Limits{ModelCalls: 10, ToolCalls: 7, CallsPerTool: 10, InputTokens: 10, OutputTokens: 10, TotalTokens: 10, RunBytes: 100000},
	}
	if p := payload[*events.RunStarted](t, steps, 0); *p != want {
		t.Errorf("got  %+v\nwant %+v", *p, want)
	}
	run := d.runs["r1"]
	if run.Sequence != 1 || run.Phase != harness.PhaseRunning || run.Agent != "alice" || run.SessionID != "s1" || run.Limits != want.Limits || run.Inbound != 1 || !run.StartedAt.Equal(noon) {
		t.Errorf("the run is %+v", run)
	}
}

func TestAStartThatIsRefusedLeavesNothing(t *testing.T) {
	limits := limitsJSON()
	for name, c := range map[string]struct {
		data string
		code string
	}{
		"no data":                    {``, "INVALID_ENVELOPE"},
		"unknown member":             {strings.Replace(startData("r1", minute, limits), "{", `{"more":1,`, 1), "INVALID_ENVELOPE"},
		"another run":                {startData("r2", minute, limits), "RUN_MISMATCH"},
		"no session":                 {strings.Replace(startData("r1", minute, limits), `"s1"`, `""`, 1), "INVALID_IDENTITY"},
		"blank session":              {strings.Replace(startData("r1", minute, limits), `"s1"`, `" \t\u00a0"`, 1), "INVALID_IDENTITY"},
		"session with a line feed":   {strings.Replace(startData("r1", minute, limits), `"s1"`, `"a\nb"`, 1), "INVALID_IDENTITY"},
		"session of 257 bytes":       {strings.Replace(startData("r1", minute, limits), `"s1"`, `"`+strings.Repeat("s", 257)+`"`, 1), "INVALID_IDENTITY"},
		"no limits":                  {`{"run_id":"r1","session_id":"s1","deadline":` + minute + `}`, "INVALID_LIMITS"},
		"deadline now":               {startData("r1", `"2026-01-01T12:00:00Z"`, limits), "INVALID_DEADLINE"},
		"deadline within this milli": {startData("r1", `"2026-01-01T12:00:00.0009Z"`, limits), "INVALID_DEADLINE"},
		"deadline in the past":       {startData("r1", `"2025-01-01T12:00:00Z"`, limits), "INVALID_DEADLINE"},
		"deadline over the longest":  {startData("r1", `"2026-01-01T13:00:00.001Z"`, limits), "INVALID_DEADLINE"},
		"deadline far away":          {startData("r1", `"9999-12-31T23:59:59Z"`, limits), "INVALID_DEADLINE"},
		"deadline without a zone":    {startData("r1", `"2026-01-01T12:01:00"`, limits), "INVALID_ENVELOPE"},
		"a limit of 2^63":            {startData("r1", minute, limitsJSON(`"run_bytes":9223372036854775808`)), "INVALID_ENVELOPE"},
	} {
		d := newDriver(t, testRules())
		steps := d.agent("alice", "r1", events.VerbRunStart, c.data)
		expect(t, name, steps, "run.rejected "+c.code+" outside")
		if p := payload[*events.RunRejected](t, steps, 0); p.Intent != "run.start" || p.RunID != "r1" || p.Message != events.Code(c.code).Message() || (p.Limit != "") != (c.code == "INVALID_LIMITS") {
			t.Errorf("%s: told %+v", name, p)
		}
		if d.runs["r1"] != nil || len(d.history) != 0 {
			t.Errorf("%s: something of the run is there", name)
		}
		expect(t, name+", then well", d.start(), "run.started")
	}
	for _, deadline := range []string{`"2026-01-01T12:00:00.001Z"`, `"2026-01-01T13:00:00Z"`, `"2026-01-01T13:00:00.0009Z"`} {
		d := newDriver(t, testRules())
		expect(t, deadline, d.agent("alice", "r1", events.VerbRunStart, startData("r1", deadline, limits)), "run.started")
	}
}

func TestEachLimitMustBePositiveAndWithinItsCeiling(t *testing.T) {
	for _, name := range []string{"model_calls", "tool_calls", "calls_per_tool", "input_tokens", "output_tokens", "total_tokens", "run_bytes"} {
		for value, accepted := range map[string]bool{"1": true, "1099511627776": true, "0": false, "-1": false, "1099511627777": false, "9223372036854775807": false, "-9223372036854775808": false} {
			d := newDriver(t, testRules())
			steps := d.start(fmt.Sprintf(`%q:%s`, name, value))
			if accepted {
				expect(t, name+" "+value, steps, "run.started")
				continue
			}
			expect(t, name+" "+value, steps, "run.rejected INVALID_LIMITS outside")
			if got := payload[*events.RunRejected](t, steps, 0).Limit; got != name {
				t.Errorf("%s %s: the refusal names %q", name, value, got)
			}
		}
	}
}

func TestASecondStartChangesNothing(t *testing.T) {
	d := newDriver(t, testRules())
	m := d.message("agent", "alice", "r1", "run.start", startData("r1", minute, limitsJSON()))
	expect(t, "first", d.deliver(m), "run.started")
	expect(t, "the same event", d.deliver(d.again(m)), "nothing")
	expect(t, "another event", d.start(`"tool_calls":9`), "run.rejected RUN_ALREADY_EXISTS outside")
	steps := d.agent("bob", "r1", events.VerbRunStart, startData("r1", minute, limitsJSON()))
	expect(t, "another agent", steps, "run.rejected RUN_ALREADY_EXISTS outside")
	if f := steps[0].fact; f.Agent != "bob" {
		t.Errorf("told to %s, want bob", f.Agent)
	}
	foreign := d.again(m)
	foreign.Subject = "harness.v1.part.0.in.agent.bob.r1.run.start"
	expect(t, "the same event of another agent", d.deliver(foreign), "run.rejected RUN_ALREADY_EXISTS outside")
	d.finish("SUCCESS")
	expect(t, "after the end", d.start(), "run.rejected RUN_ALREADY_EXISTS outside")
	expect(t, "the same event after the end", d.deliver(d.again(m)), "nothing")
	if run := d.runs["r1"]; run.Limits.ToolCalls != 10 || run.Agent != "alice" {
		t.Errorf("the run is %+v", run)
	}
}

func TestAnEndingSettlesOpenCallsInOrderThenTellsProgressThenCloses(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	d.call("c1", "search", `{"q":1}`)
	d.call("c2", "read_file", `{}`)
	d.call("c3", "search", `{"q":1}`)
	d.call("c4", "search", `{"q":1}`)
	d.result("web", "c3", succeeded(`[]`))
	d.result("web", "c1", succeeded(`1`))
	d.now = after(5 * time.Second)
	steps := d.finish("SUCCESS")
	expect(t, "finish", steps, "run.ending SUCCESS",
		"tool.settled ERROR RUN_TERMINATED due", "tool.settled ERROR RUN_TERMINATED due", "run.progress due", "run.terminated SUCCESS due")
	if a, b := payload[*events.ToolSettled](t, steps, 1).ToolCallID, payload[*events.ToolSettled](t, steps, 2).ToolCallID; a != "c2" || b != "c4" {
		t.Errorf("settled %s, then %s, want c2, then c4", a, b)
	}
	progress := payload[*events.RunProgress](t, steps, 3)
	if len(progress.Observed) != 2 || progress.Observed[0].ToolCallID != "c1" || progress.Observed[1].ToolCallID != "c3" || progress.LeftOut["ERROR"] != 2 {
		t.Errorf("progress %+v, want c1 and c3 in order of reservation, 2 errors left out", progress)
	}
	last := payload[*events.RunTerminated](t, steps, 4)
	if last.Reason != "FINISHED_BY_AGENT" || !last.EndedAt.Equal(after(5*time.Second)) || last.Calls["READY"] != 2 || last.Calls["ERROR"] != 2 || last.Usage.ToolCalls != 4 {
		t.Errorf("terminated %+v", last)
	}
	run := d.runs["r1"]
	if run.Phase != harness.PhaseTerminated || len(run.Open) != 0 || run.Termination.Outcome != "SUCCESS" {
		t.Errorf("the run is %+v", run)
	}
	expect(t, "a tick finds nothing", d.tick())
}

func TestWhoMayEndARunAndHow(t *testing.T) {
	for name, c := range map[string]struct {
		send   func(*driver) []step
		want   string // first step
		reason string // of the ending
	}{
		"owner finishes well":       {func(d *driver) []step { return d.finish("SUCCESS") }, "run.ending SUCCESS", "FINISHED_BY_AGENT"},
		"owner finishes badly":      {func(d *driver) []step { return d.finish("FAILED") }, "run.ending FAILED", "FINISHED_BY_AGENT"},
		"owner cancels":             {func(d *driver) []step { return d.cancel("USER_REQUESTED") }, "run.ending CANCELLED", "USER_REQUESTED"},
		"owner's client is gone":    {func(d *driver) []step { return d.cancel("CLIENT_DISCONNECTED") }, "run.ending CANCELLED", "CLIENT_DISCONNECTED"},
		"operator cancels":          {func(d *driver) []step { return d.operatorCancels("OPERATOR_REQUESTED") }, "run.ending CANCELLED", "OPERATOR_REQUESTED"},
		"operator, another reason":  {func(d *driver) []step { return d.operatorCancels("USER_REQUESTED") }, "run.ending CANCELLED", "OPERATOR_REQUESTED"},
		"owner finishes as timeout": {func(d *driver) []step { return d.finish("TIMED_OUT") }, "run.rejected INVALID_ENVELOPE outside", ""},
		"owner cancels by budget":   {func(d *driver) []step { return d.cancel("BUDGET_EXHAUSTED") }, "run.rejected INVALID_ENVELOPE outside", ""},
		"data of another run": {func(d *driver) []step {
			return d.agent("alice", "r1", "run.finish", `{"run_id":"r2","outcome":"SUCCESS"}`)
		}, "run.rejected RUN_MISMATCH outside", ""},
		"no such run": {func(d *driver) []step {
			return d.agent("alice", "r2", "run.cancel", `{"run_id":"r2","reason":"USER_REQUESTED"}`)
		}, "run.rejected RUN_NOT_FOUND outside", ""},
		"a stranger finishes": {func(d *driver) []step {
			return d.agent("bob", "r1", "run.finish", `{"run_id":"r1","outcome":"SUCCESS"}`)
		}, "run.rejected RUN_NOT_OWNED outside", ""},
		"a stranger cancels": {func(d *driver) []step {
			return d.agent("bob", "r1", "run.cancel", `{"run_id":"r1","reason":"USER_REQUESTED"}`)
		}, "run.rejected RUN_NOT_OWNED outside", ""},
		"operator, no such run": {func(d *driver) []step {
			return d.deliver(d.message("operator", "olga", "r2", "run.cancel", `{"run_id":"r2","reason":"OPERATOR_REQUESTED"}`))
		}, "invalid REFUSED_CANCEL", ""},
		"operator, data do not fit": {func(d *driver) []step { return d.operatorCancels("BORED") }, "invalid REFUSED_CANCEL", ""},
	} {
		d := withCall(t, testRules())
		steps := c.send(d)
		if got := brief(steps)[0]; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
			continue
		}
		if c.reason == "" {
			if len(steps) != 1 || d.runs["r1"].Phase != harness.PhaseRunning || len(d.history["r1"]) != 2 {
				t.Errorf("%s: a refusal changed the run", name)
			}
			continue
		}
		if got := payload[*events.RunEnding](t, steps, 0).Reason; got != c.reason {
			t.Errorf("%s: the reason is %s, want %s", name, got, c.reason)
		}
		if p := payload[*events.RunTerminated](t, steps, len(steps)-1); p.Reason != c.reason {
			t.Errorf("%s: terminated by %s, want %s", name, p.Reason, c.reason)
		}
		expect(t, name+", then finish", d.finish("FAILED"), "run.rejected RUN_NOT_ACTIVE outside")
		expect(t, name+", then cancel", d.cancel("USER_REQUESTED"), "run.rejected RUN_NOT_ACTIVE outside")
		expect(t, name+", then an operator", d.operatorCancels("OPERATOR_REQUESTED"), "invalid REFUSED_CANCEL")
	}
}

// terminal is every event that ends a run, and the outcome that it brings.
var terminal = []struct {
	name    string
	outcome events.Outcome
	send    func(*driver)
}{
	{"success", "SUCCESS", func(d *driver) { d.finish("SUCCESS") }},
	{"failure", "FAILED", func(d *driver) { d.finish("FAILED") }},
	{"cancel", "CANCELLED", func(d *driver) { d.cancel("USER_REQUESTED") }},
	{"operator", "CANCELLED", func(d *driver) { d.operatorCancels("OPERATOR_REQUESTED") }},
	{"deadline", "TIMED_OUT", func(d *driver) { d.now = after(2 * time.Minute); d.tick() }},
	{"budget", "BUDGET_EXHAUSTED", func(d *driver) { d.call("over", "search", `{"q":1}`) }},
	{"bytes", "BUDGET_EXHAUSTED", func(d *driver) { d.result("web", "c1", succeeded(`"`+strings.Repeat("x", 900)+`"`)) }},
}

func TestARunTerminatesExactlyOnceUnderEveryOrderOfTwoAndThreeTerminalEvents(t *testing.T) {
	orders := 0
	for i := range terminal {
		for j := range terminal {
			for k := range len(terminal) + 1 { // the last stands for no third event
				if i == j || j == k || i == k {
					continue
				}
				order := []int{i, j}
				if k < len(terminal) {
					order = append(order, k)
				}
				orders++
				terminatesOnce(t, order)
			}
		}
	}
	if orders != 42+210 {
		t.Errorf("%d orders were tried, want 42 of two and 210 of three", orders)
	}
}

func terminatesOnce(t *testing.T, order []int) {
	t.Helper()
	d := newDriver(t, testRules())
	d.start(`"tool_calls":2`, `"run_bytes":1000`)
	d.call("c1", "search", `{"q":1}`)
	d.call("c2", "read_file", `{}`)
	names := make([]string, 0, len(order))
	for _, at := range order {
		d.now = d.now.Add(time.Second)
		terminal[at].send(d)
		names = append(names, terminal[at].name)
	}
	what := strings.Join(names, ", ")
	want := terminal[order[0]].outcome
	counts := map[events.Kind]int{}
	state := &harness.State{}
	for _, p := range d.history["r1"] {
		f, _ := d.apply(state, p)
		counts[f.Kind()]++
		if ending, ok := f.Payload.(*events.RunEnding); ok && ending.Outcome != want {
			t.Errorf("%s: ending %s, want %s", what, ending.Outcome, want)
		}
		if last, ok := f.Payload.(*events.RunTerminated); ok && last.Outcome != want {
			t.Errorf("%s: terminated %s, want %s", what, last.Outcome, want)
		}
	}
	if counts[events.KindRunEnding] != 1 || counts[events.KindRunProgress] != 1 || counts[events.KindRunTerminated] != 1 || counts[events.KindToolSettled] != 2 {
		t.Errorf("%s: %v", what, counts)
	}
	if first := d.runs["r1"].Termination; first.Outcome != want || first.At.After(after(2*time.Minute)) {
		t.Errorf("%s: the termination is %+v", what, first)
	}
}

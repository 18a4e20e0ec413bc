package harness_test

import (
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

func TestACallTimesOutAtItsDeadlineExactly(t *testing.T) {
	d := withCall(t, testRules())
	d.now = after(10*time.Second - time.Millisecond)
	expect(t, "just before", d.tick())
	d.now = after(10 * time.Second)
	steps := d.tick()
	expect(t, "at the deadline", steps, "tool.settled ERROR TOOL_TIMEOUT due")
	p := payload[*events.ToolSettled](t, steps, 0)
	if p.Message != "The tool did not answer in time." || p.RawBytes != 0 || p.RawStored || p.Evidence != events.EvidenceError {
		t.Errorf("settled %+v", p)
	}
	if r := d.records["r1"]["c1"]; r.ResultCause != (events.Cause{}) || !r.SettledAt.Equal(d.now) {
		t.Errorf("the record is %+v", r)
	}
	expect(t, "once", d.tick())
	if phase := d.runs["r1"].Phase; phase != harness.PhaseRunning {
		t.Errorf("a timeout of a call ended the run: %s", phase)
	}
}

func TestAResultAtTheDeadlineIsLateWhoeverNoticesTheDeadline(t *testing.T) {
	d := withCall(t, testRules())
	d.now = after(10*time.Second - time.Millisecond)
	expect(t, "just before", d.result("web", "c1", succeeded(`1`)), "tool.settled READY EVIDENCE_FOUND")

	d = withCall(t, testRules())
	d.now = after(10 * time.Second)
	expect(t, "no tick came", d.result("web", "c1", succeeded(`1`)), "tool.settled ERROR TOOL_TIMEOUT due", "tool.late outside")
}

func TestOverdueCallsAreSettledInTheOrderOfTheirDeadlines(t *testing.T) {
	rules := testRules()
	slow := rules.Policy.Tools["read_file"]
	slow.Timeout = 20 * time.Second
	rules.Policy.Tools["read_file"] = slow
	d := newDriver(t, rules)
	d.start()
	d.call("slow", "read_file", `{}`)
	d.now = after(time.Second)
	d.call("late", "search", `{"q":1}`) // until 11 s
	d.call("tie", "search", `{"q":1}`)  // until 11 s too: order of reservation
	d.now = after(2 * time.Second)
	d.call("later", "search", `{"q":1}`) // until 12 s
	d.now = after(30 * time.Second)
	var order []string
	for i, s := range d.tick() {
		order = append(order, payload[*events.ToolSettled](t, []step{s}, 0).ToolCallID)
		if s.brief() != "tool.settled ERROR TOOL_TIMEOUT due" {
			t.Errorf("step %d is %q", i, s.brief())
		}
	}
	if len(order) != 4 || order[0] != "late" || order[1] != "tie" || order[2] != "later" || order[3] != "slow" {
		t.Errorf("settled in order %q", order)
	}
}

func TestTheRunTimesOutAtItsDeadlineExactly(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	d.now = after(time.Minute - time.Millisecond)
	expect(t, "just before", d.tick())
	expect(t, "a call just before", d.call("c1", "read_file", `{}`), "tool.reserved")
	d.now = after(time.Minute)
	steps := d.tick()
	expect(t, "at the deadline", steps,
		"tool.settled ERROR TOOL_TIMEOUT due", "run.ending TIMED_OUT due", "run.progress due", "run.terminated TIMED_OUT due")
	if p := payload[*events.RunEnding](t, steps, 1); p.Reason != "DEADLINE_EXCEEDED" || p.Limit != "" {
		t.Errorf("the ending is %+v", p)
	}
}

func TestWhateverComesAtTheDeadlineFindsTheRunTimedOut(t *testing.T) {
	for name, c := range map[string]struct {
		send func(*driver) []step
		want string // the answer, after the ending
	}{
		"a call":         {func(d *driver) []step { return d.call("c1", "search", `{"q":1}`) }, "tool.rejected DEADLINE_EXCEEDED outside"},
		"a finish":       {func(d *driver) []step { return d.finish("SUCCESS") }, "run.rejected RUN_NOT_ACTIVE outside"},
		"a cancellation": {func(d *driver) []step { return d.cancel("USER_REQUESTED") }, "run.rejected RUN_NOT_ACTIVE outside"},
		"a stranger's call": {func(d *driver) []step {
			return d.agent("bob", "r1", "tool.call", callData("r1", "c1", "search", `{"q":1}`))
		}, "tool.rejected RUN_NOT_OWNED outside"},
		"data that misfit":   {func(d *driver) []step { return d.agent("alice", "r1", "tool.call", `{}`) }, "tool.rejected INVALID_ENVELOPE outside"},
		"a result of nobody": {func(d *driver) []step { return d.resultOf("web", "c9", "r1.9", succeeded(`1`)) }, "invalid UNKNOWN_CALL"},
	} {
		d := newDriver(t, testRules())
		d.start()
		d.now = after(time.Minute)
		expect(t, name, c.send(d), "run.ending TIMED_OUT due", "run.progress due", "run.terminated TIMED_OUT due", c.want)
		if got := len(d.history["r1"]); got != 4 {
			t.Errorf("%s: the history has %d facts, want 4", name, got)
		}
		d.now = after(time.Hour)
		expect(t, name+", a call much later", d.call("c1", "search", `{"q":1}`), "tool.rejected DEADLINE_EXCEEDED outside")
	}
}

func TestAnotherEndAnswersNotActiveAfterTheDeadlineToo(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	d.finish("SUCCESS")
	expect(t, "before the deadline", d.call("c1", "search", `{"q":1}`), "tool.rejected RUN_NOT_ACTIVE outside")
	d.now = after(time.Hour)
	expect(t, "after it", d.call("c1", "search", `{"q":1}`), "tool.rejected RUN_NOT_ACTIVE outside")
}

func TestABudgetThatWasReachedEndsTheRunBeforeTheDeadlineDoes(t *testing.T) {
	// A crash after the refusal, and the next event comes after the deadline.
	d := newDriver(t, testRules())
	d.start(`"tool_calls":1`)
	d.call("c1", "search", `{"q":1}`)
	in, err := events.Decode(d.subjects, d.message("agent", "alice", "r1", "tool.call", callData("r1", "c2", "search", `{"q":1}`)))
	if err != nil {
		t.Fatal(err)
	}
	s := d.publish(in, d.rules.Decide(d.load("r1", in), in, noon).Fact)
	expect(t, "refusal", []step{s}, "tool.rejected BUDGET_EXHAUSTED")
	d.now = after(time.Hour)
	expect(t, "tick", d.tick(), "run.ending BUDGET_EXHAUSTED due", "tool.settled ERROR RUN_TERMINATED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due")
}

func TestTheNextDueInstantIsTheEarliestDeadline(t *testing.T) {
	d := newDriver(t, testRules())
	next := func() time.Time {
		at, ok := d.runs["r1"].NextDue()
		if !ok {
			t.Fatal("nothing is due")
		}
		return at
	}
	d.start()
	if got := next(); !got.Equal(after(time.Minute)) {
		t.Errorf("a run without calls: %s", got)
	}
	d.call("long", "read_file", `{}`)
	if got := next(); !got.Equal(after(time.Minute)) {
		t.Errorf("a call as long as the run: %s", got)
	}
	d.now = after(time.Second)
	d.call("c1", "search", `{"q":1}`)
	d.now = after(2 * time.Second)
	d.call("c2", "search", `{"q":1}`)
	if got := next(); !got.Equal(after(11 * time.Second)) {
		t.Errorf("two calls: %s", got)
	}
	d.result("web", "c1", succeeded(`1`))
	if got := next(); !got.Equal(after(12 * time.Second)) {
		t.Errorf("one settled: %s", got)
	}
	d.finish("SUCCESS")
	if at, ok := d.runs["r1"].NextDue(); ok {
		t.Errorf("a terminated run is due at %s", at)
	}
	ending := harness.Run{Phase: harness.PhaseEnding, At: after(5 * time.Second)}
	if at, ok := ending.NextDue(); !ok || !at.Equal(after(5*time.Second)) {
		t.Errorf("an ending run is due at %s, %v, want at once", at, ok)
	}
}

func TestTimeNeverGoesBackWithinARun(t *testing.T) {
	run := &harness.Run{At: after(5 * time.Second)}
	event := func(d time.Duration) *events.Inbound { return &events.Inbound{Time: after(d)} }
	for name, c := range map[string]struct {
		clock time.Time
		run   *harness.Run
		in    *events.Inbound
		want  time.Time
	}{
		"the clock is latest":            {after(9 * time.Second), run, event(7 * time.Second), after(9 * time.Second)},
		"the event is latest":            {after(6 * time.Second), run, event(7 * time.Second), after(7 * time.Second)},
		"the run is latest":              {after(1 * time.Second), run, event(2 * time.Second), after(5 * time.Second)},
		"no run":                         {after(1 * time.Second), nil, event(2 * time.Second), after(2 * time.Second)},
		"no event":                       {after(1 * time.Second), run, nil, after(5 * time.Second)},
		"whole milliseconds":             {after(9*time.Second + 999_999), nil, nil, after(9 * time.Second)},
		"another zone":                   {after(9 * time.Second).In(time.FixedZone("", 3600)), nil, nil, after(9 * time.Second)},
		"less than a milli past the run": {after(5*time.Second + 999_999), run, nil, after(5 * time.Second)},
	} {
		got := harness.Now(c.clock, c.run, c.in)
		if !got.Equal(c.want) || got.Location() != time.UTC {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestAClockThatGoesBackStopsNoRun(t *testing.T) {
	d := newDriver(t, testRules())
	d.now = after(5 * time.Second)
	d.start()
	d.now = noon
	expect(t, "a call", d.call("c1", "search", `{"q":1}`), "tool.reserved")
	if got := d.records["r1"]["c1"].ReservedAt; !got.Equal(after(5 * time.Second)) {
		t.Errorf("reserved at %s, want the run's last instant", got)
	}
}

package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"runledger/internal/events"
	"runledger/internal/policy"
	"runledger/internal/replay"
)

func whatIf(t *testing.T, m *memory, content string) *replay.Comparison {
	t.Helper()
	parsed, err := policy.Parse("other", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	c, err := replay.WhatIf(t.Context(), replay.WhatIfConfig{Prefix: events.DefaultPrefix, Streams: m, Policy: parsed, Stretch: m.stretch})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// changed replaces a text of the airline policy, which must be there.
func changed(t *testing.T, from, to string) string {
	t.Helper()
	text := string(policy.Airline())
	if !strings.Contains(text, from) {
		t.Fatalf("the policy has no %q any more", from)
	}
	return strings.ReplaceAll(text, from, to)
}

func row(c *replay.Comparison, what, code string) replay.Pair {
	for _, r := range c.Codes {
		if r.What == what && r.Code == code {
			return replay.Pair{Recorded: r.Recorded, WouldBe: r.WouldBe}
		}
	}
	return replay.Pair{}
}

func TestUnderTheSamePolicyAllWouldBeAsItWas(t *testing.T) {
	m := recorded(t)
	for from := uint64(1); from <= m.stretch.EventsTo; from += 9 {
		m.stretch.From = from
		c := whatIf(t, m, string(policy.Airline()))
		for _, r := range append(c.Codes, c.Limits...) {
			if r.Recorded != r.WouldBe {
				t.Errorf("from event %d: %s %s: recorded %d, would be %d", from, r.What, r.Code, r.Recorded, r.WouldBe)
			}
		}
		if c.FellAway != 0 || c.NoResult != 0 {
			t.Errorf("from event %d: got %+v, want nothing to fall away and no result unknown", from, c)
		}
	}
	c := whatIf(t, recorded(t), string(policy.Airline()))
	for _, want := range []struct {
		what, code string
		n          int64
	}{
		{"start", "ACCEPTED", 8}, {"start", "INVALID_LIMITS", 1}, {"call", "RESERVED", 14}, {"call", "NOT_READ_ONLY", 4}, {"call", "RUN_NOT_FOUND", 1},
		{"call", "BUDGET_EXHAUSTED", 1}, {"end", "SUCCESS", 5}, {"end", "TIMED_OUT", 1}, {"end", "BUDGET_EXHAUSTED", 1}, {"result", "LATE", 2},
	} {
		if got := row(c, want.what, want.code); got.Recorded != want.n {
			t.Errorf("%s %s: got %+v, want %d", want.what, want.code, got, want.n)
		}
	}
	if len(c.Limits) != 1 || c.Limits[0].Code != "tool_calls" || c.Limits[0].Recorded != 1 {
		t.Errorf("limits that ended runs: got %+v, want tool_calls, once", c.Limits)
	}
}

func TestUnderALowerCeilingStartsAndAllThatFollowsThemWouldBeRefused(t *testing.T) {
	c := whatIf(t, recorded(t), changed(t, "  tool_calls: 1000", "  tool_calls: 5"))
	// The recorded runs ask for 200 calls, "open" for 9; "early" for 3, "short" and "poor" for 1.
	if got := row(c, "start", "INVALID_LIMITS"); got != (replay.Pair{Recorded: 1, WouldBe: 6}) {
		t.Errorf("refused starts: got %+v, want 1, and 6", got)
	}
	if got := row(c, "call", "RUN_NOT_FOUND"); got.Recorded != 1 || got.WouldBe != 1+15+1 {
		t.Errorf("calls of runs that would not be there: got %+v, want 1, and 17", got)
	}
	if c.FellAway != 10 {
		t.Errorf("%d results fell away, want the 10 of those calls", c.FellAway)
	}
	demo := slices.IndexFunc(c.Agents, func(a replay.AgentRow) bool { return a.Agent == "demo" })
	if demo < 0 {
		t.Fatalf("got the agents %+v, want demo among them", c.Agents)
	}
	if a := c.Agents[demo]; (a.Starts != replay.Pair{Recorded: 4} || a.Ready != replay.Pair{Recorded: 9}) {
		t.Errorf("got %+v, want no run of demo any more", a)
	}
}

func TestEventsThatAgedOutBeforeTheirTurnAreCountedWhereAnotherPolicyDecides(t *testing.T) {
	m := recorded(t)
	parsed, err := policy.Parse("other", policy.Airline())
	if err != nil {
		t.Fatal(err)
	}
	m.lost = true
	c, err := replay.WhatIf(t.Context(), replay.WhatIfConfig{Prefix: events.DefaultPrefix, Streams: m, Policy: parsed, Stretch: m.stretch, Window: 1})
	if err != nil || c.Aged == 0 || c.Events != 0 {
		t.Errorf("got %+v, %v, want every event counted as aged out", c, err)
	}
}

func TestACallThatWasRefusedAndWouldBeAcceptedHasNoResult(t *testing.T) {
	c := whatIf(t, recorded(t), changed(t, "    timeout: 30s", "    read_only: true\n    timeout: 30s"))
	if got := row(c, "call", "NOT_READ_ONLY"); got != (replay.Pair{Recorded: 4}) {
		t.Errorf("got %+v, want 4, and none", got)
	}
	if got := row(c, "call", "RESERVED"); got.WouldBe != got.Recorded+4 {
		t.Errorf("got %+v, want 4 more", got)
	}
	if c.NoResult != 4 {
		t.Errorf("%d calls without a result, want 4", c.NoResult)
	}
}

// same requires that under the same policy all would be as it was.
func same(t *testing.T, m *memory) *replay.Comparison {
	t.Helper()
	c := whatIf(t, m, string(policy.Airline()))
	for _, r := range append(c.Codes, c.Limits...) {
		if r.Recorded != r.WouldBe {
			t.Errorf("%s %s: recorded %d, would be %d", r.What, r.Code, r.Recorded, r.WouldBe)
		}
	}
	return c
}

// manyEnded lets more runs end than are kept.
func (g *generator) manyEnded() {
	for i := range 600 {
		run := fmt.Sprintf("r%d", i)
		g.start(run, 1)
		g.in("agent.me."+run+".run.finish", fmt.Sprintf(`{"run_id":%q,"outcome":"SUCCESS"}`, run))
	}
}

func TestARunWhoseFirstEventWasRefusedIsNotForgottenWhileItLives(t *testing.T) {
	g := newGenerator(t)
	call := `{"run_id":"slow","tool_call_id":"c","tool":"calculate","arguments":{"expression":"1"}}`
	g.in("agent.me.slow.tool.call", call) // there is no such run yet
	g.start("slow", 3)
	g.manyEnded()
	g.in("agent.me.slow.tool.call", call)
	if got := row(same(t, g.whole()), "call", "RESERVED"); got.WouldBe != 1 {
		t.Errorf("got %+v, want the call reserved", got)
	}
}

func TestALateEventOfAnEndedRunThatWasForgottenIsDecidedByItsHistory(t *testing.T) {
	for _, from := range []uint64{1, 3, 4} { // the run ends within the stretch, and before it
		g := newGenerator(t)
		g.start("old", 1)
		g.in("agent.me.old.run.finish", `{"run_id":"old","outcome":"SUCCESS"}`)
		g.manyEnded()
		g.in("agent.me.old.run.finish", `{"run_id":"old","outcome":"SUCCESS"}`)
		m := g.whole()
		m.stretch.From = from
		if got := row(same(t, m), "end", "RUN_NOT_ACTIVE"); got.WouldBe != 1 {
			t.Errorf("from event %d: got %+v, want it refused as not active", from, got)
		}
	}
}

func TestARunWithAFactThatCannotBeReadIsLeftOutAndCountedAndTheOthersGoOn(t *testing.T) {
	m := recorded(t)
	fact := m.history("poor")[2]
	fact.Header["ce-rulesversion"] = []string{"2"}
	c := whatIf(t, m, string(policy.Airline()))
	if c.Skipped != 1 {
		t.Errorf("%d runs are skipped, want 1", c.Skipped)
	}
	if got := row(c, "end", "SUCCESS"); got != (replay.Pair{Recorded: 5, WouldBe: 5}) {
		t.Errorf("got %+v, want the others as they were", got)
	}
}

package harness_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

var someLimits = events.Limits{ModelCalls: 9, ToolCalls: 3, CallsPerTool: 2, InputTokens: 9, OutputTokens: 9, TotalTokens: 9, RunBytes: 1000}

func newContext(t *testing.T) *harness.RunContext {
	t.Helper()
	c, err := harness.NewRunContext("s1", "r1", after(time.Minute), someLimits, harness.RetryPolicies{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAContextCrossesToAnotherGoroutineAsItIs(t *testing.T) {
	c := newContext(t)
	done := make(chan error)
	go func(c *harness.RunContext) {
		switch {
		case c.SessionID() != "s1", c.RunID() != "r1", !c.Deadline().Equal(after(time.Minute)), c.Budget().Limits() != someLimits,
			c.Retries().Of(events.OperationIntentRouter).MaxAttempts != 2, c.Cancellation().Reason() != "":
			done <- errors.New("the other goroutine sees another context")
			return
		}
		done <- c.ReserveToolCall("search", 10, noon)
	}(c)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := c.Budget().Usage(); got.ToolCalls != 1 || c.Capacity().Used() != 10 {
		t.Errorf("the handles are not shared: %+v, %d bytes", got, c.Capacity().Used())
	}
}

func TestABadIdentityStartsNoRun(t *testing.T) {
	changed := func(change func(*events.Limits)) events.Limits { l := someLimits; change(&l); return l }
	for name, c := range map[string]struct {
		session, run string
		deadline     time.Time
		limits       events.Limits
		want         string
	}{
		"no session":           {"", "r1", noon, someLimits, "session id: want"},
		"blank session":        {" \t\u2003", "r1", noon, someLimits, "session id: want"},
		"session of 257 bytes": {strings.Repeat("é", 128) + "x", "r1", noon, someLimits, "got 257"},
		"session with a NUL":   {"a\x00", "r1", noon, someLimits, "no control characters"},
		"session with C1":      {"a\u0085", "r1", noon, someLimits, "no control characters"},
		"session not in UTF-8": {"a\xff", "r1", noon, someLimits, "session id: want"},
		"no run":               {"s1", "", noon, someLimits, "run id: want"},
		"blank run":            {"s1", " ", noon, someLimits, "run id: want"},
		"unsafe run":           {"s1", "r:1", noon, someLimits, "run id: want"},
		"no deadline":          {"s1", "r1", time.Time{}, someLimits, "deadline: want an instant"},
		"no model calls":       {"s1", "r1", noon, changed(func(l *events.Limits) { l.ModelCalls = 0 }), "limit model_calls: want a positive number, got 0"},
		"no tool calls":        {"s1", "r1", noon, changed(func(l *events.Limits) { l.ToolCalls = 0 }), "limit tool_calls"},
		"negative per tool":    {"s1", "r1", noon, changed(func(l *events.Limits) { l.CallsPerTool = -1 }), "limit calls_per_tool: want a positive number, got -1"},
		"no input tokens":      {"s1", "r1", noon, changed(func(l *events.Limits) { l.InputTokens = 0 }), "limit input_tokens"},
		"no output tokens":     {"s1", "r1", noon, changed(func(l *events.Limits) { l.OutputTokens = 0 }), "limit output_tokens"},
		"no total tokens":      {"s1", "r1", noon, changed(func(l *events.Limits) { l.TotalTokens = 0 }), "limit total_tokens"},
		"no run bytes":         {"s1", "r1", noon, changed(func(l *events.Limits) { l.RunBytes = 0 }), "limit run_bytes"},
		"no limit at all":      {"s1", "r1", noon, events.Limits{}, "limit model_calls"},
	} {
		got, err := harness.NewRunContext(c.session, c.run, c.deadline, c.limits, harness.RetryPolicies{})
		if err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want an error that says %q", name, got, err, c.want)
		}
	}
	for _, session := range []string{"s", strings.Repeat("é", 128), "a b", " x "} {
		if err := harness.CheckSessionID(session); err != nil {
			t.Errorf("%.20q: %v", session, err)
		}
	}
}

// ended takes an *EndedError apart.
func ended(t *testing.T, what string, err error, want events.Outcome) harness.Termination {
	t.Helper()
	var refused *harness.EndedError
	if !errors.As(err, &refused) {
		t.Fatalf("%s: got %v, want an EndedError", what, err)
	}
	if refused.Outcome != want {
		t.Errorf("%s: the run ended %s, want %s", what, refused.Outcome, want)
	}
	return refused.Termination
}

func TestTheDeadlineStopsWorkAndLaterChecksTellTheSameOutcome(t *testing.T) {
	c := newContext(t)
	if err := c.Enter(after(time.Minute - 1)); err != nil {
		t.Fatalf("just before: %v", err)
	}
	var signalled []events.CancelReason
	c.Cancellation().OnCancel(func(r events.CancelReason) { signalled = append(signalled, r) })
	err := c.ReserveToolCall("search", 10, after(time.Minute))
	first := ended(t, "at the deadline", err, "TIMED_OUT")
	if got := err.Error(); got != "run ended TIMED_OUT (DEADLINE_EXCEEDED) at 2026-01-01T12:01:00.000Z" {
		t.Errorf("it says %q", got)
	}
	if got := c.Budget().Usage(); got.ToolCalls != 0 || got.RunBytes != 0 {
		t.Errorf("budget was taken: %+v", got)
	}
	if len(signalled) != 1 || signalled[0] != "DEADLINE_EXCEEDED" {
		t.Errorf("signalled %v", signalled)
	}
	for _, at := range []time.Time{after(time.Hour), noon} { // even if the clock goes back
		if again := ended(t, "later", c.Enter(at), "TIMED_OUT"); again != first {
			t.Errorf("later: %+v, first %+v", again, first)
		}
	}
	if got := c.Cancel(events.CancelUserRequested, after(time.Hour)); got != first {
		t.Errorf("a cancellation replaced it: %+v", got)
	}
	if got := c.Cancellation().Reason(); got != "DEADLINE_EXCEEDED" {
		t.Errorf("the reason became %s", got)
	}
}

func TestAClientThatDisconnectsCancelsOnce(t *testing.T) {
	c := newContext(t)
	calls := 0
	c.Cancellation().OnCancel(func(events.CancelReason) { calls++ })
	t1 := c.Cancel(events.CancelClientDisconnected, after(time.Second))
	if want := (harness.Termination{Outcome: "CANCELLED", Reason: "CLIENT_DISCONNECTED", At: after(time.Second)}); t1 != want {
		t.Errorf("got %+v, want %+v", t1, want)
	}
	if t2 := c.Cancel(events.CancelUserRequested, after(2*time.Second)); t2 != t1 || calls != 1 {
		t.Errorf("a second cancellation gives %+v, %d callbacks", t2, calls)
	}
	if got := ended(t, "next call", c.ReserveToolCall("search", 1, after(3*time.Second)), "CANCELLED"); got != t1 {
		t.Errorf("next call: %+v", got)
	}
	if c.Cancellation().Reason() != "CLIENT_DISCONNECTED" {
		t.Errorf("the reason is %s", c.Cancellation().Reason())
	}
}

func TestACancellationThroughItsHandleStopsWorkToo(t *testing.T) {
	c := newContext(t)
	c.Cancellation().Cancel(events.CancelUserRequested)
	got := ended(t, "next call", c.Enter(after(time.Second)), "CANCELLED")
	if got.Reason != "USER_REQUESTED" || !got.At.Equal(after(time.Second)) {
		t.Errorf("ended %+v", got)
	}
}

func TestATerminationThroughItsHandleStopsWorkToo(t *testing.T) {
	c := newContext(t)
	c.Lifecycle().Finish(harness.Termination{Outcome: "SUCCESS", Reason: "done", At: noon})
	ended(t, "next call", c.Enter(noon), "SUCCESS")
	if got := c.End(events.OutcomeFailed, events.CancelUserRequested, noon); got.Outcome != "SUCCESS" {
		t.Errorf("a later failure gives %+v", got)
	}
	if got := c.Cancellation().Reason(); got != "" {
		t.Errorf("success was signalled as %s", got)
	}
}

func TestOneCallTooManyOfAToolEndsTheRunAndTakesNothing(t *testing.T) {
	c := newContext(t)
	for range 2 {
		if err := c.ReserveToolCall("search", 10, noon); err != nil {
			t.Fatal(err)
		}
	}
	err := c.ReserveToolCall("search", 10, after(time.Second))
	var exceeded *harness.ExceededError
	if !errors.As(err, &exceeded) || *exceeded != (harness.ExceededError{Limit: "calls_per_tool", Max: 2, Want: 3}) {
		t.Fatalf("got %v", err)
	}
	if got := err.Error(); got != "budget: calls_per_tool would be 3, and the limit is 2" {
		t.Errorf("it says %q", got)
	}
	if got := c.Budget().Usage(); got.ToolCalls != 2 || got.CallsByTool["search"] != 2 || got.RunBytes != 20 {
		t.Errorf("usage %+v", got)
	}
	got := ended(t, "another tool", c.ReserveToolCall("lookup", 1, after(2*time.Second)), "BUDGET_EXHAUSTED")
	if got.Reason != "BUDGET_EXHAUSTED" || !got.At.Equal(after(time.Second)) || c.Cancellation().Reason() != "BUDGET_EXHAUSTED" {
		t.Errorf("ended %+v", got)
	}
}

// ends is every way to end a live run, with the outcome that it brings.
var ends = []struct {
	outcome events.Outcome
	send    func(*harness.RunContext)
}{
	{"SUCCESS", func(c *harness.RunContext) { c.Lifecycle().Finish(harness.Termination{Outcome: "SUCCESS", At: noon}) }},
	{"FAILED", func(c *harness.RunContext) { c.Lifecycle().Finish(harness.Termination{Outcome: "FAILED", At: noon}) }},
	{"CANCELLED", func(c *harness.RunContext) { c.Cancel(events.CancelUserRequested, noon) }},
	{"TIMED_OUT", func(c *harness.RunContext) { _ = c.Enter(after(time.Hour)) }},
	{"BUDGET_EXHAUSTED", func(c *harness.RunContext) { _ = c.ReserveToolCall("search", 5000, noon) }},
}

func TestTheFirstTerminationHoldsUnderEveryOrderOfTwoAndThree(t *testing.T) {
	for i, a := range ends {
		for j, b := range ends {
			for k, third := range ends {
				if i == j || j == k || i == k {
					continue
				}
				c := newContext(t)
				a.send(c)
				first, _ := c.Lifecycle().Termination()
				b.send(c)
				third.send(c)
				if got, over := c.Lifecycle().Termination(); !over || got != first || got.Outcome != a.outcome {
					t.Errorf("%s, %s, %s: ended %+v, first %+v", a.outcome, b.outcome, third.outcome, got, first)
				}
			}
		}
	}
}

func TestRacingTerminationsLeaveExactlyOne(t *testing.T) {
	for range 200 {
		c := newContext(t)
		signals := make(chan events.CancelReason, 100)
		c.Cancellation().OnCancel(func(r events.CancelReason) { signals <- r })
		inParallel(10, func(i int) { ends[i%len(ends)].send(c) })
		first, over := c.Lifecycle().Termination()
		if !over {
			t.Fatal("nothing ended the run")
		}
		want := 1
		if first.Outcome == "SUCCESS" || first.Outcome == "FAILED" {
			want = 0 // these need no cancellation
		}
		if len(signals) != want {
			t.Fatalf("%s: %d signals, want %d", first.Outcome, len(signals), want)
		}
		if want == 1 && string(<-signals) != first.Reason {
			t.Fatalf("%s: another reason was signalled", first.Outcome)
		}
	}
}

// inParallel runs f(0) to f(n-1) at once and waits for all.
func inParallel(n int, f func(int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	wg.Wait()
}

func TestALifecycleKeepsItsFirstTermination(t *testing.T) {
	l := &harness.Lifecycle{}
	if got, over := l.Termination(); over || got != (harness.Termination{}) {
		t.Errorf("a new one: %+v, %v", got, over)
	}
	success := harness.Termination{Outcome: "SUCCESS", Reason: "done", At: noon}
	if got, first := l.Finish(success); !first || got != success {
		t.Errorf("first: %+v, %v", got, first)
	}
	for _, later := range []events.Outcome{"FAILED", "CANCELLED", "SUCCESS"} {
		if got, first := l.Finish(harness.Termination{Outcome: later, At: after(time.Hour)}); first || got != success {
			t.Errorf("later %s: %+v, %v", later, got, first)
		}
	}
	if got, over := l.Termination(); !over || got != success {
		t.Errorf("after all: %+v, %v", got, over)
	}
}

package harness_test

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
	"runledger/internal/harness"
)

func newBudget(t *testing.T, limits events.Limits) *harness.Budget {
	t.Helper()
	b, err := harness.NewBudget(limits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func exceededLimit(err error) harness.LimitName {
	var exceeded *harness.ExceededError
	if !errors.As(err, &exceeded) {
		return ""
	}
	return exceeded.Limit
}

func TestModelCallsAreTakenUpToTheLimitExactlyAndAreUnknownUntilTold(t *testing.T) {
	b := newBudget(t, someLimits) // 9 of each
	for range 9 {
		if err := b.ReserveModelCall(); err != nil {
			t.Fatal(err)
		}
	}
	err := b.ReserveModelCall()
	if got := exceededLimit(err); got != "model_calls" || err.Error() != "budget: model_calls would be 10, and the limit is 9" {
		t.Errorf("call 10: %v", err)
	}
	if err := b.RecordTokens(events.TokenUsage{InputTokens: 2, OutputTokens: 3}); err != nil {
		t.Error(err)
	}
	want := events.Usage{ModelCalls: 9, InputTokens: 2, OutputTokens: 3, TotalTokens: 5, UnknownUsage: 8}
	if got := b.Usage(); !cmp.Equal(want, got) {
		t.Errorf("used %+v, want %+v", got, want)
	}
}

func TestTokensAreRecordedAsTheyAreAndTheLimitIsExact(t *testing.T) {
	for name, c := range map[string]struct {
		told  []events.TokenUsage
		want  events.Usage
		limit harness.LimitName // that the last passes
		next  harness.LimitName // that the next model call would pass
	}{
		"at the input limit":      {[]events.TokenUsage{{InputTokens: 4}, {InputTokens: 5}}, events.Usage{InputTokens: 9, TotalTokens: 9}, "", ""},
		"above the input limit":   {[]events.TokenUsage{{InputTokens: 4}, {InputTokens: 6}}, events.Usage{InputTokens: 10, TotalTokens: 10}, "input_tokens", "input_tokens"},
		"at the output limit":     {[]events.TokenUsage{{OutputTokens: 9}}, events.Usage{OutputTokens: 9, TotalTokens: 9}, "", ""},
		"above the output limit":  {[]events.TokenUsage{{OutputTokens: 10}}, events.Usage{OutputTokens: 10, TotalTokens: 10}, "output_tokens", "output_tokens"},
		"the sum above the total": {[]events.TokenUsage{{InputTokens: 5, OutputTokens: 5}}, events.Usage{InputTokens: 5, OutputTokens: 5, TotalTokens: 10}, "total_tokens", "total_tokens"},
		"the total above it":      {[]events.TokenUsage{{InputTokens: 1, OutputTokens: 1, TotalTokens: 10}}, events.Usage{InputTokens: 1, OutputTokens: 1, TotalTokens: 10}, "total_tokens", "total_tokens"},
		"as much as can be told":  {[]events.TokenUsage{{InputTokens: 1 << 40, OutputTokens: 1 << 40, TotalTokens: 1 << 40}}, events.Usage{InputTokens: 1 << 40, OutputTokens: 1 << 40, TotalTokens: 1 << 41}, "input_tokens", "input_tokens"},
		"nothing":                 {[]events.TokenUsage{{}}, events.Usage{}, "", ""},
	} {
		b := newBudget(t, someLimits)
		var last error
		for _, usage := range c.told {
			if err := b.ReserveModelCall(); err != nil {
				t.Fatal(err)
			}
			last = b.RecordTokens(usage)
		}
		c.want.ModelCalls = int64(len(c.told))
		if got := b.Usage(); !cmp.Equal(c.want, got) || exceededLimit(last) != c.limit || (last == nil) != (c.limit == "") {
			t.Errorf("%s: used %+v, %v, want %+v, limit %q", name, got, last, c.want, c.limit)
		}
		if err := b.ReserveModelCall(); exceededLimit(err) != c.next {
			t.Errorf("%s: the next call: %v, want limit %q", name, err, c.next)
		}
	}
}

func TestUsageThatIsNoCountOfTokensChangesNothing(t *testing.T) {
	c := newContext(t)
	if err := c.ReserveModelCall(noon); err != nil {
		t.Fatal(err)
	}
	for _, usage := range []events.TokenUsage{{InputTokens: -1}, {OutputTokens: -1}, {TotalTokens: -1}, {InputTokens: math.MinInt64}, {TotalTokens: 1<<40 + 1}, {InputTokens: math.MaxInt64, OutputTokens: 1}} {
		if err := c.RecordTokens(usage, noon); err == nil || exceededLimit(err) != "" {
			t.Errorf("%+v: %v", usage, err)
		}
	}
	if got, want := c.Budget().Usage(), (events.Usage{ModelCalls: 1, UnknownUsage: 1}); !cmp.Equal(want, got) {
		t.Errorf("used %+v, want %+v", got, want)
	}
	if err := c.Enter(noon); err != nil {
		t.Errorf("the run ended: %v", err)
	}
}

func TestUsageThatNobodyReservedIsRecordedAndMakesNothingUnknown(t *testing.T) {
	b := newBudget(t, someLimits)
	for range 2 {
		if err := b.RecordTokens(events.TokenUsage{InputTokens: 1, OutputTokens: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := b.Usage(), (events.Usage{InputTokens: 2, OutputTokens: 2, TotalTokens: 4}); !cmp.Equal(want, got) {
		t.Errorf("used %+v, want %+v", got, want)
	}
}

func TestOneModelCallTooManyEndsTheRun(t *testing.T) {
	c := newContext(t)
	for range someLimits.ModelCalls {
		if err := c.ReserveModelCall(noon); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.ReserveModelCall(after(time.Second)); exceededLimit(err) != "model_calls" {
		t.Fatalf("got %v", err)
	}
	end := ended(t, "a tool call", c.ReserveToolCall("search", 1, after(2*time.Second)), "BUDGET_EXHAUSTED")
	if end.Reason != "BUDGET_EXHAUSTED" || !end.At.Equal(after(time.Second)) || c.Cancellation().Reason() != "BUDGET_EXHAUSTED" {
		t.Errorf("ended %+v, signalled %s", end, c.Cancellation().Reason())
	}
	if got := c.Budget().Usage(); got.ModelCalls != someLimits.ModelCalls || got.ToolCalls != 0 {
		t.Errorf("used %+v", got)
	}
}

func TestActualUsageAboveALimitStaysRecordedAndRefusesWhatComes(t *testing.T) {
	c := newContext(t)
	if err := c.ReserveModelCall(noon); err != nil {
		t.Fatal(err)
	}
	if err := c.RecordTokens(events.TokenUsage{InputTokens: 7, OutputTokens: 8}, after(time.Second)); exceededLimit(err) != "total_tokens" {
		t.Fatalf("got %v", err)
	}
	for what, err := range map[string]error{
		"a model call": c.ReserveModelCall(after(2 * time.Second)),
		"a tool call":  c.ReserveToolCall("search", 1, after(2*time.Second)),
		"bytes":        c.ReserveBytes(1, after(2*time.Second)),
		"a retry":      c.Enter(after(2 * time.Second)),
	} {
		if end := ended(t, what, err, "BUDGET_EXHAUSTED"); !end.At.Equal(after(time.Second)) {
			t.Errorf("%s: ended at %s", what, end.At)
		}
	}
	want := events.Usage{ModelCalls: 1, InputTokens: 7, OutputTokens: 8, TotalTokens: 15}
	if got := c.Budget().Usage(); !cmp.Equal(want, got) {
		t.Errorf("used %+v, want %+v", got, want)
	}
}

func TestEveryBoundaryChecksTheDeadline(t *testing.T) {
	for name, enter := range map[string]func(*harness.RunContext, time.Time) error{
		"model":    (*harness.RunContext).ReserveModelCall,
		"tool":     func(c *harness.RunContext, now time.Time) error { return c.ReserveToolCall("search", 1, now) },
		"capacity": func(c *harness.RunContext, now time.Time) error { return c.ReserveBytes(1, now) },
		"retry": func(c *harness.RunContext, now time.Time) error {
			_, _, err := harness.Retry(c, "INTENT_ROUTER", func() time.Time { return now }, func(int) (int, error) { return 0, nil })
			return err
		},
	} {
		c := newContext(t)
		if err := enter(c, after(time.Minute-1)); err != nil {
			t.Errorf("%s just before: %v", name, err)
		}
		before := c.Budget().Usage()
		ended(t, name+" at the deadline", enter(c, after(time.Minute)), "TIMED_OUT")
		if got := c.Budget().Usage(); !cmp.Equal(before, got) {
			t.Errorf("%s at the deadline: used %+v, before %+v", name, got, before)
		}
	}
}

func TestBytesAreTakenFromTheRunUpToTheLimitExactly(t *testing.T) {
	c := newContext(t) // 1,000 bytes
	if err := c.ReserveBytes(0, noon); err == nil || exceededLimit(err) != "" {
		t.Errorf("no bytes: %v", err)
	}
	if err := c.Enter(noon); err != nil {
		t.Errorf("a wrong number ended the run: %v", err)
	}
	for _, bytes := range []int64{999, 1} {
		if err := c.ReserveBytes(bytes, noon); err != nil {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
	if err := c.ReserveBytes(1, after(time.Second)); exceededLimit(err) != "run_bytes" {
		t.Errorf("one byte more: %v", err)
	}
	ended(t, "after it", c.ReserveBytes(1, noon), "BUDGET_EXHAUSTED")
	if got := c.Budget().Usage().RunBytes; got != 1000 || c.Capacity().Used() != 1000 {
		t.Errorf("%d bytes are used, want 1000", got)
	}
}

func TestRacingModelCallsAndTokensStayConsistent(t *testing.T) {
	limits := someLimits
	limits.ModelCalls, limits.InputTokens, limits.OutputTokens, limits.TotalTokens = 100, math.MaxInt64, math.MaxInt64, math.MaxInt64
	b := newBudget(t, limits)
	var granted, told atomic.Int64
	inParallel(20, func(i int) {
		for range 10 {
			if b.ReserveModelCall() != nil {
				continue
			}
			granted.Add(1)
			if i%2 == 0 { // the others never tell
				told.Add(1)
				if err := b.RecordTokens(events.TokenUsage{InputTokens: 2, OutputTokens: 1, TotalTokens: 4}); err != nil {
					t.Error(err)
				}
			}
			u := b.Usage() // a snapshot is consistent at any time
			if known := u.ModelCalls - u.UnknownUsage; u.InputTokens != 2*known || u.OutputTokens != known || u.TotalTokens != 4*known || u.ModelCalls > 100 {
				t.Errorf("a snapshot contradicts itself: %+v", u)
			}
		}
	})
	u := b.Usage()
	if u.ModelCalls != 100 || granted.Load() != 100 || u.UnknownUsage != 100-told.Load() {
		t.Errorf("used %+v, %d granted, %d told, want 100 granted", u, granted.Load(), told.Load())
	}
}

func TestRacingTokensThatPassALimitEndTheRunOnceAndAreAllRecorded(t *testing.T) {
	for range 50 {
		c := newContext(t)
		for range 9 {
			if err := c.ReserveModelCall(noon); err != nil {
				t.Fatal(err)
			}
		}
		signals := make(chan events.CancelReason, 10)
		c.Cancellation().OnCancel(func(r events.CancelReason) { signals <- r })
		inParallel(9, func(int) { _ = c.RecordTokens(events.TokenUsage{InputTokens: 2, OutputTokens: 1}, noon) })
		want := events.Usage{ModelCalls: 9, InputTokens: 18, OutputTokens: 9, TotalTokens: 27}
		if got := c.Budget().Usage(); !cmp.Equal(want, got) {
			t.Fatalf("used %+v, want %+v", got, want)
		}
		ended(t, "after it", c.Enter(noon), "BUDGET_EXHAUSTED")
		if len(signals) != 1 || <-signals != "BUDGET_EXHAUSTED" {
			t.Fatal("want one signal, BUDGET_EXHAUSTED")
		}
	}
}

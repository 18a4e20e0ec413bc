package harness_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"runledger/internal/events"
	"runledger/internal/harness"
)

func TestTheFirstReasonStaysAndCallbacksRunOnceInOrder(t *testing.T) {
	c := &harness.Cancellation{}
	var told []string
	note := func(name string) func(events.CancelReason) {
		return func(r events.CancelReason) { told = append(told, name+" "+string(r)) }
	}
	c.OnCancel(note("a"))
	c.OnCancel(note("b"))
	if c.Reason() != "" || len(told) != 0 {
		t.Fatalf("cancelled before anybody did: %s, %v", c.Reason(), told)
	}
	if !c.Cancel(events.CancelClientDisconnected) {
		t.Error("the first is told that it was not")
	}
	if c.Cancel(events.CancelOperatorRequested) || c.Cancel(events.CancelClientDisconnected) {
		t.Error("a later one is told that it was the first")
	}
	c.OnCancel(note("late"))
	want := "a CLIENT_DISCONNECTED, b CLIENT_DISCONNECTED, late CLIENT_DISCONNECTED"
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if c.Reason() != "CLIENT_DISCONNECTED" {
		t.Errorf("the reason is %s", c.Reason())
	}
}

func TestACallbackMayRegisterAndCancel(t *testing.T) {
	c := &harness.Cancellation{}
	inner := 0
	c.OnCancel(func(events.CancelReason) {
		c.OnCancel(func(events.CancelReason) { inner++ })
		c.Cancel(events.CancelUserRequested)
	})
	c.Cancel(events.CancelBudgetExhausted)
	if inner != 1 || c.Reason() != "BUDGET_EXHAUSTED" {
		t.Errorf("%d inner callbacks, reason %s", inner, c.Reason())
	}
}

func TestRacingCancellationsRunEachCallbackExactlyOnce(t *testing.T) {
	reasons := []events.CancelReason{"CLIENT_DISCONNECTED", "USER_REQUESTED", "OPERATOR_REQUESTED"}
	for range 100 {
		c := &harness.Cancellation{}
		counts := make([]atomic.Int64, 20)
		var first atomic.Int64
		var other atomic.Int64
		inParallel(40, func(i int) {
			if i < len(counts) {
				c.OnCancel(func(r events.CancelReason) {
					counts[i].Add(1)
					if r != c.Reason() {
						other.Add(1)
					}
				})
			} else if c.Cancel(reasons[i%len(reasons)]) {
				first.Add(1)
			}
		})
		if first.Load() != 1 || other.Load() != 0 {
			t.Fatalf("%d were the first, %d callbacks saw another reason", first.Load(), other.Load())
		}
		for i := range counts {
			if got := counts[i].Load(); got != 1 {
				t.Fatalf("callback %d ran %d times", i, got)
			}
		}
	}
}

func TestCapacityIsTakenWholeUpToItsLimitExactly(t *testing.T) {
	c := harness.NewCapacity(10)
	for _, step := range []struct {
		bytes int64
		fits  bool
		used  int64
	}{{4, true, 4}, {7, false, 4}, {6, true, 10}, {1, false, 10}, {math.MaxInt64, false, 10}, {0, false, 10}, {-1, false, 10}, {math.MinInt64, false, 10}} {
		err := c.Reserve(step.bytes)
		if (err == nil) != step.fits || c.Used() != step.used {
			t.Errorf("%d bytes: %v, used %d, want fits %v, used %d", step.bytes, err, c.Used(), step.fits, step.used)
		}
		var exceeded *harness.ExceededError
		if got := errors.As(err, &exceeded); got != (!step.fits && step.bytes > 0) {
			t.Errorf("%d bytes: the error is %v", step.bytes, err)
		}
	}
}

func TestCapacityCannotOverflow(t *testing.T) {
	c := harness.NewCapacity(math.MaxInt64)
	if err := c.Reserve(math.MaxInt64 - 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Reserve(2); err == nil {
		t.Error("more than the limit was taken")
	}
	if err := c.Reserve(1); err != nil || c.Used() != math.MaxInt64 {
		t.Errorf("%v, used %d", err, c.Used())
	}
}

func TestRacingReservationsNeverPassTheCapacity(t *testing.T) {
	c := harness.NewCapacity(1000)
	var taken atomic.Int64
	inParallel(50, func(i int) {
		for range 20 {
			if bytes := int64(i%7 + 1); c.Reserve(bytes) == nil {
				taken.Add(bytes)
			}
		}
	})
	if c.Used() != taken.Load() || c.Used() != 1000 { // single bytes fill it to the last
		t.Errorf("used %d, taken %d, want 1000", c.Used(), taken.Load())
	}
}

func TestRacingCallsNeverPassABudget(t *testing.T) {
	limits := someLimits
	limits.ToolCalls, limits.CallsPerTool, limits.RunBytes = 100, 30, 900
	b, err := harness.NewBudget(limits)
	if err != nil {
		t.Fatal(err)
	}
	var byTool [5]atomic.Int64
	inParallel(25, func(i int) {
		for range 20 {
			if b.ReserveToolCall(fmt.Sprintf("tool%d", i%5), 9) == nil {
				byTool[i%5].Add(1)
			}
			usage := b.Usage() // a snapshot is consistent at any time
			sum := int64(0)
			for _, n := range usage.CallsByTool {
				sum += n
			}
			if sum != usage.ToolCalls || usage.RunBytes != 9*usage.ToolCalls {
				t.Errorf("a snapshot contradicts itself: %+v", usage)
			}
		}
	})
	usage := b.Usage()
	if usage.ToolCalls != 100 || usage.RunBytes != 900 {
		t.Errorf("used %+v, want 100 calls and 900 bytes", usage)
	}
	for i := range byTool {
		if got := usage.CallsByTool[fmt.Sprintf("tool%d", i)]; got != byTool[i].Load() || got > 30 {
			t.Errorf("tool%d: counted %d, granted %d, limit 30", i, got, byTool[i].Load())
		}
	}
}

func TestASnapshotOfUsageIsACopy(t *testing.T) {
	b, err := harness.NewBudget(someLimits)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ReserveToolCall("search", 0); err != nil {
		t.Fatal(err)
	}
	snapshot := b.Usage()
	snapshot.CallsByTool["search"] = 99
	if got := b.Usage().CallsByTool["search"]; got != 1 {
		t.Errorf("the budget became %d", got)
	}
}

func TestAReservationOfABudgetIsAllOrNothing(t *testing.T) {
	for name, c := range map[string]struct {
		before, tool string
		bytes        int64
		want         harness.LimitName
	}{
		"bytes":    {"a", "b", 991, "run_bytes"},
		"per tool": {"aa", "a", 1, "calls_per_tool"},
		"in all":   {"aab", "c", 1, "tool_calls"},
	} {
		b, err := harness.NewBudget(someLimits)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range c.before {
			if err := b.ReserveToolCall(string(tool), 10); err != nil {
				t.Fatal(err)
			}
		}
		before := b.Usage()
		var exceeded *harness.ExceededError
		if err := b.ReserveToolCall(c.tool, c.bytes); !errors.As(err, &exceeded) || exceeded.Limit != c.want {
			t.Errorf("%s: got %v", name, err)
		}
		after := b.Usage()
		if after.ToolCalls != before.ToolCalls || after.RunBytes != before.RunBytes || after.CallsByTool[c.tool] != before.CallsByTool[c.tool] {
			t.Errorf("%s: the usage became %+v", name, after)
		}
	}
}

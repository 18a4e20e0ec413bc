package harness_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
	"runledger/internal/harness"
)

var operations = []events.Operation{"INTENT_ROUTER", "SEMANTIC_GUARD", "DIAGNOSIS_AGENT", "EVIDENCE_REPAIR", "TOOL_CALL"}

// retried is the table of the requirement: which failures of which operation may
// be followed by a second attempt. Everything that is not in it may not.
var retried = map[events.Operation]map[events.FailureClass]bool{
	"INTENT_ROUTER":  {"TRANSPORT": true, "TIMEOUT": true, "RATE_LIMITED": true, "UNAVAILABLE": true, "INVALID_RESPONSE": true},
	"SEMANTIC_GUARD": {"TRANSPORT": true, "TIMEOUT": true, "RATE_LIMITED": true, "UNAVAILABLE": true},
}

var failureClasses = []events.FailureClass{
	"TRANSPORT", "TIMEOUT", "RATE_LIMITED", "UNAVAILABLE", "INVALID_RESPONSE",
	"CANCELLED", "DEADLINE_EXCEEDED", "BUDGET_EXHAUSTED", "NO_EVIDENCE", "BUSINESS_REJECTION", "UNKNOWN",
}

func TestTheRetryPoliciesAreThoseOfTheRequirement(t *testing.T) {
	attempts := map[events.Operation]int{"INTENT_ROUTER": 2, "SEMANTIC_GUARD": 2, "DIAGNOSIS_AGENT": 1, "EVIDENCE_REPAIR": 1, "TOOL_CALL": 1, "ANOTHER": 1, "": 1}
	for operation, want := range attempts {
		policy := harness.RetryPolicies{}.Of(operation)
		if policy.MaxAttempts != want {
			t.Errorf("%s: %d attempts, want %d", operation, policy.MaxAttempts, want)
		}
		for _, class := range append(failureClasses, "", "ANOTHER") {
			if got := policy.Retryable(class); got != retried[operation][class] {
				t.Errorf("%s after %s: retried %v, want %v", operation, class, got, retried[operation][class])
			}
		}
	}
}

// classified is an error that knows its failure class.
type classified events.FailureClass

func (c classified) Error() string                     { return "failed as " + string(c) }
func (c classified) FailureClass() events.FailureClass { return events.FailureClass(c) }

func TestAnErrorHasTheClassThatItNamesOrThatOfItsRun(t *testing.T) {
	ended := func(outcome events.Outcome) error {
		return &harness.EndedError{Termination: harness.Termination{Outcome: outcome, Reason: "R", At: noon}}
	}
	for _, c := range []struct {
		err  error
		want events.FailureClass
	}{
		{classified("TRANSPORT"), "TRANSPORT"},
		{fmt.Errorf("router: %w", classified("RATE_LIMITED")), "RATE_LIMITED"},
		{errors.Join(errors.New("x"), classified("NO_EVIDENCE")), "NO_EVIDENCE"},
		{ended("TIMED_OUT"), "DEADLINE_EXCEEDED"},
		{fmt.Errorf("router: %w", ended("TIMED_OUT")), "DEADLINE_EXCEEDED"},
		{ended("CANCELLED"), "CANCELLED"},
		{ended("SUCCESS"), "CANCELLED"},
		{ended("FAILED"), "CANCELLED"},
		{ended("BUDGET_EXHAUSTED"), "BUDGET_EXHAUSTED"},
		{&harness.ExceededError{Limit: "model_calls", Max: 1, Want: 2}, "BUDGET_EXHAUSTED"},
		{fmt.Errorf("router: %w", context.Canceled), "CANCELLED"},
		{context.DeadlineExceeded, "UNKNOWN"}, // whose deadline is not said
		{errors.New("connection refused"), "UNKNOWN"},
		{nil, "UNKNOWN"},
	} {
		if got := harness.ClassOf(c.err); got != c.want {
			t.Errorf("%v: class %s, want %s", c.err, got, c.want)
		}
	}
}

// ticking is a clock that goes on by a second with each look at it.
func ticking() func() time.Time {
	looks := 0
	return func() time.Time { looks++; return after(time.Duration(looks) * time.Second) }
}

func TestARouterWhoseTransportFailsSucceedsOnTheSecondAttempt(t *testing.T) {
	got, attempts, err := harness.Retry(newContext(t), "INTENT_ROUTER", ticking(), func(attempt int) (string, error) {
		if attempt == 1 {
			return "half an answer", classified("TRANSPORT")
		}
		return "diagnose", nil
	})
	if err != nil || got != "diagnose" {
		t.Errorf("got %q, %v, want the second result", got, err)
	}
	want := []harness.Attempt{
		{Number: 1, Began: after(1 * time.Second), Ended: after(2 * time.Second), Failure: "TRANSPORT"},
		{Number: 2, Began: after(3 * time.Second), Ended: after(4 * time.Second)},
	}
	if diff := cmp.Diff(want, attempts); diff != "" {
		t.Errorf("attempts (-want +got)\n%s", diff)
	}
}

func TestAToolThatFailsIsNotCalledAgain(t *testing.T) {
	calls := 0
	_, attempts, err := harness.Retry(newContext(t), "TOOL_CALL", ticking(), func(int) (int, error) {
		calls++
		return 0, classified("TRANSPORT")
	})
	if calls != 1 || !errors.Is(err, classified("TRANSPORT")) {
		t.Errorf("called %d times, %v, want once and its error", calls, err)
	}
	if want := []harness.Attempt{{Number: 1, Began: after(time.Second), Ended: after(2 * time.Second), Failure: "TRANSPORT"}}; !cmp.Equal(want, attempts) {
		t.Errorf("attempts %+v, want %+v", attempts, want)
	}
}

func TestEachFailureOfEachOperationIsAttemptedAsThePolicySays(t *testing.T) {
	for _, operation := range operations {
		for _, class := range failureClasses {
			want := 1
			if retried[operation][class] {
				want = 2
			}
			calls := 0
			_, attempts, err := harness.Retry(newContext(t), operation, ticking(), func(attempt int) (int, error) {
				if calls++; attempt != calls {
					t.Errorf("%s after %s: attempt %d is told that it is %d", operation, class, calls, attempt)
				}
				return 0, fmt.Errorf("attempt %d: %w", attempt, classified(class))
			})
			if calls != want || len(attempts) != want {
				t.Errorf("%s after %s: %d calls, %d recorded, want %d", operation, class, calls, len(attempts), want)
			}
			if err == nil || err.Error() != fmt.Sprintf("attempt %d: failed as %s", want, class) {
				t.Errorf("%s after %s: the error is %v, want that of the last attempt", operation, class, err)
			}
			for i, a := range attempts {
				if a.Number != i+1 || a.Failure != class {
					t.Errorf("%s after %s: recorded %+v", operation, class, a)
				}
			}
		}
	}
}

func TestARunThatEndsBetweenAttemptsRefusesTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(*harness.RunContext)
		outcome events.Outcome
		reason  events.CancelReason
	}{
		"cancelled":             {func(rc *harness.RunContext) { rc.Cancel("USER_REQUESTED", noon) }, "CANCELLED", "USER_REQUESTED"},
		"cancelled by a handle": {func(rc *harness.RunContext) { rc.Cancellation().Cancel("CLIENT_DISCONNECTED") }, "CANCELLED", "CLIENT_DISCONNECTED"},
		"out of budget":         {func(rc *harness.RunContext) { _ = rc.ReserveToolCall("search", 5000, noon) }, "BUDGET_EXHAUSTED", "BUDGET_EXHAUSTED"},
		"finished": {func(rc *harness.RunContext) {
			rc.Lifecycle().Finish(harness.Termination{Outcome: "SUCCESS", Reason: "done", At: noon})
		}, "SUCCESS", "done"},
	} {
		rc := newContext(t)
		calls := 0
		got, attempts, err := harness.Retry(rc, "INTENT_ROUTER", ticking(), func(int) (string, error) {
			calls++
			c.end(rc)
			return "half an answer", classified("TRANSPORT")
		})
		if calls != 1 || len(attempts) != 1 || attempts[0].Failure != "TRANSPORT" || got != "" {
			t.Errorf("%s: %d calls, attempts %+v, result %q", name, calls, attempts, got)
		}
		if end := ended(t, name, err, c.outcome); end.Reason != string(c.reason) {
			t.Errorf("%s: ended by %s, want %s", name, end.Reason, c.reason)
		}
	}
}

func TestADeadlineThatPassesInAnAttemptRefusesTheNext(t *testing.T) {
	rc := newContext(t)
	times := []time.Time{after(59 * time.Second), after(60 * time.Second), after(60 * time.Second)}
	looks := 0
	clock := func() time.Time { looks++; return times[looks-1] }
	_, attempts, err := harness.Retry(rc, "SEMANTIC_GUARD", clock, func(int) (int, error) { return 0, classified("TIMEOUT") })
	if len(attempts) != 1 || attempts[0].Failure != "TIMEOUT" {
		t.Errorf("attempts %+v, want the first alone", attempts)
	}
	ended(t, "deadline", err, "TIMED_OUT")
	if got := rc.Cancellation().Reason(); got != "DEADLINE_EXCEEDED" {
		t.Errorf("signalled %q", got)
	}
}

func TestARunThatHasEndedMakesNoAttempt(t *testing.T) {
	rc := newContext(t)
	rc.Cancel("USER_REQUESTED", noon)
	_, attempts, err := harness.Retry(rc, "INTENT_ROUTER", ticking(), func(int) (int, error) { t.Error("it was called"); return 0, nil })
	if ended(t, "cancelled", err, "CANCELLED"); len(attempts) != 0 {
		t.Errorf("attempts %+v, want none", attempts)
	}
}

func TestARefusalWithinAnAttemptIsRecordedAndNotRetried(t *testing.T) {
	rc := newContext(t)
	for range someLimits.ModelCalls {
		if err := rc.ReserveModelCall(noon); err != nil {
			t.Fatal(err)
		}
	}
	_, attempts, err := harness.Retry(rc, "INTENT_ROUTER", ticking(), func(int) (int, error) { return 0, rc.ReserveModelCall(noon) })
	var exceeded *harness.ExceededError
	if !errors.As(err, &exceeded) || len(attempts) != 1 || attempts[0].Failure != "BUDGET_EXHAUSTED" {
		t.Errorf("attempts %+v, error %v", attempts, err)
	}
}

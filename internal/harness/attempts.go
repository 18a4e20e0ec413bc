package harness

import (
	"context"
	"errors"
	"time"

	"runledger/internal/events"
)

// Attempt is one actual attempt of an operation.
type Attempt struct {
	Number  int // 1, 2 …
	Began   time.Time
	Ended   time.Time
	Failure events.FailureClass // empty where it succeeded
}

// Classified is an error that knows its failure class.
type Classified interface {
	error
	FailureClass() events.FailureClass
}

// ClassOf gives the failure class of an error: its own, where it is Classified;
// that of a run that has ended; UNKNOWN otherwise, which is never retried.
func ClassOf(err error) events.FailureClass {
	var classified Classified
	var ended *EndedError
	var exceeded *ExceededError
	switch {
	case errors.As(err, &classified):
		return classified.FailureClass()
	case errors.As(err, &ended) && ended.Outcome == events.OutcomeTimedOut:
		return events.FailureDeadlineExceeded
	case errors.As(err, &exceeded), errors.As(err, &ended) && ended.Outcome == events.OutcomeBudgetExhausted:
		return events.FailureBudgetExhausted
	case errors.As(err, &ended), errors.Is(err, context.Canceled):
		return events.FailureCancelled
	}
	return events.FailureUnknown
}

// Retry runs an operation under the run's policy for it, and records every
// actual attempt. Before each it enters the run, so that a deadline or a
// cancellation in between refuses the next. The error is that of the last
// attempt, or of the entering that was refused.
func Retry[T any](rc *RunContext, op events.Operation, clock func() time.Time, operation func(attempt int) (T, error)) (T, []Attempt, error) {
	var attempts []Attempt
	policy := rc.Retries().Of(op)
	for {
		began := clock()
		if err := rc.Enter(began); err != nil {
			var zero T
			return zero, attempts, err
		}
		number := len(attempts) + 1
		result, err := operation(number)
		attempt := Attempt{Number: number, Began: began, Ended: clock()}
		if err != nil {
			attempt.Failure = ClassOf(err)
		}
		attempts = append(attempts, attempt)
		if err == nil || number >= policy.MaxAttempts || !policy.Retryable(attempt.Failure) {
			return result, attempts, err
		}
	}
}

package harness

import (
	"slices"

	"runledger/internal/events"
)

// RetryPolicy says how often an operation may be attempted, the first time
// included, and after which failures.
type RetryPolicy struct {
	MaxAttempts int
	retryable   []events.FailureClass
}

// Retryable reports whether the policy lists the failure.
func (p RetryPolicy) Retryable(f events.FailureClass) bool { return slices.Contains(p.retryable, f) }

// RetryPolicies is the table of policies. It is the same for every run and
// cannot be changed.
type RetryPolicies struct{}

// Of gives the policy of an operation: intent router and semantic guard have
// two attempts for the technical failures that they list; everything else,
// tool calls among it, has one. Cancellation, deadline, budget, no evidence,
// business rejection and unknown failures are in no list (requirement "Harness
// retry SHALL be typed, bounded, and recorded").
func (RetryPolicies) Of(op events.Operation) RetryPolicy {
	switch op {
	case events.OperationIntentRouter:
		return RetryPolicy{MaxAttempts: 2, retryable: []events.FailureClass{
			events.FailureTransport, events.FailureTimeout, events.FailureRateLimited, events.FailureUnavailable,
			events.FailureInvalidResponse,
		}}
	case events.OperationSemanticGuard:
		return RetryPolicy{MaxAttempts: 2, retryable: []events.FailureClass{
			events.FailureTransport, events.FailureTimeout, events.FailureRateLimited, events.FailureUnavailable,
		}}
	default:
		return RetryPolicy{MaxAttempts: 1}
	}
}

// ModelOperation is what a run remembers of one model operation.
type ModelOperation struct {
	ID        string
	Operation events.Operation
	Attempts  int  // granted so far
	Open      bool // the last one has not been reported
	Succeeded bool
	Failure   events.FailureClass // of the last attempt, if it failed
	Granted   events.Cause        // the model.call of the last attempt
	Reported  events.Cause        // the model.report of the last attempt
}

// next reports whether the policy allows one more attempt; op is nil where
// there was none.
func (p RetryPolicies) next(op *ModelOperation, operation events.Operation) bool {
	if op == nil {
		return true
	}
	policy := p.Of(operation)
	return op.Operation == operation && !op.Open && !op.Succeeded &&
		op.Attempts < policy.MaxAttempts && policy.Retryable(op.Failure)
}

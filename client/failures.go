package client

import (
	"errors"
	"slices"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// FailureClass says in what kind of failure an attempt ended. An error has the
// class that its method FailureClass() FailureClass gives ([Classify] makes such
// an error of any), CANCELLED where it is [context.Canceled], and UNKNOWN
// otherwise.
type FailureClass = events.FailureClass

// Technical failures, after which the policy of an operation may allow one more
// attempt.
const (
	FailureTransport       FailureClass = events.FailureTransport       // connection refused, reset, broken
	FailureTimeout         FailureClass = events.FailureTimeout         // no answer in time
	FailureRateLimited     FailureClass = events.FailureRateLimited     // the provider asks to wait
	FailureUnavailable     FailureClass = events.FailureUnavailable     // the provider's own failure
	FailureInvalidResponse FailureClass = events.FailureInvalidResponse // an answer that does not parse; the router alone retries it
)

// Failures after which no further attempt is ever allowed.
const (
	FailureCancelled         FailureClass = events.FailureCancelled
	FailureDeadlineExceeded  FailureClass = events.FailureDeadlineExceeded
	FailureBudgetExhausted   FailureClass = events.FailureBudgetExhausted
	FailureNoEvidence        FailureClass = events.FailureNoEvidence
	FailureBusinessRejection FailureClass = events.FailureBusinessRejection
	FailureUnknown           FailureClass = events.FailureUnknown
)

// Classify gives an error a failure class. It wraps err, and is nil where err
// is.
func Classify(class FailureClass, err error) error {
	if err == nil {
		return nil
	}
	return &classifiedError{class: class, err: err}
}

type classifiedError struct {
	class FailureClass
	err   error
}

var _ harness.Classified = (*classifiedError)(nil)

func (e *classifiedError) Error() string              { return e.err.Error() }
func (e *classifiedError) Unwrap() error              { return e.err }
func (e *classifiedError) FailureClass() FailureClass { return e.class }

// classOf gives the failure class of an error; UNKNOWN where it names one that
// does not exist, for the processor would not take the report.
func classOf(err error) FailureClass {
	class := harness.ClassOf(err)
	if !slices.Contains(failureClasses(), class) {
		return FailureUnknown
	}
	return class
}

func failureClasses() []FailureClass {
	return []FailureClass{
		FailureTransport, FailureTimeout, FailureRateLimited, FailureUnavailable, FailureInvalidResponse,
		FailureCancelled, FailureDeadlineExceeded, FailureBudgetExhausted, FailureNoEvidence,
		FailureBusinessRejection, FailureUnknown,
	}
}

// isCode reports whether err is, or wraps, a refusal with the code.
func isCode(err error, code Code) bool {
	var rejected *RejectedError
	return errors.As(err, &rejected) && rejected.Code == code
}

package harness

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"runledger/internal/events"
)

// MaxSessionID bounds a session id, in bytes.
const MaxSessionID = 256

// RunContext is what a boundary needs to know of its run. Its structure never
// changes: identity and deadline are values, the rest are handles that live as
// long as the run. It is passed as a parameter, always.
type RunContext struct {
	sessionID    string
	runID        string
	deadline     time.Time
	budget       *Budget
	cancellation *Cancellation
	lifecycle    *Lifecycle
	retries      RetryPolicies
}

// NewRunContext checks identity, deadline and limits before anything of the run
// exists. The deadline is an instant; limits must all be positive.
func NewRunContext(sessionID, runID string, deadline time.Time, limits events.Limits, retries RetryPolicies) (*RunContext, error) {
	if err := CheckSessionID(sessionID); err != nil {
		return nil, err
	}
	if !events.ValidName(runID) {
		return nil, fmt.Errorf("run id: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", runID)
	}
	if deadline.IsZero() {
		return nil, errors.New("deadline: want an instant, got none")
	}
	budget, err := NewBudget(limits)
	if err != nil {
		return nil, err
	}
	return &RunContext{
		sessionID: sessionID, runID: runID, deadline: deadline, budget: budget,
		cancellation: &Cancellation{}, lifecycle: &Lifecycle{}, retries: retries,
	}, nil
}

// CheckSessionID reports whether s may name a session: 1 to MaxSessionID bytes
// of UTF-8, not blank, without control characters.
func CheckSessionID(s string) error {
	if len(s) > MaxSessionID || strings.TrimSpace(s) == "" || !utf8.ValidString(s) {
		return fmt.Errorf("session id: want 1 to %d bytes of UTF-8 that are not blank, got %d", MaxSessionID, len(s))
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("session id: want no control characters")
	}
	return nil
}

// SessionID names the session that the run belongs to.
func (c *RunContext) SessionID() string { return c.sessionID }

// RunID names the run.
func (c *RunContext) RunID() string { return c.runID }

// Deadline is the instant at which the run ends by itself.
func (c *RunContext) Deadline() time.Time { return c.deadline }

// Budget is the run's budget.
func (c *RunContext) Budget() *Budget { return c.budget }

// Capacity is the counter of the run's bytes.
func (c *RunContext) Capacity() *Capacity { return c.budget.capacity }

// Cancellation is the run's cancellation.
func (c *RunContext) Cancellation() *Cancellation { return c.cancellation }

// Lifecycle is the run's lifecycle.
func (c *RunContext) Lifecycle() *Lifecycle { return c.lifecycle }

// Retries are the run's retry policies.
func (c *RunContext) Retries() RetryPolicies { return c.retries }

// EndedError says that controlled work was refused because its run has ended.
type EndedError struct{ Termination }

func (e *EndedError) Error() string {
	return fmt.Sprintf("run ended %s (%s) at %s", e.Outcome, e.Reason, e.At.UTC().Format(events.TimeFormat))
}

// Enter is called before each controlled piece of work (model, tool, retry,
// capacity). At or after the deadline it ends the run as TIMED_OUT and cancels
// it; it refuses, with an *EndedError, whenever the run has ended.
func (c *RunContext) Enter(now time.Time) error {
	if t, ended := c.lifecycle.Termination(); ended {
		return &EndedError{t}
	}
	if reason := c.cancellation.Reason(); reason != "" { // somebody who holds only the handle cancelled
		return &EndedError{c.End(events.OutcomeCancelled, reason, now)}
	}
	if now.Before(c.deadline) {
		return nil
	}
	return &EndedError{c.End(events.OutcomeTimedOut, events.CancelDeadlineExceeded, now)}
}

// Cancel ends the run as CANCELLED, if nothing ended it before, and signals the
// reason. It gives the termination that holds.
func (c *RunContext) Cancel(reason events.CancelReason, now time.Time) Termination {
	return c.End(events.OutcomeCancelled, reason, now)
}

// ReserveToolCall enters the tool boundary and takes budget for one call. Where
// a limit would be passed the run ends as BUDGET_EXHAUSTED.
func (c *RunContext) ReserveToolCall(tool string, requestBytes int64, now time.Time) error {
	if err := c.Enter(now); err != nil {
		return err
	}
	return c.endIfExceeded(c.budget.ReserveToolCall(tool, requestBytes), now)
}

// ReserveModelCall enters the model boundary and takes one model call. Where a
// limit would be passed the run ends as BUDGET_EXHAUSTED.
func (c *RunContext) ReserveModelCall(now time.Time) error {
	if err := c.Enter(now); err != nil {
		return err
	}
	return c.endIfExceeded(c.budget.ReserveModelCall(), now)
}

// RecordTokens records what a model call actually used. Where that passes a
// limit the run ends as BUDGET_EXHAUSTED, and the usage stays recorded.
func (c *RunContext) RecordTokens(usage events.TokenUsage, now time.Time) error {
	return c.endIfExceeded(c.budget.RecordTokens(usage), now)
}

// ReserveBytes enters the capacity boundary and takes bytes of the run. Where
// the limit would be passed the run ends as BUDGET_EXHAUSTED.
func (c *RunContext) ReserveBytes(bytes int64, now time.Time) error {
	if err := c.Enter(now); err != nil {
		return err
	}
	return c.endIfExceeded(c.budget.capacity.Reserve(bytes), now)
}

// endIfExceeded ends the run as BUDGET_EXHAUSTED where the error says that a
// limit was or would be passed, and gives the error on.
func (c *RunContext) endIfExceeded(err error, now time.Time) error {
	var exceeded *ExceededError
	if errors.As(err, &exceeded) {
		c.End(events.OutcomeBudgetExhausted, events.CancelBudgetExhausted, now)
	}
	return err
}

// End records the outcome, if it is the first, and signals the reason. It gives
// the termination that holds.
func (c *RunContext) End(outcome events.Outcome, reason events.CancelReason, now time.Time) Termination {
	t, first := c.lifecycle.Finish(Termination{Outcome: outcome, Reason: string(reason), At: now})
	if first {
		c.cancellation.Cancel(reason)
	}
	return t
}

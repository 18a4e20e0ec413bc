package client

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// Operation is a kind of controlled model work. Its retry policy is the same
// for every run.
type Operation string

// The operations. Router and guard may be attempted twice, the second time only
// after a technical failure; the others once.
const (
	OperationIntentRouter   Operation = "INTENT_ROUTER"
	OperationSemanticGuard  Operation = "SEMANTIC_GUARD"
	OperationDiagnosisAgent Operation = "DIAGNOSIS_AGENT"
	OperationEvidenceRepair Operation = "EVIDENCE_REPAIR"
)

// ModelCall is one model operation.
type ModelCall struct {
	Operation Operation
	// ID names the operation within its run and stays the same over its attempts,
	// also those that another process makes. It is required, of the form of a
	// tool call id, and never made up here.
	ID string
}

// TokenUsage is what the provider counted for one attempt. TotalTokens may be
// left out; it then is the sum.
type TokenUsage struct {
	InputTokens  int64
	OutputTokens int64
	TotalTokens  int64
}

// AttemptFunc makes one attempt of a model operation, and gives what the
// provider counted for it, also where it failed. Nil is unknown, which is not
// zero; so is what no provider can have counted. Attempts count from 1. The context ends with the run.
type AttemptFunc func(ctx context.Context, attempt int) (*TokenUsage, error)

// Attempt is one attempt that was made.
type Attempt struct {
	Number  int // as granted, from 1
	Began   time.Time
	Ended   time.Time
	Failure FailureClass // "" where it succeeded
	Usage   *TokenUsage  // as reported; nil is unknown
	Err     error        // of the function; nil where it succeeded
}

// Model makes attempts of a model operation: each is granted by the processor
// before it is made, and reported with its failure class and usage before the
// next is asked for. It gives the attempts that were made here. The error is
//   - that of the function in the last attempt, if the operation failed and the
//     retry policy allows no further attempt;
//   - *[RejectedError] if an attempt was refused, for instance because the run
//     was released or the operation has an attempt under way or behind it;
//   - *[EndedError], [ErrHistoryGap], [ErrUnanswered], [ErrNoAnswer] or the
//     context's error as in [Run.Call]; where a report was not recorded the
//     error of the function, if it gave one, is joined to it.
//
// The failure class is that which the function's error has, see [FailureClass].
// There is no pause between attempts. A function that panics leaves its attempt
// unreported: its usage is unknown, and no other is granted.
func (r *Run) Model(ctx context.Context, call ModelCall, attempt AttemptFunc) ([]Attempt, error) {
	if call.ID == "" || !utf8.ValidString(call.ID) {
		return nil, fmt.Errorf("ModelCall.ID: want a name for the operation, got %.80q; it is never made up here", call.ID)
	}
	var attempts []Attempt
	for {
		number, err := r.grant(ctx, call)
		if err != nil {
			return attempts, afterAttempts(attempts, err)
		}
		made := r.attempt(ctx, number, attempt)
		attempts = append(attempts, made)
		if err := r.reportAttempt(ctx, call, made); err != nil {
			return attempts, errors.Join(made.Err, err)
		}
		if made.Err == nil || !mayRetry(call.Operation, made) {
			return attempts, made.Err
		}
	}
}

// mayRetry spares the asking for what the policy never allows. The processor
// has the last word.
func mayRetry(op Operation, last Attempt) bool {
	policy := harness.RetryPolicies{}.Of(events.Operation(op))
	return last.Number < policy.MaxAttempts && policy.Retryable(last.Failure)
}

// afterAttempts gives the error of the last attempt where the policy refuses
// one more, and any other refusal as it is.
func afterAttempts(attempts []Attempt, refusal error) error {
	if n := len(attempts); n > 0 && isCode(refusal, CodeRetryNotAllowed) {
		return attempts[n-1].Err
	}
	return refusal
}

// grant asks for one attempt and gives its number.
func (r *Run) grant(ctx context.Context, call ModelCall) (int, error) {
	data, err := json.Marshal(&events.ModelCall{
		RunID: r.id, Operation: events.Operation(call.Operation), OperationID: call.ID,
	})
	if err != nil {
		return 0, fmt.Errorf("model call %.80q in run %s: %w", call.ID, r.id, err)
	}
	a, err := r.askAndAwait(ctx, events.VerbModelCall, data, fmt.Sprintf("model call %.80q in run %s", call.ID, r.id))
	return a.attempt, err
}

// attempt makes one granted attempt.
func (r *Run) attempt(ctx context.Context, number int, attempt AttemptFunc) Attempt {
	working, stop := r.whileItRuns(ctx)
	defer stop()
	made := Attempt{Number: number, Began: time.Now()}
	usage, err := attempt(working, number)
	made.Ended, made.Err = time.Now(), err
	if err != nil {
		made.Failure = classOf(err)
	}
	if usage != nil {
		if err := events.TokenUsage(*usage).Check(); err != nil { // the processor would not take the report
			r.log.Warn().Err(err).Str("run", r.id).Int("attempt", number).Msg("usage is no count of tokens; reported as unknown")
			usage = nil
		}
	}
	made.Usage = usage
	return made
}

// whileItRuns gives a context that also ends with the run.
func (r *Run) whileItRuns(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithDeadline(ctx, r.deadline)
	go func() {
		select {
		case <-r.done:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// reportAttempt tells how an attempt ended and returns once it is recorded. What
// was used is told also by a caller who has given up, who then waits for one
// acknowledgement at most.
func (r *Run) reportAttempt(ctx context.Context, call ModelCall, a Attempt) error {
	report := &events.ModelReport{
		RunID: r.id, Operation: events.Operation(call.Operation), OperationID: call.ID,
		Attempt: a.Number, Outcome: events.AttemptSucceeded, Failure: a.Failure, Usage: (*events.TokenUsage)(a.Usage),
	}
	if a.Err != nil {
		report.Outcome = events.AttemptFailed
	}
	data, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("report of model call %.80q in run %s: %w", call.ID, r.id, err)
	}
	if ctx.Err() != nil {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(context.WithoutCancel(ctx), r.agent.cfg.AckTimeout)
		defer stop()
	}
	_, err = r.askAndAwait(ctx, events.VerbModelReport, data, fmt.Sprintf("report of model call %.80q in run %s", call.ID, r.id))
	return err
}

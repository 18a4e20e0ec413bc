package events

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Operation is a kind of controlled model work. Each has its retry policy.
type Operation string

// The operations (requirement "Harness retry SHALL be typed, bounded, and
// recorded").
const (
	OperationIntentRouter   Operation = "INTENT_ROUTER"
	OperationSemanticGuard  Operation = "SEMANTIC_GUARD"
	OperationDiagnosisAgent Operation = "DIAGNOSIS_AGENT"
	OperationEvidenceRepair Operation = "EVIDENCE_REPAIR"
)

// OperationToolCall is a tool call. It has a retry policy like the others, and
// is no model operation: over events it is a tool.call.
const OperationToolCall Operation = "TOOL_CALL"

// FailureClass says what kind of failure an attempt ended in.
type FailureClass string

// Technical failures; a retry policy may list them.
const (
	FailureTransport       FailureClass = "TRANSPORT"        // connection refused, reset, broken
	FailureTimeout         FailureClass = "TIMEOUT"          // no answer in time
	FailureRateLimited     FailureClass = "RATE_LIMITED"     // the provider asks to wait
	FailureUnavailable     FailureClass = "UNAVAILABLE"      // the provider's own failure
	FailureInvalidResponse FailureClass = "INVALID_RESPONSE" // an answer that does not parse
)

// Failures that are never retried.
const (
	FailureCancelled         FailureClass = "CANCELLED"
	FailureDeadlineExceeded  FailureClass = "DEADLINE_EXCEEDED"
	FailureBudgetExhausted   FailureClass = "BUDGET_EXHAUSTED"
	FailureNoEvidence        FailureClass = "NO_EVIDENCE"
	FailureBusinessRejection FailureClass = "BUSINESS_REJECTION"
	FailureUnknown           FailureClass = "UNKNOWN"
)

// ModelCall asks for one attempt of a model operation. The operation id names
// the operation within its run and stays the same over its attempts.
type ModelCall struct {
	RunID       string    `json:"run_id"`
	Operation   Operation `json:"operation"`
	OperationID string    `json:"operation_id"`
}

// AttemptOutcome is how an attempt ended.
type AttemptOutcome string

// The outcomes of an attempt.
const (
	AttemptSucceeded AttemptOutcome = "SUCCEEDED"
	AttemptFailed    AttemptOutcome = "FAILED"
)

// TokenUsage is what the provider counted for one attempt. TotalTokens may be
// left out; it then is the sum.
type TokenUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens,omitzero"`
}

// UnmarshalJSONFrom reads usage whose two numbers are there. One that is missing
// or null is unknown, and must not be read as zero: the whole usage is null then.
func (u *TokenUsage) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var told struct {
		InputTokens  *int64 `json:"input_tokens"`
		OutputTokens *int64 `json:"output_tokens"`
		TotalTokens  int64  `json:"total_tokens"`
	}
	if err := json.UnmarshalDecode(d, &told); err != nil {
		return err
	}
	if told.InputTokens == nil || told.OutputTokens == nil {
		return errors.New("want input_tokens and output_tokens, or null for the whole where they are unknown")
	}
	*u = TokenUsage{InputTokens: *told.InputTokens, OutputTokens: *told.OutputTokens, TotalTokens: told.TotalTokens}
	return nil
}

// Check reports whether each number is one of tokens, from 0 to 2^40.
func (u TokenUsage) Check() error {
	for _, tokens := range [...]int64{u.InputTokens, u.OutputTokens, u.TotalTokens} {
		if tokens < 0 || tokens > maxTokens {
			return fmt.Errorf("usage: want numbers of tokens from 0 to %d, or null where they are unknown, got %d", int64(maxTokens), tokens)
		}
	}
	return nil
}

// Total is the total as the provider counted it, and at least the sum.
func (u TokenUsage) Total() int64 { return max(u.TotalTokens, u.InputTokens+u.OutputTokens) }

// ModelReport tells how a granted attempt ended, and what it used; a nil Usage
// is unknown, which is not zero.
type ModelReport struct {
	RunID       string         `json:"run_id"`
	Operation   Operation      `json:"operation"`
	OperationID string         `json:"operation_id"`
	Attempt     int            `json:"attempt"`
	Outcome     AttemptOutcome `json:"outcome"`
	Failure     FailureClass   `json:"failure,omitempty"`
	Usage       *TokenUsage    `json:"usage"`
}

// ModelGranted answers a model.call: the attempt may be made, once.
type ModelGranted struct {
	Operation   Operation `json:"operation"`
	OperationID string    `json:"operation_id"`
	Attempt     int       `json:"attempt"`
}

// ModelRejected answers a model.call or a model.report that was refused.
type ModelRejected struct {
	RunID       string    `json:"run_id"`
	Intent      Verb      `json:"intent"`
	Operation   Operation `json:"operation,omitempty"`
	OperationID string    `json:"operation_id,omitempty"`
	Code        Code      `json:"code"`
	Message     string    `json:"message"`
	Limit       string    `json:"limit,omitempty"`
}

// ModelRecorded is the end of an attempt. Usage is recorded as it was reported,
// also where it passes a limit, which Limit then names; null is unknown.
type ModelRecorded struct {
	Operation   Operation      `json:"operation"`
	OperationID string         `json:"operation_id"`
	Attempt     int            `json:"attempt"`
	Outcome     AttemptOutcome `json:"outcome"`
	Failure     FailureClass   `json:"failure,omitempty"`
	Usage       *TokenUsage    `json:"usage"`
	Limit       string         `json:"limit,omitempty"`
}

// Kind implements [Payload].
func (*ModelGranted) Kind() Kind { return KindModelGranted }

// Kind implements [Payload].
func (*ModelRejected) Kind() Kind { return KindModelRejected }

// Kind implements [Payload].
func (*ModelRecorded) Kind() Kind { return KindModelRecorded }

// maxTokens bounds a reported number, so that sums cannot overflow.
const maxTokens = 1 << 40

func (op Operation) check() error {
	switch op {
	case OperationIntentRouter, OperationSemanticGuard, OperationDiagnosisAgent, OperationEvidenceRepair:
		return nil
	case OperationToolCall: // a tool.call, not a model.call
	}
	return fmt.Errorf("operation: want %s, %s, %s or %s, got %.40q", OperationIntentRouter, OperationSemanticGuard,
		OperationDiagnosisAgent, OperationEvidenceRepair, string(op))
}

func (f FailureClass) check() error {
	switch f {
	case FailureTransport, FailureTimeout, FailureRateLimited, FailureUnavailable, FailureInvalidResponse,
		FailureCancelled, FailureDeadlineExceeded, FailureBudgetExhausted, FailureNoEvidence,
		FailureBusinessRejection, FailureUnknown:
		return nil
	}
	return fmt.Errorf("failure: want a failure class such as %s or %s, got %.40q", FailureTransport, FailureUnknown, string(f))
}

func (p *ModelCall) check() error { return p.Operation.check() }

func (p *ModelReport) check() error {
	if err := p.Operation.check(); err != nil {
		return err
	}
	if p.Attempt < 1 {
		return fmt.Errorf("attempt: want 1 or more, got %d", p.Attempt)
	}
	switch p.Outcome {
	case AttemptSucceeded:
		if p.Failure != "" {
			return fmt.Errorf("failure: want none with outcome %s, got %.40q", p.Outcome, string(p.Failure))
		}
	case AttemptFailed:
		if err := p.Failure.check(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("outcome: want %s or %s, got %.40q", AttemptSucceeded, AttemptFailed, string(p.Outcome))
	}
	if p.Usage != nil {
		return p.Usage.Check()
	}
	return nil
}

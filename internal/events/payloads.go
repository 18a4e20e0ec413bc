package events

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a run. Every one is supplied by the run's owner, positive, and at
// most the policy's ceiling.
type Limits struct {
	ModelCalls   int64 `json:"model_calls"`
	ToolCalls    int64 `json:"tool_calls"`
	CallsPerTool int64 `json:"calls_per_tool"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
	RunBytes     int64 `json:"run_bytes"`
}

// RunStart asks for a new run, owned by the agent of the subject.
type RunStart struct {
	RunID     string    `json:"run_id"`
	SessionID string    `json:"session_id"`
	Deadline  time.Time `json:"deadline"`
	Limits    Limits    `json:"limits"`
}

// ToolCall asks for one call of a tool. Authorized and ReadOnly can only
// narrow: false always rejects, true grants nothing.
type ToolCall struct {
	RunID      string         `json:"run_id"`
	ToolCallID string         `json:"tool_call_id"`
	Tool       string         `json:"tool"`
	Arguments  jsontext.Value `json:"arguments"`
	Authorized *bool          `json:"authorized,omitempty"`
	ReadOnly   *bool          `json:"read_only,omitempty"`
}

// ResultOutcome is what an executor says of a call.
type ResultOutcome string

// The outcomes of a call, as its executor sees them.
const (
	ResultSucceeded ResultOutcome = "SUCCEEDED"
	ResultFailed    ResultOutcome = "FAILED"
	ResultTooLarge  ResultOutcome = "TOO_LARGE" // too large to publish; Size says how large
)

// ToolResult answers a dispatch. Result holds the raw response, any JSON value,
// byte for byte as it was sent.
type ToolResult struct {
	RunID      string         `json:"run_id"`
	ToolCallID string         `json:"tool_call_id"`
	DispatchID string         `json:"dispatch_id"`
	Outcome    ResultOutcome  `json:"outcome"`
	Result     jsontext.Value `json:"result,omitzero"` // [] and "" are results too, and omitempty would lose them
	Size       int64          `json:"size,omitzero"`
}

// CancelReason says why a run was cancelled; the set is closed.
type CancelReason string

// The reasons that a principal may give, and those that the core gives itself.
const (
	CancelClientDisconnected CancelReason = "CLIENT_DISCONNECTED"
	CancelUserRequested      CancelReason = "USER_REQUESTED"
	CancelOperatorRequested  CancelReason = "OPERATOR_REQUESTED"
	CancelDeadlineExceeded   CancelReason = "DEADLINE_EXCEEDED"
	CancelBudgetExhausted    CancelReason = "BUDGET_EXHAUSTED"
)

// RunCancel ends a run as CANCELLED.
type RunCancel struct {
	RunID  string       `json:"run_id"`
	Reason CancelReason `json:"reason"`
}

// RunFinish ends a run as SUCCESS or FAILED, as its owner says.
type RunFinish struct {
	RunID   string  `json:"run_id"`
	Outcome Outcome `json:"outcome"`
}

// Outcome is how a run ended; a run has exactly one.
type Outcome string

// The terminal outcomes of a run.
const (
	OutcomeSuccess         Outcome = "SUCCESS"
	OutcomeFailed          Outcome = "FAILED"
	OutcomeCancelled       Outcome = "CANCELLED"
	OutcomeTimedOut        Outcome = "TIMED_OUT"
	OutcomeBudgetExhausted Outcome = "BUDGET_EXHAUSTED"
)

// Usage is what a run has used of its limits. Calls by tool are counted under
// the tool's name.
type Usage struct {
	ModelCalls   int64            `json:"model_calls"`
	ToolCalls    int64            `json:"tool_calls"`
	CallsByTool  map[string]int64 `json:"calls_by_tool,omitempty"`
	InputTokens  int64            `json:"input_tokens"`
	OutputTokens int64            `json:"output_tokens"`
	TotalTokens  int64            `json:"total_tokens"`
	UnknownUsage int64            `json:"unknown_usage"` // model calls whose usage nobody reported
	RunBytes     int64            `json:"run_bytes"`
}

// Dispatch hands a reserved call to its executor.
type Dispatch struct {
	RunID      string         `json:"run_id"`
	ToolCallID string         `json:"tool_call_id"`
	DispatchID string         `json:"dispatch_id"`
	Tool       string         `json:"tool"`
	Arguments  jsontext.Value `json:"arguments"`
	Deadline   time.Time      `json:"deadline"`
}

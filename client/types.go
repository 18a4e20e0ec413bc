package client

import (
	"encoding/json"
	"time"
)

// Limits of a run. Every one is supplied, positive, and at most the policy's
// ceiling. The run ends as BUDGET_EXHAUSTED when one is used up and more is
// asked for.
type Limits struct {
	ModelCalls   int64
	ToolCalls    int64
	CallsPerTool int64
	InputTokens  int64
	OutputTokens int64
	TotalTokens  int64
	RunBytes     int64 // requests, raw responses and agent results together
}

// Usage is what a run has used of its limits.
type Usage struct {
	ModelCalls   int64
	ToolCalls    int64
	CallsByTool  map[string]int64 // under the tool's name
	InputTokens  int64
	OutputTokens int64
	TotalTokens  int64
	UnknownUsage int64 // model calls whose usage nobody reported
	RunBytes     int64
}

// Outcome is how a run ended; a run has exactly one.
type Outcome string

// The outcomes of a run. [Run.Finish] takes the first two.
const (
	OutcomeSuccess         Outcome = "SUCCESS"
	OutcomeFailed          Outcome = "FAILED"
	OutcomeCancelled       Outcome = "CANCELLED"
	OutcomeTimedOut        Outcome = "TIMED_OUT"
	OutcomeBudgetExhausted Outcome = "BUDGET_EXHAUSTED"
)

// CancelReason says why a run is cancelled.
type CancelReason string

// The reasons that an agent may give.
const (
	CancelUserRequested      CancelReason = "USER_REQUESTED"
	CancelClientDisconnected CancelReason = "CLIENT_DISCONNECTED"
)

// Evidence says what a result may be used for.
type Evidence string

// The evidence of a result. NoEvidence supports negative statements only
// ("nothing was found in what was searched").
const (
	EvidenceFound Evidence = "EVIDENCE_FOUND"
	NoEvidence    Evidence = "NO_EVIDENCE"
)

// RunSpec is what a run begins with.
type RunSpec struct {
	RunID     string    // 1 to 128 of A-Z a-z 0-9 _ -; unique for as long as records are kept
	SessionID string    // any text without control characters
	Deadline  time.Time // the run ends as TIMED_OUT then; milliseconds count
	Limits    Limits
}

// Call is one tool call.
type Call struct {
	// ID is the tool_call_id of the model or framework, kept byte for byte. It
	// is required, never made up here, and may be used once in a run.
	ID   string
	Tool string
	// Arguments are a JSON object, sent byte for byte; nil is {}.
	Arguments json.RawMessage
}

// Result is the bounded result of a call that ended READY.
type Result struct {
	ToolCallID string
	Tool       string
	Sequence   uint64 // of the call's reservation in the run; progress reports name it
	Evidence   Evidence
	Data       json.RawMessage // what the tool's projector made of the raw response
}

// Termination is the end of a run.
type Termination struct {
	Outcome Outcome
	Reason  string
	EndedAt time.Time // when the outcome was fixed
	Usage   Usage
	Calls   map[string]int64 // calls by status, READY and ERROR
}

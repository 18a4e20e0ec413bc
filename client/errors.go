package client

import (
	"errors"
	"fmt"
)

// What can go wrong apart from what the processor says. Errors that the
// processor gives are *[RejectedError], *[FailedError], *[EndedError] and
// *[InvalidProgressError].
var (
	// ErrHistoryGap says that facts of the run were missed and could not be read
	// from the stream either, and that the answer may have been among them. What was asked for may have happened; the run
	// goes on, and later calls are answered.
	ErrHistoryGap = errors.New("facts of the run were missed")
	// ErrUnanswered says that no acknowledgement came for an event, however
	// often it was published. It may have been stored, or not.
	ErrUnanswered = errors.New("the publish was not acknowledged")
	// ErrNoAnswer says that no fact came by the run's deadline and
	// AgentConfig.AnswerGrace: no processor works, or facts were missed.
	ErrNoAnswer = errors.New("no answer came by the run's deadline")
	// ErrClosed says that the Agent was closed.
	ErrClosed = errors.New("the agent is closed")
)

// RejectedError says that the processor refused an intent: nothing was
// executed, reserved or recorded. Code and Message are from a closed set and
// safe to show to a model.
type RejectedError struct {
	RunID       string
	Intent      string    // what was asked for, such as run.start, tool.call or model.call
	ToolCallID  string    // of a tool call
	Tool        string    // of a tool call
	Operation   Operation // of a model call or the report of its attempt
	OperationID string    // of a model call or the report of its attempt
	Code        Code
	Message     string
	Limit       string // the limit that is used up or not allowed, where that is the reason

	// SameArguments tells of a DUPLICATE_TOOL_CALL whether it repeats the
	// arguments of the first call; nil otherwise.
	SameArguments *bool
}

func (e *RejectedError) Error() string {
	what := e.Intent
	if id := e.ToolCallID + e.OperationID; id != "" { // there is one of them at most
		what += fmt.Sprintf(" %.80q", id)
	}
	text := fmt.Sprintf("%s in run %s was refused: %s: %s", what, e.RunID, e.Code, e.Message)
	if e.Limit != "" {
		text += " (limit " + e.Limit + ")"
	}
	return text
}

// FailedError says that a tool call was accepted and ended as ERROR: it has no
// result and is no evidence. Code and Message are safe to show to a model.
type FailedError struct {
	RunID      string
	ToolCallID string
	Tool       string
	Code       Code
	Message    string
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("tool call %.80q (%.80s) in run %s failed: %s: %s", e.ToolCallID, e.Tool, e.RunID, e.Code, e.Message)
}

// EndedError says that the run has ended, or is about to: nothing more will be
// accepted in it. It wraps the refusal or failure that told so, if one did.
type EndedError struct {
	RunID   string
	Outcome Outcome // "" where only the refusal is known
	Reason  string  // why the run ended, for instance FINISHED_BY_AGENT or DEADLINE_EXCEEDED
	Err     error   // *RejectedError or *FailedError, or nil
}

func (e *EndedError) Error() string {
	text := "run " + e.RunID + " has ended"
	if e.Outcome != "" {
		text += fmt.Sprintf(" as %s (%s)", e.Outcome, e.Reason)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the refusal or failure that told of the end, or nil.
func (e *EndedError) Unwrap() error { return e.Err }

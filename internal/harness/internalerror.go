package harness

import (
	"time"

	"runledger/internal/events"
)

// Internal answers an agent's event that could not be decided through no fault
// of the agent. It belongs to no history and tells nothing of the cause.
func Internal(in *events.Inbound, now time.Time) *events.Fact {
	code := events.CodeInternal
	var payload events.Payload = &events.RunRejected{RunID: in.Run, Intent: in.Verb, Code: code, Message: code.Message()}
	switch in.Verb {
	case events.VerbModelCall, events.VerbModelReport:
		payload = &events.ModelRejected{RunID: in.Run, Intent: in.Verb, Code: code, Message: code.Message()}
	case events.VerbProgressReport:
		payload = &events.ProgressInvalid{RunID: in.Run, Code: string(code), Message: code.Message()}
	case events.VerbToolCall:
		payload = &events.ToolRejected{RunID: in.Run, Code: code, Message: code.Message()}
	default:
	}
	return outside(in, in.Principal, now, inboundKey(in), payload).Fact
}

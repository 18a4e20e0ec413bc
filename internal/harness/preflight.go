package harness

import (
	"errors"
	"time"

	"runledger/internal/events"
)

// callCheck is one tool call on its way through the preflight.
type callCheck struct {
	rules *Rules
	state *State
	in    *events.Inbound
	call  *events.ToolCall // nil where the data do not fit the schema
	tool  Tool             // zero where the policy has no such tool
	known bool             // whether it has
	now   time.Time
}

// stage is one check of the preflight. It gives the code of the refusal, empty
// where the call passes, and a detail for the operator.
type stage func(*callCheck) (events.Code, string)

// preflight is the checks of a tool call in their order; the first failure
// wins, and nothing has been executed or reserved by then.
func preflight() [14]stage {
	return [...]stage{
		checkEnvelope, checkToolCallID, checkSubjectRun,
		checkRunKnown, checkRunOwned,
		checkInput, checkRequestSize,
		checkTool, checkGrant, checkReadOnly,
		checkRunActive, checkReleased,
		checkDuplicate,
		checkBudget,
	}
}

func checkEnvelope(c *callCheck) (events.Code, string) {
	if c.call == nil {
		return events.CodeInvalidEnvelope, problem(c.in)
	}
	return "", ""
}

func checkToolCallID(c *callCheck) (events.Code, string) {
	if err := CheckToolCallID(c.call.ToolCallID, c.rules.Policy.AllowColon); err != nil {
		return events.CodeInvalidToolCallID, err.Error()
	}
	return "", ""
}

func checkSubjectRun(c *callCheck) (events.Code, string) {
	if c.call.RunID != c.in.Run {
		return events.CodeRunMismatch, ""
	}
	return "", ""
}

func checkRunKnown(c *callCheck) (events.Code, string) {
	if c.state.Run == nil {
		return events.CodeRunNotFound, ""
	}
	return "", ""
}

func checkRunOwned(c *callCheck) (events.Code, string) {
	if c.state.Run.Agent != c.in.Principal {
		return events.CodeRunNotOwned, ""
	}
	return "", ""
}

func checkInput(c *callCheck) (events.Code, string) {
	if c.call.Arguments.Kind() != '{' {
		return events.CodeInvalidInput, "arguments are not a JSON object"
	}
	if !c.known || c.tool.Input == nil || c.tooLarge() {
		return "", "" // what comes later refuses the call, and no work is done for it here
	}
	if err := c.tool.Input.Check(c.call.Arguments); err != nil {
		return events.CodeInvalidInput, err.Error()
	}
	return "", ""
}

func (c *callCheck) tooLarge() bool { return int64(len(c.in.Data)) > c.rules.Policy.Bytes.Request }

func checkRequestSize(c *callCheck) (events.Code, string) {
	if c.tooLarge() {
		return events.CodeRequestTooLarge, ""
	}
	return "", ""
}

func checkTool(c *callCheck) (events.Code, string) {
	if !c.known {
		return events.CodeToolNotFound, ""
	}
	return "", ""
}

func checkGrant(c *callCheck) (events.Code, string) {
	if denied(c.call.Authorized) || !c.rules.Policy.Granted(c.in.Principal, c.call.Tool) {
		return events.CodeUnauthorized, ""
	}
	return "", ""
}

func checkReadOnly(c *callCheck) (events.Code, string) {
	if denied(c.call.ReadOnly) || !c.tool.ReadOnly {
		return events.CodeNotReadOnly, ""
	}
	return "", ""
}

// denied reports whether the envelope itself says no. Saying yes grants nothing.
func denied(claim *bool) bool { return claim != nil && !*claim }

func checkRunActive(c *callCheck) (events.Code, string) {
	return c.state.Run.inactive(c.now), ""
}

func checkReleased(c *callCheck) (events.Code, string) {
	if c.state.Run.Released != "" {
		return events.CodeRunReleased, ""
	}
	return "", ""
}

func checkDuplicate(c *callCheck) (events.Code, string) {
	if c.state.record(c.call.ToolCallID) != nil {
		return events.CodeDuplicateToolCall, ""
	}
	return "", ""
}

func checkBudget(c *callCheck) (events.Code, string) {
	err := CheckToolCall(c.state.Run.Limits, c.state.Run.Usage, c.call.Tool, int64(len(c.in.Data)))
	var exceeded *ExceededError
	if errors.As(err, &exceeded) {
		return events.CodeBudgetExhausted, string(exceeded.Limit)
	}
	return "", ""
}

// decideCall runs the preflight and reserves the call, or refuses it.
func (r *Rules) decideCall(s *State, in *events.Inbound, now time.Time) Decision {
	c := &callCheck{rules: r, state: s, in: in, now: now}
	if c.call, _ = in.Payload.(*events.ToolCall); c.call != nil {
		c.tool, c.known = r.Policy.Tools[c.call.Tool]
		if sameEvent(s, in, c.call) {
			return Decision{} // the event that made this record, again: its first answer stands
		}
	}
	for _, check := range preflight() {
		if code, detail := check(c); code != "" {
			return c.reject(code, detail)
		}
	}
	deadline := now.Add(c.tool.Timeout).Truncate(time.Millisecond)
	if deadline.After(s.Run.Deadline) {
		deadline = s.Run.Deadline
	}
	return Decision{Fact: s.fact(in, now, true, &events.ToolReserved{
		ToolCallID: c.call.ToolCallID, Tool: c.call.Tool, Executor: c.tool.Executor, Deadline: deadline,
		RequestBytes: int64(len(in.Data)), RequestDigest: events.DigestBytes(in.Data),
		ArgumentsDigest: events.DigestBytes(c.call.Arguments),
	})}
}

// sameEvent reports whether this very event made the record of its call.
func sameEvent(s *State, in *events.Inbound, call *events.ToolCall) bool {
	if s.Run == nil || s.Run.Agent != in.Principal {
		return false
	}
	record := s.record(call.ToolCallID)
	return record != nil && isCause(record.Cause, in)
}

// isCause reports whether the event is that cause. Ids are unique only within
// their source.
func isCause(c events.Cause, in *events.Inbound) bool {
	return c.ID == in.ID && c.Source == in.Source
}

func (c *callCheck) reject(code events.Code, detail string) Decision {
	payload := &events.ToolRejected{RunID: c.in.Run, Code: code, Message: code.Message()}
	if c.call != nil {
		payload.Tool = c.call.Tool
		if CheckToolCallID(c.call.ToolCallID, true) == nil {
			payload.ToolCallID = c.call.ToolCallID
		}
	}
	if code == events.CodeBudgetExhausted {
		payload.Limit = detail
	}
	if code == events.CodeDuplicateToolCall {
		same := c.state.record(c.call.ToolCallID).ArgumentsDigest == events.DigestBytes(c.call.Arguments)
		payload.SameArguments = &same
	}
	return c.state.answer(c.in, c.now, payload, detail)
}

package client

import "runledger/internal/events"

func (h *history) runRejected(p *events.RunRejected) error {
	return h.endedIf(p.Code, &RejectedError{
		RunID: h.id, Intent: string(p.Intent), Code: Code(p.Code), Message: p.Message, Limit: p.Limit,
	})
}

func (h *history) toolRejected(p *events.ToolRejected) error {
	return h.endedIf(p.Code, &RejectedError{
		RunID: h.id, Intent: string(events.VerbToolCall), ToolCallID: p.ToolCallID, Tool: p.Tool,
		Code: Code(p.Code), Message: p.Message, Limit: p.Limit, SameArguments: p.SameArguments,
	})
}

func (h *history) modelRejected(p *events.ModelRejected) error {
	return h.endedIf(p.Code, &RejectedError{
		RunID: h.id, Intent: string(p.Intent), Operation: Operation(p.Operation), OperationID: p.OperationID,
		Code: Code(p.Code), Message: p.Message, Limit: p.Limit,
	})
}

// progressInvalid tells what can be repaired from what was refused.
func (h *history) progressInvalid(p *events.ProgressInvalid) error {
	if p.Code != events.InvalidProgressProtocol {
		code := events.Code(p.Code)
		return h.endedIf(code, &RejectedError{
			RunID: h.id, Intent: string(events.VerbProgressReport), Code: Code(code), Message: p.Message,
		})
	}
	err := &InvalidProgressError{RunID: h.id, Step: p.Step, Message: p.Message, RepairsLeft: p.RepairsLeft}
	for _, v := range p.Violations {
		err.Violations = append(err.Violations, Violation{Code: ViolationCode(v.Code), Claim: v.Claim, ToolCallID: v.ToolCallID})
	}
	return err
}

// endedIf makes an EndedError of a refusal that tells that the run has ended.
func (h *history) endedIf(code events.Code, refusal *RejectedError) error {
	if code == events.CodeRunNotActive || code == events.CodeDeadlineExceeded {
		return h.endedError(refusal)
	}
	return refusal
}

func (h *history) endedError(cause error) error {
	err := &EndedError{RunID: h.id, Err: cause}
	switch {
	case h.ended != nil:
		err.Outcome, err.Reason = h.ended.Outcome, h.ended.Reason
	case h.ending != nil:
		err.Outcome, err.Reason = Outcome(h.ending.Outcome), h.ending.Reason
	}
	return err
}

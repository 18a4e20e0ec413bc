package harness

import (
	"errors"
	"time"

	"runledger/internal/events"
)

// decideModelCall grants one more attempt of a model operation, or refuses it.
// The checks are those of a tool call as far as they apply, in the same order;
// the retry policy stands where a tool call's duplicate check does.
func (r *Rules) decideModelCall(s *State, in *events.Inbound, now time.Time) Decision {
	p, ok := in.Payload.(*events.ModelCall)
	var op *ModelOperation
	if ok {
		op = s.operation(in, p.OperationID)
	}
	if op != nil && isCause(op.Granted, in) {
		return Decision{} // the event that was granted this attempt, again
	}
	if code, detail := r.checkModelCall(s, in, p, op, now); code != "" {
		return s.rejectModel(in, now, code, detail)
	}
	attempt := 1
	if op != nil {
		attempt = op.Attempts + 1
	}
	return Decision{Fact: s.fact(in, now, true, &events.ModelGranted{
		Operation: p.Operation, OperationID: p.OperationID, Attempt: attempt,
	})}
}

func (r *Rules) checkModelCall(s *State, in *events.Inbound, p *events.ModelCall, op *ModelOperation, now time.Time) (events.Code, string) {
	runID := ""
	if p != nil {
		runID = p.RunID
		if err := CheckToolCallID(p.OperationID, r.Policy.AllowColon); err != nil {
			return events.CodeInvalidEnvelope, "operation_id: " + err.Error()
		}
	}
	if code, detail := s.refuse(in, runID); code != "" {
		return code, detail
	}
	if code := s.Run.inactive(now); code != "" {
		return code, ""
	}
	if s.Run.Released != "" {
		return events.CodeRunReleased, ""
	}
	var retries RetryPolicies
	if !retries.next(op, p.Operation) {
		return events.CodeRetryNotAllowed, ""
	}
	var exceeded *ExceededError
	if errors.As(CheckModelCall(s.Run.Limits, s.Run.Usage), &exceeded) {
		return events.CodeBudgetExhausted, string(exceeded.Limit)
	}
	return "", ""
}

// operation finds what the run remembers of an operation, for its owner alone:
// an event of anybody else is another one, whatever its id and source.
func (s *State) operation(in *events.Inbound, operationID string) *ModelOperation {
	if s.Run == nil || s.Run.Agent != in.Principal {
		return nil
	}
	return s.Operations[operationID]
}

// decideModelReport records how an attempt ended and what it used.
func (r *Rules) decideModelReport(s *State, in *events.Inbound, now time.Time) Decision {
	p, ok := in.Payload.(*events.ModelReport)
	runID := ""
	var op *ModelOperation
	if ok {
		runID, op = p.RunID, s.operation(in, p.OperationID)
	}
	if op != nil && isCause(op.Reported, in) {
		return Decision{} // the event that ended this attempt, again
	}
	code, detail := s.refuse(in, runID)
	if code == "" {
		code = s.Run.inactive(now)
	}
	if code == "" && (op == nil || !op.Open || op.Operation != p.Operation || op.Attempts != p.Attempt) {
		code = events.CodeAttemptNotOpen
	}
	if code != "" {
		return s.rejectModel(in, now, code, detail)
	}
	recorded := &events.ModelRecorded{
		Operation: p.Operation, OperationID: p.OperationID, Attempt: p.Attempt,
		Outcome: p.Outcome, Failure: p.Failure, Usage: p.Usage,
	}
	if p.Usage != nil {
		recorded.Limit = string(passedByTokens(s.Run.Limits, s.Run.Usage, *p.Usage))
	}
	return Decision{Fact: s.fact(in, now, true, recorded)}
}

func (s *State) rejectModel(in *events.Inbound, now time.Time, code events.Code, detail string) Decision {
	payload := &events.ModelRejected{RunID: in.Run, Intent: in.Verb, Code: code, Message: code.Message()}
	operationID := ""
	switch p := in.Payload.(type) {
	case *events.ModelCall:
		payload.Operation, operationID = p.Operation, p.OperationID
	case *events.ModelReport:
		payload.Operation, operationID = p.Operation, p.OperationID
	}
	if CheckToolCallID(operationID, true) == nil {
		payload.OperationID = operationID
	}
	if code == events.CodeBudgetExhausted {
		payload.Limit = detail
	}
	return s.answer(in, now, payload, detail)
}

// grant counts an attempt whose usage nobody has reported yet. The operation
// need not be loaded: the fact says all of it but its earlier causes.
func (s *State) grant(f *events.Fact, p *events.ModelGranted) error {
	if s.Run.Exhausted != "" || s.Run.Released != "" {
		return errors.New("only a run with budget left that is not released is granted an attempt")
	}
	op := ModelOperation{ID: p.OperationID, Operation: p.Operation}
	if before := s.Operations[p.OperationID]; before != nil {
		op = *before
		if op.Open || op.Attempts+1 != p.Attempt {
			return errors.New("an attempt is granted when the one before it has ended")
		}
	}
	if err := CheckModelCall(s.Run.Limits, s.Run.Usage); err != nil {
		return err
	}
	op.Attempts, op.Open, op.Failure, op.Granted = p.Attempt, true, "", f.Cause
	s.Run.Usage.ModelCalls++
	s.keepOperation(&op)
	return nil
}

// recordAttempt takes the actual usage, also where it passes a limit.
func (s *State) recordAttempt(f *events.Fact, p *events.ModelRecorded) error {
	op := ModelOperation{ID: p.OperationID, Operation: p.Operation, Attempts: p.Attempt}
	if before := s.Operations[p.OperationID]; before != nil {
		op = *before
		if !op.Open || op.Attempts != p.Attempt {
			return errors.New("the attempt is not open")
		}
	}
	op.Open, op.Reported = false, f.Cause
	op.Succeeded, op.Failure = p.Outcome == events.AttemptSucceeded, p.Failure
	if p.Usage != nil {
		addTokens(&s.Run.Usage, *p.Usage)
		s.Run.KnownUsage++
	}
	if p.Limit != "" {
		s.Run.Exhausted = LimitName(p.Limit)
	}
	s.keepOperation(&op)
	return nil
}

func (s *State) keepOperation(op *ModelOperation) {
	if s.Operations == nil {
		s.Operations = make(map[string]*ModelOperation)
	}
	s.Operations[op.ID] = op
}

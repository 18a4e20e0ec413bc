package judge

import "encoding/json"

// tokens is what a provider counted for one attempt; null is unknown.
type tokens struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Total  int64 `json:"total_tokens"`
}

func (p *payload) tokens() *tokens {
	var t *tokens
	_ = json.Unmarshal(p.Usage, &t)
	return t
}

// attempt grants an attempt of a model operation, or takes how it ended.
func (s *state) attempt(f *fact) {
	p := &f.data
	op := s.operations[p.OperationID]
	if op == nil {
		op = &Operation{ID: p.OperationID, Operation: p.Operation}
		s.operations[p.OperationID] = op
	}
	op.Attempts = p.Attempt
	if f.kind == "model.granted" {
		op.Open, op.Failure, op.Granted = true, "", f.cause
		s.ModelCalls++
		return
	}
	op.Open, op.Succeeded, op.Failure, op.Reported = false, p.Outcome == "SUCCEEDED", p.Failure, f.cause
	if t := p.tokens(); t != nil {
		s.KnownUsage++
		s.InputTokens += t.Input
		s.OutputTokens += t.Output
		s.TotalTokens += max(t.Total, t.Input+t.Output)
	}
	if p.Limit != "" {
		s.Exhausted = p.Limit
	}
}

// attempts is how often each operation may be attempted, and after which
// failures (docs/protocol.md, Models).
func attempts(operation, failure string) int {
	switch failure {
	case "TRANSPORT", "TIMEOUT", "RATE_LIMITED", "UNAVAILABLE":
		if operation == "INTENT_ROUTER" || operation == "SEMANTIC_GUARD" {
			return 2
		}
	case "INVALID_RESPONSE":
		if operation == "INTENT_ROUTER" {
			return 2
		}
	}
	return 1
}

// checkGranted holds the budget of model calls and tokens, and the retry policy.
func (r *run) checkGranted(f *fact) {
	s, p := r.state, &f.data
	op := s.operations[p.OperationID]
	switch {
	case !f.decision || f.event.verb != "model.call":
		r.violation("%v grants what event %d did not ask for", f, f.event.sequence)
	case s.Phase != phaseRunning || s.Exhausted != "" || s.Released != "":
		r.violation("%v grants when the run is %s, exhausted %q, released %q", f, s.Phase, s.Exhausted, s.Released)
	case s.ModelCalls+1 > s.Limits[0]:
		r.violation("%v passes the limit of %d model calls", f, s.Limits[0])
	case s.InputTokens > s.Limits[3] || s.OutputTokens > s.Limits[4] || s.TotalTokens > s.Limits[5]:
		r.violation("%v grants although tokens are used up", f)
	case op == nil && p.Attempt != 1:
		r.violation("%v grants attempt %d of %s first", f, p.Attempt, p.OperationID)
	case op != nil && (op.Open || op.Succeeded || p.Attempt != op.Attempts+1 || p.Attempt > attempts(op.Operation, op.Failure)):
		r.violation("%v grants attempt %d after %+v", f, p.Attempt, *op)
	}
}

func (r *run) checkRecorded(f *fact) {
	s, p := r.state, &f.data
	op := s.operations[p.OperationID]
	var told struct {
		Usage json.RawMessage `json:"usage"`
	}
	_ = json.Unmarshal(f.event.data, &told)
	said, got := (&payload{Usage: told.Usage}).tokens(), p.tokens()
	switch {
	case op == nil || !op.Open || op.Attempts != p.Attempt || op.Operation != p.Operation:
		r.violation("%v records attempt %d of %s, which is not under way", f, p.Attempt, p.OperationID)
	case (said == nil) != (got == nil) || said != nil && (said.Input != got.Input || said.Output != got.Output):
		r.violation("%v records another usage than was told", f)
	}
	if got == nil {
		return
	}
	input, output := s.InputTokens+got.Input, s.OutputTokens+got.Output
	total := s.TotalTokens + max(got.Total, got.Input+got.Output)
	if passed := input > s.Limits[3] || output > s.Limits[4] || total > s.Limits[5]; passed != (p.Limit != "") {
		r.violation("%v says that it passes the limit %q; tokens are now %d, %d and %d", f, p.Limit, input, output, total)
	}
}

package audit

import "fmt"

// operation is what the facts have told of one model operation.
type operation struct {
	name      string // its kind
	attempts  int64  // granted
	open      bool   // the last attempt has not been recorded
	succeeded bool
	failure   string // of the last attempt
}

// usage is what a model.recorded or a run.terminated tells of models.
type usage struct {
	ModelCalls   int64 `json:"model_calls"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
	UnknownUsage int64 `json:"unknown_usage"`
}

// mostAttempts gives how often an operation may be attempted.
func mostAttempts(operation string) int64 {
	switch operation {
	case "INTENT_ROUTER", "SEMANTIC_GUARD":
		return 2
	}
	return 1
}

// neverRetried reports whether no further attempt may follow the failure.
func neverRetried(failure string) bool {
	switch failure {
	case "CANCELLED", "DEADLINE_EXCEEDED", "BUDGET_EXHAUSTED", "NO_EVIDENCE", "BUSINESS_REJECTION", "UNKNOWN":
		return true
	}
	return false
}

// grant counts an attempt, whose usage is unknown until it is recorded.
func (c *counter) grant(r *run, f *fact) {
	op := r.operations[f.body.OperationID]
	if op == nil {
		op = &operation{name: f.body.Operation}
		r.operations[f.body.OperationID] = op
	}
	if wrong := op.refuse(f.body); wrong != "" {
		c.violation("%s grants attempt %d of %.80q, %s", f, f.body.Attempt, f.body.OperationID, wrong)
	}
	op.attempts, op.open = f.body.Attempt, true
	r.used.ModelCalls++
	r.used.UnknownUsage++
}

// refuse says why an attempt should not have been granted; empty if it should.
func (op *operation) refuse(b body) string {
	switch {
	case b.Operation != op.name:
		return fmt.Sprintf("which is %.40q and was %.40q", b.Operation, op.name)
	case op.open:
		return fmt.Sprintf("while attempt %d is not recorded", op.attempts)
	case op.succeeded:
		return fmt.Sprintf("after attempt %d succeeded", op.attempts)
	case b.Attempt != op.attempts+1:
		return fmt.Sprintf("after attempt %d", op.attempts)
	case b.Attempt > mostAttempts(op.name):
		return fmt.Sprintf("and %.40s may have %d", op.name, mostAttempts(op.name))
	case neverRetried(op.failure):
		return fmt.Sprintf("after one that failed as %s", op.failure)
	}
	return ""
}

// record ends an attempt and adds up what it used, where that is known.
func (c *counter) record(r *run, f *fact) {
	op := r.operations[f.body.OperationID]
	if op == nil || !op.open || op.attempts != f.body.Attempt || op.name != f.body.Operation {
		c.violation("%s records attempt %d of %.40s %.80q, which is not under way", f, f.body.Attempt, f.body.Operation, f.body.OperationID)
		return
	}
	op.open, op.failure, op.succeeded = false, f.body.Failure, f.body.Outcome == "SUCCEEDED"
	if failed := f.body.Outcome == "FAILED"; failed == op.succeeded || failed != (op.failure != "") {
		c.violation("%s: outcome %.40q with failure %.40q", f, f.body.Outcome, f.body.Failure)
	}
	if u := f.body.Usage; u != nil {
		r.used.UnknownUsage--
		r.used.InputTokens += u.InputTokens
		r.used.OutputTokens += u.OutputTokens
		r.used.TotalTokens += max(u.TotalTokens, u.InputTokens+u.OutputTokens)
	}
}

// checkUsage holds that a run ends with what its facts add up to.
func (c *counter) checkUsage(r *run, f *fact) {
	var told usage
	if f.body.Usage != nil {
		told = *f.body.Usage
	}
	if told != r.used {
		c.violation("%s: its model calls, tokens and unknown usage are %+v, and its facts add up to %+v", f, told, r.used)
	}
}

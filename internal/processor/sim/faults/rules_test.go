package faults

// ruleFaults are faults in the pure core.
func ruleFaults() []fault {
	const core = "internal/harness/"
	return []fault{
		{
			name: "due facts advance the applied inbound sequence", wrong: "a crash before the decision loses the event",
			file: core + "apply.go", seeds: 200,
			old: "	if f.Cause.Decision {\n		run.Inbound = f.Cause.Sequence\n	}",
			new: "	run.Inbound = f.Cause.Sequence",
		},
		{
			name: "time goes back", wrong: "a fact is of an instant before the one before it",
			file: core + "rules.go", seeds: 500,
			old: `if run != nil && run.At.After(now) {`,
			new: `if run != nil && run.At.IsZero() {`,
		},
		{
			name: "a decision before its event", wrong: "a slow clock decides at an instant before the event was stored",
			file: core + "rules.go", seeds: 200,
			old: `if in != nil && in.Time.After(now) {`,
			new: `if in != nil && in.Time.IsZero() {`,
		},
		{
			name: "a settled call settles again", wrong: "a second result is taken for the first",
			file: core + "settle.go", seeds: 500,
			old: `case call.Status == events.StatusProjecting:`,
			new: `case call.Status != "":`,
		},
		{
			name: "a second settlement is applied", wrong: "a call that timed out is settled by its late result as well",
			file: core + "settle.go", seeds: 500,
			old: `case isCause(call.ResultCause, in):`,
			new: `case call.Status == events.StatusReady || isCause(call.ResultCause, in):`,
		},
		{
			name: "late results are told again", wrong: "each late result of a call is a fact",
			file: core + "settle.go", seeds: 500,
			old: `now, lateKey(call), &events.ToolLate{`,
			new: `now, inboundKey(in)+lateKey(call), &events.ToolLate{`,
		},
		{
			name: "any executor settles", wrong: "an executor that was not given the call settles it",
			file: core + "settle.go", seeds: 500,
			old: `case call.Executor != in.Principal:`,
			new: `case in.Principal == "":`,
		},
		{
			name: "budget is counted at the settlement", wrong: "more calls are open at once than the run may make",
			file: core + "apply.go", seeds: 200,
			old: `	addToolCall(&r.Usage, p.Tool, p.RequestBytes)`,
			new: `	r.Usage.RunBytes += p.RequestBytes`,
			also: []edit{{
				old: `	r.Calls[p.Status]++`,
				new: "	r.Calls[p.Status]++\n	addToolCall(&r.Usage, p.Tool, 0)",
			}},
		},
		{
			name: "calls per tool are not limited", wrong: "one tool takes the budget of all",
			file: core + "budget.go", seeds: 200,
			old: `exceeds(LimitCallsPerTool, limits.CallsPerTool, used.CallsByTool[tool], 1)`,
			new: `exceeds(LimitCallsPerTool, limits.CallsPerTool+1, used.CallsByTool[tool], 1)`,
		},
		{
			name: "run bytes leave the agent result out", wrong: "a run carries more bytes than it may",
			file: core + "apply.go", seeds: 200,
			old: `	counted := int64(len(p.Result))`,
			new: `	counted := int64(0)`,
		},
		{
			name: "tokens may pass their limit", wrong: "reported usage past a limit ends nothing",
			file: core + "models.go", seeds: 500,
			old: `		recorded.Limit = string(passedByTokens(s.Run.Limits, s.Run.Usage, *p.Usage))`,
			new: `		_ = passedByTokens(s.Run.Limits, s.Run.Usage, *p.Usage)`,
		},
		{
			name: "any failure is retried", wrong: "an attempt is granted after a failure that no policy lists",
			file: core + "retry.go", seeds: 500,
			old: `op.Attempts < policy.MaxAttempts && policy.Retryable(op.Failure)`,
			new: `op.Attempts < policy.MaxAttempts`,
		},
		{
			name: "a run ends with open calls", wrong: "run.progress comes before every call has settled",
			file: core + "due.go", seeds: 500,
			old: `	if len(run.Open) > 0 {`,
			new: `	if len(run.Open) > 1 {`,
		},
		{
			name: "a released run goes on", wrong: "a run that was released reserves further calls",
			file: core + "preflight.go", seeds: 1000,
			old: `	if c.state.Run.Released != "" {`,
			new: `	if c.state.Run.Released == "NEVER" {`,
			also: []edit{{
				file: core + "apply.go",
				old:  `r.Exhausted != "" || r.Released != "" || r.openCall(p.ToolCallID) != nil`,
				new:  `r.Exhausted != "" || r.openCall(p.ToolCallID) != nil`,
			}},
		},
		{
			name: "a used id is reserved again", wrong: "one key has two reservations",
			file: core + "preflight.go", seeds: 500,
			old: `	if c.state.record(c.call.ToolCallID) != nil {`,
			new: `	if c.state.Run.openCall(c.call.ToolCallID) != nil {`,
		},
		{
			name: "an event that comes again is answered again", wrong: "the event that reserved a call is told that it is a duplicate",
			file: core + "preflight.go", seeds: 500,
			old: `	return record != nil && isCause(record.Cause, in)`,
			new: `	return record != nil && isCause(record.Cause, in) && in.Sequence == 0`,
		},
		{
			name: "claims rest on nothing", wrong: "a report is accepted whose calls found nothing",
			file: "internal/progress/check.go", seeds: 1000,
			old: `	case call.Evidence == events.EvidenceNone && !claim.Negative:`,
			new: `	case call.Evidence == "" && !claim.Negative:`,
		},
	}
}

package audit

import (
	"testing"

	"runledger/internal/events"
)

func granted(op events.Operation, id string, attempt int) events.Payload {
	return &events.ModelGranted{Operation: op, OperationID: id, Attempt: attempt}
}

func succeeded(op events.Operation, id string, attempt int, usage *events.TokenUsage) events.Payload {
	return &events.ModelRecorded{Operation: op, OperationID: id, Attempt: attempt, Outcome: events.AttemptSucceeded, Usage: usage}
}

func failedAs(op events.Operation, id string, attempt int, failure events.FailureClass) events.Payload {
	return &events.ModelRecorded{Operation: op, OperationID: id, Attempt: attempt, Outcome: events.AttemptFailed, Failure: failure}
}

const (
	router = events.OperationIntentRouter
	guard  = events.OperationSemanticGuard
	agent  = events.OperationDiagnosisAgent
	repair = events.OperationEvidenceRepair
)

func TestModelsReportsAndReleasesOfAWholeRunAreNoViolation(t *testing.T) {
	p := newTape(t)
	p.fact("r", 1, started())
	p.fact("r", 2, granted(router, "route", 1))
	p.fact("r", 3, failedAs(router, "route", 1, events.FailureTransport))
	p.fact("r", 4, granted(router, "route", 2))
	p.fact("r", 5, granted(agent, "turn-1", 1)) // operations go side by side
	p.fact("r", 6, succeeded(router, "route", 2, &events.TokenUsage{InputTokens: 10, OutputTokens: 2}))
	p.fact("r", 7, succeeded(agent, "turn-1", 1, &events.TokenUsage{InputTokens: 30, OutputTokens: 4, TotalTokens: 50}))
	p.fact("r", 8, &events.ModelRejected{Operation: agent, OperationID: "turn-1", Intent: events.VerbModelCall, Code: events.CodeRetryNotAllowed})
	p.fact("r", 9, reserved("c"))
	p.send("x", "r", 9, "c")
	p.fact("r", 10, granted(repair, "mend", 1))
	p.fact("r", 11, &events.ProgressAccepted{Step: 1})
	p.fact("r", 12, &events.ProgressInvalid{Step: 2, Code: events.InvalidProgressProtocol})
	p.fact("r", 13, &events.RunReleased{Reason: events.ReleaseProtocolViolated})
	p.fact("r", 14, ready("c", 9)) // what is under way may end
	p.fact("r", 15, rejected("d", events.CodeRunReleased))
	p.fact("r", 16, &events.ProgressAccepted{Step: 2, Final: true})
	p.fact("r", 17, ending())
	p.fact("r", 18, &events.RunProgress{Steps: 2, Final: true, Observed: []events.Observation{{ToolCallID: "c", Call: 9, Evidence: events.EvidenceFound}}})
	p.fact("r", 19, terminated(events.Usage{
		ModelCalls: 4, InputTokens: 40, OutputTokens: 6, TotalTokens: 62, UnknownUsage: 2, // the failed one, and the one that nobody reported
	}))
	report := countTape(t, jetStream(t), p)
	if !report.OK() {
		t.Errorf("violations: %q", report.Violations)
	}
	if report.Calls != 2 || report.Reserved != 1 || report.Rejected["RUN_RELEASED"] != 1 || report.Facts != 19 {
		t.Errorf("got %+v, want one call reserved and one refused of two, in 19 facts", report)
	}
}

func TestEachBrokenPromiseOfModelsAndProgressIsFound(t *testing.T) {
	js := jetStream(t)
	calls := func(n int64) events.Usage { return events.Usage{ModelCalls: n, UnknownUsage: n} }
	released := &events.RunReleased{Reason: events.ReleaseStalled}
	for _, c := range []struct {
		name  string
		write func(p *tape) // from fact 2 on
		want  []string
	}{
		{"granted while one is under way", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, granted(router, "o", 2))
			p.end("r", 4, calls(2))
		}, []string{`fact 3 (model.granted) of run r grants attempt 2 of "o", while attempt 1 is not recorded`}},
		{"granted again after success", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, succeeded(router, "o", 1, nil))
			p.fact("r", 4, granted(router, "o", 2))
			p.end("r", 5, calls(2))
		}, []string{`fact 4 (model.granted) of run r grants attempt 2 of "o", after attempt 1 succeeded`}},
		{"granted out of order", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 2))
			p.end("r", 3, calls(1))
		}, []string{`fact 2 (model.granted) of run r grants attempt 2 of "o", after attempt 0`}},
		{"granted as another operation", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, failedAs(router, "o", 1, events.FailureTimeout))
			p.fact("r", 4, granted(guard, "o", 2))
			p.end("r", 5, calls(2))
		}, []string{`fact 4 (model.granted) of run r grants attempt 2 of "o", which is "SEMANTIC_GUARD" and was "INTENT_ROUTER"`}},
		{"a third attempt", func(p *tape) {
			p.fact("r", 2, granted(guard, "o", 1))
			p.fact("r", 3, failedAs(guard, "o", 1, events.FailureTimeout))
			p.fact("r", 4, granted(guard, "o", 2))
			p.fact("r", 5, failedAs(guard, "o", 2, events.FailureTimeout))
			p.fact("r", 6, granted(guard, "o", 3))
			p.end("r", 7, calls(3))
		}, []string{`fact 6 (model.granted) of run r grants attempt 3 of "o", and SEMANTIC_GUARD may have 2`}},
		{"a second attempt of the agent", func(p *tape) {
			p.fact("r", 2, granted(agent, "o", 1))
			p.fact("r", 3, failedAs(agent, "o", 1, events.FailureTransport))
			p.fact("r", 4, granted(agent, "o", 2))
			p.end("r", 5, calls(2))
		}, []string{`fact 4 (model.granted) of run r grants attempt 2 of "o", and DIAGNOSIS_AGENT may have 1`}},
		{"a retry of what is never retried", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, failedAs(router, "o", 1, events.FailureNoEvidence))
			p.fact("r", 4, granted(router, "o", 2))
			p.end("r", 5, calls(2))
		}, []string{`fact 4 (model.granted) of run r grants attempt 2 of "o", after one that failed as NO_EVIDENCE`}},
		{"recorded without a grant", func(p *tape) {
			p.fact("r", 2, succeeded(router, "o", 1, nil))
			p.end("r", 3)
		}, []string{`fact 2 (model.recorded) of run r records attempt 1 of INTENT_ROUTER "o", which is not under way`}},
		{"recorded twice", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, succeeded(router, "o", 1, &events.TokenUsage{InputTokens: 1}))
			p.fact("r", 4, succeeded(router, "o", 1, &events.TokenUsage{InputTokens: 1}))
			p.end("r", 5, events.Usage{ModelCalls: 1, InputTokens: 1, TotalTokens: 1})
		}, []string{`fact 4 (model.recorded) of run r records attempt 1 of INTENT_ROUTER "o", which is not under way`}},
		{"another attempt recorded", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, succeeded(router, "o", 2, nil))
			p.end("r", 4, calls(1))
		}, []string{`fact 3 (model.recorded) of run r records attempt 2 of INTENT_ROUTER "o", which is not under way`}},
		{"a success with a failure", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, &events.ModelRecorded{Operation: router, OperationID: "o", Attempt: 1, Outcome: events.AttemptSucceeded, Failure: events.FailureTimeout})
			p.end("r", 4, calls(1))
		}, []string{`fact 3 (model.recorded) of run r: outcome "SUCCEEDED" with failure "TIMEOUT"`}},
		{"a failure without its class", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, failedAs(router, "o", 1, ""))
			p.end("r", 4, calls(1))
		}, []string{`fact 3 (model.recorded) of run r: outcome "FAILED" with failure ""`}},
		{"no such outcome", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, &events.ModelRecorded{Operation: router, OperationID: "o", Attempt: 1, Outcome: "MAYBE"})
			p.end("r", 4, calls(1))
		}, []string{`fact 3 (model.recorded) of run r: outcome "MAYBE" with failure ""`}},
		{"unknown usage told as zero", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, succeeded(router, "o", 1, nil))
			p.end("r", 4, events.Usage{ModelCalls: 1})
		}, []string{"fact 6 (run.terminated) of run r: its model calls, tokens and unknown usage are {ModelCalls:1 InputTokens:0 OutputTokens:0 TotalTokens:0 UnknownUsage:0}, and its facts add up to {ModelCalls:1 InputTokens:0 OutputTokens:0 TotalTokens:0 UnknownUsage:1}"}},
		{"tokens lost", func(p *tape) {
			p.fact("r", 2, granted(router, "o", 1))
			p.fact("r", 3, succeeded(router, "o", 1, &events.TokenUsage{InputTokens: 5, OutputTokens: 5}))
			p.end("r", 4, events.Usage{ModelCalls: 1, InputTokens: 5, TotalTokens: 10})
		}, []string{"fact 6 (run.terminated) of run r: its model calls, tokens and unknown usage are"}},
		{"reserved after the release", func(p *tape) {
			p.fact("r", 2, released)
			p.fact("r", 3, reserved("c"))
			p.fact("r", 4, ready("c", 3))
			p.end("r", 5)
		}, []string{"fact 3 (tool.reserved) of run r comes after run.released, fact 2"}},
		{"granted after the release", func(p *tape) {
			p.fact("r", 2, released)
			p.fact("r", 3, granted(router, "o", 1))
			p.end("r", 4, calls(1))
		}, []string{"fact 3 (model.granted) of run r comes after run.released, fact 2"}},
		{"released twice", func(p *tape) {
			p.fact("r", 2, released)
			p.fact("r", 3, released)
			p.end("r", 4)
		}, []string{"fact 3 (run.released) of run r: the run was released before, by fact 2"}},
		{"reserved after the ending", func(p *tape) {
			p.fact("r", 2, ending())
			p.fact("r", 3, reserved("c"))
			p.fact("r", 4, ready("c", 3))
			p.fact("r", 5, p.progress("r"))
			p.fact("r", 6, terminated())
		}, []string{"fact 3 (tool.reserved) of run r comes after run.ending, fact 2"}},
		{"ended twice", func(p *tape) {
			p.fact("r", 2, &events.RunEnding{Outcome: events.OutcomeSuccess})
			p.fact("r", 3, &events.RunEnding{Outcome: events.OutcomeFailed})
			p.fact("r", 4, p.progress("r"))
			p.fact("r", 5, terminated())
		}, []string{"fact 3 (run.ending) of run r comes after run.ending, fact 2"}},
		{"terminated without an ending", func(p *tape) {
			p.fact("r", 2, terminated())
		}, []string{"fact 2 (run.terminated) of run r comes without run.ending", "fact 2 (run.terminated) of run r comes without run.progress"}},
		{"terminated as another outcome", func(p *tape) {
			p.fact("r", 2, &events.RunEnding{Outcome: events.OutcomeFailed})
			p.fact("r", 3, p.progress("r"))
			p.fact("r", 4, terminated())
		}, []string{`fact 4 (run.terminated) of run r: outcome "SUCCESS", and run.ending said "FAILED"`}},
		{"no progress", func(p *tape) {
			p.fact("r", 2, ending())
			p.fact("r", 3, terminated())
		}, []string{"fact 3 (run.terminated) of run r comes without run.progress"}},
		{"progress twice", func(p *tape) {
			p.fact("r", 2, ending())
			p.fact("r", 3, p.progress("r"))
			p.fact("r", 4, p.progress("r"))
			p.fact("r", 5, terminated())
		}, []string{"fact 4 (run.progress) of run r: the run's progress was told before"}},
		{"progress before the ending", func(p *tape) {
			p.fact("r", 2, p.progress("r"))
			p.fact("r", 3, ending())
			p.fact("r", 4, terminated())
		}, []string{"fact 2 (run.progress) of run r comes before run.ending"}},
		{"a failed call observed", func(p *tape) {
			p.fact("r", 2, reserved("c"))
			p.fact("r", 3, &events.ToolSettled{ToolCallID: "c", Call: 2, Status: events.StatusError, Evidence: events.EvidenceError})
			p.fact("r", 4, ending())
			p.fact("r", 5, &events.RunProgress{Observed: []events.Observation{{ToolCallID: "c", Call: 2, Evidence: events.EvidenceFound}}})
			p.fact("r", 6, terminated())
		}, []string{`fact 5 (run.progress) of run r observes call 2, "c", with EVIDENCE_FOUND, which is not what it came to`}},
		{"no evidence observed as evidence", func(p *tape) {
			p.fact("r", 2, reserved("c"))
			p.fact("r", 3, &events.ToolSettled{ToolCallID: "c", Call: 2, Status: events.StatusReady, Evidence: events.EvidenceNone, Result: []byte("[]")})
			p.fact("r", 4, ending())
			p.fact("r", 5, &events.RunProgress{Observed: []events.Observation{{ToolCallID: "c", Call: 2, Evidence: events.EvidenceFound}}})
			p.fact("r", 6, terminated())
		}, []string{`fact 5 (run.progress) of run r observes call 2, "c", with EVIDENCE_FOUND, which is not what it came to`}},
		{"observed out of order", func(p *tape) {
			p.fact("r", 2, reserved("c"))
			p.fact("r", 3, reserved("d"))
			p.fact("r", 4, ready("d", 3))
			p.fact("r", 5, ready("c", 2))
			p.fact("r", 6, ending())
			p.fact("r", 7, &events.RunProgress{Observed: []events.Observation{
				{ToolCallID: "d", Call: 3, Evidence: events.EvidenceFound}, {ToolCallID: "c", Call: 2, Evidence: events.EvidenceFound},
			}})
			p.fact("r", 8, terminated())
		}, []string{"fact 7 (run.progress) of run r observes call 2 after call 3"}},
		{"a settled call in silence", func(p *tape) {
			p.fact("r", 2, reserved("c"))
			p.fact("r", 3, ready("c", 2))
			p.fact("r", 4, ending())
			p.fact("r", 5, &events.RunProgress{})
			p.fact("r", 6, terminated())
		}, []string{"fact 5 (run.progress) of run r tells of 0 calls, and 1 were settled"}},
		{"a step left out", func(p *tape) {
			p.fact("r", 2, &events.ProgressAccepted{Step: 2})
			p.fact("r", 3, ending())
			p.fact("r", 4, &events.RunProgress{Steps: 2})
			p.fact("r", 5, terminated())
		}, []string{"fact 2 (progress.accepted) of run r accepts step 2 after step 0 (final: false)"}},
		{"a step after the final one", func(p *tape) {
			p.fact("r", 2, &events.ProgressAccepted{Step: 1, Final: true})
			p.fact("r", 3, &events.ProgressAccepted{Step: 2})
			p.fact("r", 4, ending())
			p.fact("r", 5, &events.RunProgress{Steps: 2})
			p.fact("r", 6, terminated())
		}, []string{"fact 3 (progress.accepted) of run r accepts step 2 after step 1 (final: true)"}},
		{"progress of steps that were not accepted", func(p *tape) {
			p.fact("r", 2, &events.ProgressAccepted{Step: 1})
			p.fact("r", 3, ending())
			p.fact("r", 4, &events.RunProgress{Steps: 1, Final: true})
			p.fact("r", 5, terminated())
		}, []string{"fact 4 (run.progress) of run r tells of 1 steps (final: true), and 1 were accepted (final: false)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTape(t)
			p.fact("r", 1, started())
			c.write(p)
			expect(t, countTape(t, js, p), c.want)
		})
	}
}

package harness_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"runledger/internal/events"
)

// What the principals of r1 say, each a new event, and what they are told.

const minute = `"2026-01-01T12:01:00Z"` // the deadline that most runs have

func limitsJSON(changes ...string) string {
	all := []string{`"model_calls":10`, `"tool_calls":10`, `"calls_per_tool":10`, `"input_tokens":10`, `"output_tokens":10`, `"total_tokens":10`, `"run_bytes":100000`}
	for _, change := range changes {
		name, _, _ := strings.Cut(change, ":")
		for i := range all {
			if strings.HasPrefix(all[i], name+":") {
				all[i] = change
			}
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

func startData(run, deadline, limits string) string {
	return fmt.Sprintf(`{"run_id":%q,"session_id":"s1","deadline":%s,"limits":%s}`, run, deadline, limits)
}

func callData(run, call, tool, arguments string) string {
	return fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"tool":%q,"arguments":%s}`, run, call, tool, arguments)
}

func resultData(run, call, dispatch, rest string) string {
	return fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"dispatch_id":%q,%s}`, run, call, dispatch, rest)
}

func succeeded(raw string) string { return `"outcome":"SUCCEEDED","result":` + raw }

func (d *driver) agent(name, run string, verb events.Verb, data string) []step {
	d.tb.Helper()
	return d.deliver(d.message(events.RoleAgent, name, run, verb, data))
}

// start lets alice start r1 with a minute, and limits that a test changes.
func (d *driver) start(limits ...string) []step {
	d.tb.Helper()
	return d.agent("alice", "r1", events.VerbRunStart, startData("r1", minute, limitsJSON(limits...)))
}

// call lets alice call a tool in r1.
func (d *driver) call(id, tool, arguments string) []step {
	d.tb.Helper()
	return d.agent("alice", "r1", events.VerbToolCall, callData("r1", id, tool, arguments))
}

// result lets an executor answer a call of r1 by its true dispatch.
func (d *driver) result(executor, id, rest string) []step {
	d.tb.Helper()
	return d.resultOf(executor, id, d.dispatch(id), rest)
}

func (d *driver) resultOf(executor, id, dispatch, rest string) []step {
	d.tb.Helper()
	return d.deliver(d.message(events.RoleExecutor, executor, "r1", events.VerbToolResult, resultData("r1", id, dispatch, rest)))
}

// dispatch is the dispatch id of a call of r1, as the processor gave it.
func (d *driver) dispatch(id string) string {
	return "r1." + strconv.FormatUint(d.records["r1"][id].Call, 10)
}

// model lets alice ask for an attempt of a model operation in r1.
func (d *driver) model(id, operation string) []step {
	d.tb.Helper()
	return d.agent("alice", "r1", events.VerbModelCall, modelData("r1", id, operation))
}

func modelData(run, id, operation string) string {
	return fmt.Sprintf(`{"run_id":%q,"operation":%q,"operation_id":%q}`, run, operation, id)
}

// modelReport lets alice tell how an attempt in r1 ended.
func (d *driver) modelReport(id, operation string, attempt int, rest string) []step {
	d.tb.Helper()
	return d.agent("alice", "r1", events.VerbModelReport, modelReportData("r1", id, operation, attempt, rest))
}

func modelReportData(run, id, operation string, attempt int, rest string) string {
	return fmt.Sprintf(`{"run_id":%q,"operation":%q,"operation_id":%q,"attempt":%d,%s}`, run, operation, id, attempt, rest)
}

func failedWith(class events.FailureClass) string {
	return `"outcome":"FAILED","failure":"` + string(class) + `","usage":null`
}

func usedTokens(input, output int) string {
	return fmt.Sprintf(`"outcome":"SUCCEEDED","usage":{"input_tokens":%d,"output_tokens":%d}`, input, output)
}

// report lets alice report a step of r1; claims are written by claim.
func (d *driver) report(step int, claims ...string) []step {
	d.tb.Helper()
	return d.agent("alice", "r1", events.VerbProgressReport, reportData("r1", step, false, claims...))
}

// lastReport is a final report.
func (d *driver) lastReport(step int, claims ...string) []step {
	d.tb.Helper()
	return d.agent("alice", "r1", events.VerbProgressReport, reportData("r1", step, true, claims...))
}

func reportData(run string, step int, final bool, claims ...string) string {
	return fmt.Sprintf(`{"run_id":%q,"step":%d,"claims":[%s],"final":%t}`, run, step, strings.Join(claims, ","), final)
}

// claim is a claim that these calls support; one that begins with "no " is
// negative.
func claim(text string, supports ...string) string {
	ids := make([]string, len(supports))
	for i, id := range supports {
		ids[i] = strconv.Quote(id)
	}
	return fmt.Sprintf(`{"text":%q,"negative":%t,"supports":[%s]}`, text, strings.HasPrefix(text, "no "), strings.Join(ids, ","))
}

func (d *driver) finish(outcome string) []step {
	d.tb.Helper()
	return d.agent("alice", "r1", events.VerbRunFinish, `{"run_id":"r1","outcome":"`+outcome+`"}`)
}

func (d *driver) cancel(reason string) []step {
	d.tb.Helper()
	return d.agent("alice", "r1", events.VerbRunCancel, `{"run_id":"r1","reason":"`+reason+`"}`)
}

func (d *driver) operatorCancels(reason string) []step {
	d.tb.Helper()
	return d.deliver(d.message(events.RoleOperator, "olga", "r1", events.VerbRunCancel, `{"run_id":"r1","reason":"`+reason+`"}`))
}

func (d *driver) tick() []step {
	d.tb.Helper()
	return d.deliver(d.message(events.RoleTimer, "", "r1", events.VerbTick, ""))
}

// brief tells steps in a few words, for instance
// "tool.settled ERROR TOOL_TIMEOUT due".
func brief(steps []step) []string {
	out := make([]string, 0, len(steps))
	for _, s := range steps {
		out = append(out, s.brief())
	}
	return out
}

func (s step) brief() string {
	switch {
	case s.fact == nil && s.reason == "":
		return "nothing"
	case s.fact == nil:
		return "invalid " + string(s.reason)
	}
	words := []string{string(s.fact.Kind())}
	switch p := s.fact.Payload.(type) {
	case *events.RunRejected:
		words = append(words, string(p.Code))
	case *events.ToolRejected:
		words = append(words, string(p.Code))
	case *events.ToolSettled:
		words = append(words, string(p.Status))
		if p.Status == events.StatusReady {
			words = append(words, string(p.Evidence))
		} else {
			words = append(words, string(p.Code))
		}
	case *events.ModelGranted:
		words = append(words, strconv.Itoa(p.Attempt))
	case *events.ModelRejected:
		words = append(words, string(p.Code))
	case *events.ModelRecorded:
		words = append(words, string(p.Outcome))
	case *events.ProgressAccepted:
		words = append(words, strconv.Itoa(p.Step))
	case *events.ProgressInvalid:
		words = append(words, violationCodes(p)...)
	case *events.RunReleased:
		words = append(words, string(p.Reason))
	case *events.RunEnding:
		words = append(words, string(p.Outcome))
	case *events.RunTerminated:
		words = append(words, string(p.Outcome))
	}
	if s.fact.Sequence == 0 {
		words = append(words, "outside")
	}
	if !s.fact.Cause.Decision {
		words = append(words, "due")
	}
	return strings.Join(words, " ")
}

// violationCodes gives what a report was told to be wrong with, or why it was
// refused.
func violationCodes(p *events.ProgressInvalid) (codes []string) {
	for _, v := range p.Violations {
		codes = append(codes, string(v.Code))
	}
	if codes == nil {
		codes = []string{p.Code}
	}
	return codes
}

// expect compares steps, told briefly, with what a test wrote down.
func expect(tb testing.TB, what string, got []step, want ...string) {
	tb.Helper()
	if told := brief(got); !slices.Equal(told, want) {
		tb.Errorf("%s:\n got %q\nwant %q", what, told, want)
	}
}

// payload gives the payload of the only step, or of the one at index at.
func payload[P events.Payload](tb testing.TB, steps []step, at int) P {
	tb.Helper()
	if at >= len(steps) || steps[at].fact == nil {
		tb.Fatalf("want a fact at %d, got %q", at, brief(steps))
	}
	p, ok := steps[at].fact.Payload.(P)
	if !ok {
		tb.Fatalf("want another kind of fact at %d, got %q", at, brief(steps))
	}
	return p
}

func TestAnEventWithNeitherDataNorProblemIsRefusedAsOneThatDoesNotFit(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	for verb, want := range map[events.Verb]string{
		events.VerbToolCall: "INVALID_ENVELOPE", events.VerbModelCall: "INVALID_ENVELOPE", events.VerbModelReport: "INVALID_ENVELOPE",
		events.VerbProgressReport: "INVALID_ENVELOPE", events.VerbRunCancel: "INVALID_ENVELOPE", events.VerbToolResult: "INVALID_DATA",
	} {
		in := &events.Inbound{Address: events.Address{Role: events.RoleAgent, Principal: "alice", Run: "r1", Verb: verb}, Sequence: 9, ID: "e9", Source: "/a"}
		decision := d.rules.Decide(d.load("r1", in), in, noon)
		got := answer(step{fact: decision.Fact, reason: decision.DeadLetter})
		if got != want || decision.Detail != "no data" {
			t.Errorf("%s: %s (%s), want %s (no data)", verb, got, decision.Detail, want)
		}
	}
}

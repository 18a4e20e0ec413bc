package harness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// TestRealShapes is what model providers, frameworks and people really send, and
// what becomes of it. Tool call ids as they come stand in
// testdata/tool-call-ids.jsonl.
func TestRealShapes(t *testing.T) {
	for name, shape := range realShapes() {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, shapeRules())
			d.start(`"tool_calls":128`, `"calls_per_tool":1000`, `"run_bytes":1000000000`)
			expect(t, name, shape.send(d), shape.want...)
		})
	}
}

// shapeRules has a tool whose name comes from a server's, and no input schema.
func shapeRules() *harness.Rules {
	rules := testRules()
	for _, name := range []string{"search", "mcp/files.read_v1.2"} {
		rules.Policy.Tools[name] = harness.Tool{Name: name, Executor: "web", ReadOnly: true, Timeout: 10 * time.Second, Projector: projectorFunc(echo)}
	}
	rules.Policy.Grants["alice"] = append(rules.Policy.Grants["alice"], "mcp/files.read_v1.2")
	rules.Policy.Bytes = harness.ByteLimits{Request: 1 << 20, RawResponse: 1 << 20, Record: 1 << 21, AgentResult: 1 << 16}
	return rules
}

type realShape struct {
	send func(*driver) []step
	want []string
}

func realShapes() map[string]realShape {
	shapes := map[string]realShape{}
	for _, some := range []map[string]realShape{argumentShapes(), callShapes(), resultShapes(), startShapes(), endShapes(), usageShapes()} {
		for name, shape := range some {
			shapes[name] = shape
		}
	}
	return shapes
}

func argumentShapes() map[string]realShape {
	args := func(arguments, want string) realShape {
		return realShape{func(d *driver) []step { return d.call("c1", "search", arguments) }, []string{want}}
	}
	return map[string]realShape{
		"arguments of an object":             args(`{"q":"x"}`, "tool.reserved"),
		"arguments of no members":            args(`{}`, "tool.reserved"),
		"arguments of an empty string":       args(`""`, "tool.rejected INVALID_INPUT"),
		"arguments of null":                  args(`null`, "tool.rejected INVALID_INPUT"),
		"arguments of an array":              args(`[{"q":"x"}]`, "tool.rejected INVALID_INPUT"),
		"arguments of a string that is JSON": args(`"{\"q\":\"x\"}"`, "tool.rejected INVALID_INPUT"),
		"arguments of truncated JSON":        args(`{"q":"x`, "tool.rejected INVALID_ENVELOPE"),
		"arguments with a key twice":         args(`{"q":"x","q":"y"}`, "tool.rejected INVALID_ENVELOPE"),
		"a number of 400 digits":             args(`{"n":`+strings.Repeat("7", 400)+`}`, "tool.reserved"),
		"a number of 1e400":                  args(`{"n":1e400}`, "tool.reserved"),
		"a depth of 10,000":                  args(`{"a":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)+`}`, "tool.rejected INVALID_ENVELOPE"),
		"a depth of 10,000 that never ends":  args(strings.Repeat(`{"a":`, 10_000), "tool.rejected INVALID_ENVELOPE"),
		"a lone surrogate":                   args(`{"q":"\ud83d"}`, "tool.rejected INVALID_ENVELOPE"),
		"a pair of surrogates":               args(`{"q":"\ud83d\ude00"}`, "tool.reserved"),
		"bytes that are no UTF-8":            args("{\"q\":\"\xff\"}", "tool.rejected INVALID_ENVELOPE"),
		"a NUL":                              args(`{"q":"\u0000"}`, "tool.reserved"),
		"NaN":                                args(`{"q":NaN}`, "tool.rejected INVALID_ENVELOPE"),
		"a trailing comma":                   args(`{"q":1,}`, "tool.rejected INVALID_ENVELOPE"),
		"single quotes":                      args(`{'q':1}`, "tool.rejected INVALID_ENVELOPE"),
		"arguments of a megabyte":            args(`{"q":"`+strings.Repeat("x", 1<<20)+`"}`, "tool.rejected REQUEST_TOO_LARGE"),
	}
}

func callShapes() map[string]realShape {
	return map[string]realShape{
		"a tool that nobody declared":       {func(d *driver) []step { return d.call("c1", "launch_missiles", `{}`) }, []string{"tool.rejected TOOL_NOT_FOUND"}},
		"a tool name with dots and slashes": {func(d *driver) []step { return d.call("c1", "mcp/files.read_v1.2", `{}`) }, []string{"tool.reserved"}},
		"a tool name of a subject":          {func(d *driver) []step { return d.call("c1", "harness.v1.>", `{}`) }, []string{"tool.rejected TOOL_NOT_FOUND"}},
		"a tool name in another case":       {func(d *driver) []step { return d.call("c1", "Search", `{}`) }, []string{"tool.rejected TOOL_NOT_FOUND"}},
		"one id for every call of a run": {func(d *driver) []step {
			d.call("call", "search", `{"q":1}`)
			return d.call("call", "search", `{"q":2}`)
		}, []string{"tool.rejected DUPLICATE_TOOL_CALL"}},
		"an id again in a later turn": {func(d *driver) []step {
			d.call("call_0", "search", `{"q":1}`)
			d.result("web", "call_0", succeeded(`[1]`))
			d.now = after(30 * time.Second)
			return d.call("call_0", "mcp/files.read_v1.2", `{"path":"/"}`)
		}, []string{"tool.rejected DUPLICATE_TOOL_CALL"}},
		"the same event twice": {func(d *driver) []step {
			m := d.message("agent", "alice", "r1", "tool.call", callData("r1", "c1", "search", `{}`))
			d.deliver(m)
			return d.deliver(d.again(m))
		}, []string{"nothing"}},
		"200 calls at once under a limit of 128": {func(d *driver) []step {
			var last []step
			reserved := 0
			for i := range 200 {
				steps := d.call(fmt.Sprintf("c%d", i), "search", `{}`)
				if first := steps[0].brief(); first == "tool.reserved" {
					reserved++
				} else if i == 128 {
					last = steps[:2]
				} else if first != "tool.rejected RUN_NOT_ACTIVE outside" || i < 128 {
					d.tb.Errorf("call %d: %s", i+1, first)
				}
			}
			if used := d.runs["r1"].Usage; reserved != 128 || used.ToolCalls != 128 || len(d.records["r1"]) != 128 {
				d.tb.Errorf("%d reserved, used %+v, want 128", reserved, used)
			}
			return last
		}, []string{"tool.rejected BUDGET_EXHAUSTED", "run.ending BUDGET_EXHAUSTED due"}},
	}
}

func resultShapes() map[string]realShape {
	of := func(rest, want string) realShape {
		return realShape{func(d *driver) []step { d.call("c1", "search", `{}`); return d.result("web", "c1", rest) }, []string{want}}
	}
	open := func(send func(*driver) []step, want ...string) realShape {
		return realShape{func(d *driver) []step { d.call("c1", "search", `{}`); return send(d) }, want}
	}
	expiry := after(time.Minute + 24*time.Hour)
	return map[string]realShape{
		"a result before its call": {func(d *driver) []step { return d.resultOf("web", "c1", "r1.2", succeeded(`1`)) }, []string{"invalid UNKNOWN_CALL"}},
		"two results for one call": open(func(d *driver) []step {
			d.result("web", "c1", succeeded(`1`))
			return append(d.result("web", "c1", succeeded(`2`)), d.result("web", "c1", succeeded(`3`))...)
		}, "tool.late outside", "invalid LATE_AGAIN"),
		"a result after the run has ended": open(func(d *driver) []step { d.finish("SUCCESS"); return d.result("web", "c1", succeeded(`1`)) }, "tool.late outside"),
		"a result after the record has expired": open(func(d *driver) []step {
			d.finish("SUCCESS")
			d.now = expiry
			return d.result("web", "c1", succeeded(`1`))
		}, "invalid EXPIRED_CALL"),
		"a result from another executor": open(func(d *driver) []step { return d.result("files", "c1", succeeded(`1`)) }, "invalid FOREIGN_EXECUTOR"),
		"a result for another run": open(func(d *driver) []step {
			return d.deliver(d.message("executor", "web", "r2", "tool.result", resultData("r2", "c1", "r1.2", succeeded(`1`))))
		}, "invalid UNKNOWN_RUN"),
		"a result whose data name another run": open(func(d *driver) []step {
			return d.deliver(d.message("executor", "web", "r1", "tool.result", resultData("r2", "c1", "r1.2", succeeded(`1`))))
		}, "invalid RUN_MISMATCH"),
		"a result of nothing":                                   of(`"outcome":"SUCCEEDED"`, "invalid INVALID_DATA"),
		"a result of null":                                      of(succeeded(`null`), "tool.settled READY NO_EVIDENCE"),
		"a result of an empty list":                             of(succeeded(`[]`), "tool.settled READY NO_EVIDENCE"),
		"a result of an empty string":                           of(succeeded(`""`), "tool.settled READY NO_EVIDENCE"),
		"a result of an empty object":                           of(succeeded(`{}`), "tool.settled READY NO_EVIDENCE"),
		"a result of 5 MB":                                      of(succeeded(`"`+strings.Repeat("x", 5_000_000)+`"`), "tool.settled ERROR RESULT_TOO_LARGE"),
		"a result of 5 MB, not published":                       of(`"outcome":"TOO_LARGE","size":5000002`, "tool.settled ERROR RESULT_TOO_LARGE"),
		"a result that is too large and does not say how large": of(`"outcome":"TOO_LARGE"`, "invalid INVALID_DATA"),
		"an isError with content":                               of(succeeded(`{"content":[{"type":"text","text":"no such table"}],"isError":true}`), "tool.settled READY EVIDENCE_FOUND"), // the tool's projector judges it, see mcp
		"a failure with content":                                of(`"outcome":"FAILED","result":{"content":[{"type":"text","text":"down"}],"isError":true}`, "tool.settled ERROR TOOL_EXECUTION_FAILED"),
		"a failure that says nothing":                           of(`"outcome":"FAILED"`, "tool.settled ERROR TOOL_EXECUTION_FAILED"),
		"a result that is truncated JSON":                       of(`"outcome":"SUCCEEDED","result":{"a":`, "invalid INVALID_DATA"),
	}
}

func startShapes() map[string]realShape {
	start := func(deadline, limits, want string) realShape {
		return realShape{func(d *driver) []step {
			return d.agent("alice", "r2", events.VerbRunStart, startData("r2", deadline, limits))
		}, []string{want}}
	}
	limit := func(value, want string) realShape { return start(minute, limitsJSON(`"tool_calls":`+value), want) }
	return map[string]realShape{
		"a limit of one":                   limit("1", "run.started"),
		"a limit of zero":                  limit("0", "run.rejected INVALID_LIMITS outside"),
		"a negative limit":                 limit("-1", "run.rejected INVALID_LIMITS outside"),
		"a limit of null":                  limit("null", "run.rejected INVALID_LIMITS outside"),
		"a missing limit":                  start(minute, strings.Replace(limitsJSON(), `"tool_calls":10,`, "", 1), "run.rejected INVALID_LIMITS outside"),
		"no limits":                        start(minute, `{}`, "run.rejected INVALID_LIMITS outside"),
		"a limit of 2^63":                  limit("9223372036854775808", "run.rejected INVALID_ENVELOPE outside"),
		"a limit of 2^63-1":                limit("9223372036854775807", "run.rejected INVALID_LIMITS outside"), // above its ceiling
		"a limit of 1.5":                   limit("1.5", "run.rejected INVALID_ENVELOPE outside"),
		"a limit of text":                  limit(`"10"`, "run.rejected INVALID_ENVELOPE outside"),
		"a deadline in the past":           start(`"2025-12-31T23:59:59Z"`, limitsJSON(), "run.rejected INVALID_DEADLINE outside"),
		"a deadline of now":                start(`"2026-01-01T12:00:00Z"`, limitsJSON(), "run.rejected INVALID_DEADLINE outside"),
		"a deadline far away":              start(`"2126-01-01T12:00:00Z"`, limitsJSON(), "run.rejected INVALID_DEADLINE outside"),
		"a deadline without zone":          start(`"2026-01-01T12:01:00"`, limitsJSON(), "run.rejected INVALID_ENVELOPE outside"),
		"a deadline of seconds":            start(`1767268860`, limitsJSON(), "run.rejected INVALID_ENVELOPE outside"),
		"no deadline":                      start(`null`, limitsJSON(), "run.rejected INVALID_ENVELOPE outside"),
		"a second start by the same agent": {func(d *driver) []step { return d.start() }, []string{"run.rejected RUN_ALREADY_EXISTS outside"}},
		"a second start by another agent": {func(d *driver) []step {
			return d.agent("bob", "r1", events.VerbRunStart, startData("r1", minute, limitsJSON()))
		}, []string{"run.rejected RUN_ALREADY_EXISTS outside"}},
		"a start after the run has ended": {func(d *driver) []step { d.finish("FAILED"); return d.start() }, []string{"run.rejected RUN_ALREADY_EXISTS outside"}},
	}
}

func endShapes() map[string]realShape {
	return map[string]realShape{
		"a finish while calls are open": {func(d *driver) []step {
			d.call("c1", "search", `{}`)
			d.call("c2", "search", `{}`)
			return d.finish("SUCCESS")
		}, []string{"run.ending SUCCESS", "tool.settled ERROR RUN_TERMINATED due", "tool.settled ERROR RUN_TERMINATED due", "run.progress due", "run.terminated SUCCESS due"}},
		"a cancel of a finished run":      {func(d *driver) []step { d.finish("SUCCESS"); return d.cancel("USER_REQUESTED") }, []string{"run.rejected RUN_NOT_ACTIVE outside"}},
		"an operator's, of a finished":    {func(d *driver) []step { d.finish("SUCCESS"); return d.operatorCancels("OPERATOR_REQUESTED") }, []string{"invalid REFUSED_CANCEL"}},
		"a finish of a finished run":      {func(d *driver) []step { d.finish("SUCCESS"); return d.finish("SUCCESS") }, []string{"run.rejected RUN_NOT_ACTIVE outside"}},
		"an agent that plays an operator": {func(d *driver) []step { return d.cancel("OPERATOR_REQUESTED") }, []string{"run.rejected INVALID_ENVELOPE outside"}},
		"the same finish twice": {func(d *driver) []step {
			m := d.message("agent", "alice", "r1", "run.finish", `{"run_id":"r1","outcome":"SUCCESS"}`)
			d.deliver(m)
			return d.deliver(d.again(m))
		}, []string{"run.rejected RUN_NOT_ACTIVE outside"}},
	}
}

func usageShapes() map[string]realShape {
	used := func(usage string, want ...string) realShape {
		return realShape{func(d *driver) []step {
			d.model("o1", "DIAGNOSIS_AGENT")
			return d.modelReport("o1", "DIAGNOSIS_AGENT", 1, `"outcome":"SUCCEEDED","usage":`+usage)
		}, want}
	}
	return map[string]realShape{
		"usage of null":                     used(`null`, "model.recorded SUCCEEDED"),
		"usage of zero":                     used(`{"input_tokens":0,"output_tokens":0,"total_tokens":0}`, "model.recorded SUCCEEDED"),
		"usage at the limit":                used(`{"input_tokens":5,"output_tokens":5,"total_tokens":10}`, "model.recorded SUCCEEDED"),
		"usage above the limit":             used(`{"input_tokens":9,"output_tokens":9,"total_tokens":18}`, "model.recorded SUCCEEDED", "run.ending BUDGET_EXHAUSTED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due"),
		"negative usage":                    used(`{"input_tokens":-5,"output_tokens":1}`, "model.rejected INVALID_ENVELOPE"),
		"usage of 2^63":                     used(`{"input_tokens":9223372036854775808,"output_tokens":1}`, "model.rejected INVALID_ENVELOPE"),
		"usage that is half null":           used(`{"input_tokens":5,"output_tokens":null}`, "model.rejected INVALID_ENVELOPE"),
		"usage in one provider's own words": used(`{"prompt_tokens":5,"completion_tokens":5}`, "model.rejected INVALID_ENVELOPE"),
	}
}

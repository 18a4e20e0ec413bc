package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// What the first events name. docs/protocol.md uses other names, so that both
// can be followed in one sitting.
const (
	helloRun  = "hello"
	helloCall = "hello_1"
)

// first is the first events that somebody can paste, as a policy allows them.
type first struct {
	agent  string
	lasts  time.Duration // of the run, from the instant at which it is pasted
	limits events.Limits

	tool      *harness.Tool // nil where the policy has none that takes such arguments
	arguments string        // JSON
	result    string        // JSON of an answer, empty where none is known
}

// firstEvents finds what the policy lets somebody do: of the policy of the
// demonstration a call and its answer; of another the first tool, by name, that
// takes {} as arguments.
func firstEvents(p *harness.Policy, airline bool) first {
	f := first{agent: "me", lasts: min(30*time.Minute, p.LongestRun), limits: modestLimits(p.Ceilings)}
	agents := []string{"me"}
	for _, agent := range slices.Sorted(maps.Keys(p.Grants)) {
		if agent != "*" {
			agents = append(agents, agent)
		}
	}
	for _, agent := range agents {
		for _, name := range slices.Sorted(maps.Keys(p.Tools)) {
			tool, arguments, result := p.Tools[name], "{}", ""
			if airline && name == "calculate" {
				arguments, result = `{"expression":"1 + 1"}`, `"2.0"`
			}
			if tool.ReadOnly && p.Granted(agent, name) && (tool.Input == nil || tool.Input.Check([]byte(arguments)) == nil) {
				f.agent, f.tool, f.arguments, f.result = agent, &tool, arguments, result
				return f
			}
		}
	}
	return f
}

// modestLimits is enough for a first try, and within the ceilings.
func modestLimits(ceilings events.Limits) events.Limits {
	return events.Limits{
		ModelCalls: min(10, ceilings.ModelCalls), ToolCalls: min(10, ceilings.ToolCalls), CallsPerTool: min(10, ceilings.CallsPerTool),
		InputTokens: min(1000, ceilings.InputTokens), OutputTokens: min(1000, ceilings.OutputTokens),
		TotalTokens: min(2000, ceilings.TotalTokens), RunBytes: min(1_000_000, ceilings.RunBytes),
	}
}

// banner is what dev says once it runs.
type banner struct {
	nats, natsKind, redis, redisKind, policy string
	first                                    first
}

// String gives the banner. Each command in it is one line that can be pasted.
func (b banner) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "runledger is running; Ctrl-C ends it and removes its data.\n\n  nats    %s   (%s)\n  redis   %s   (%s)\n  policy  %s\n",
		b.nats, b.natsKind, b.redis, b.redisKind, b.policy)
	if b.redisKind == "miniredis" {
		out.WriteString("\nRedis is emulated: this machine has no redis-server. That is for trying only.\n")
	}
	subjects, _ := events.NewSubjects(events.DefaultPrefix) // a constant of ours
	f := b.first
	fmt.Fprintf(&out, "\nFollow the runs of the agent %q:\n\n  nats sub -s %s '%s'\n", f.agent, b.nats, subjects.Republished(f.agent))
	fmt.Fprintf(&out, "\nStart a run that has %s:\n\n%s", short(f.lasts), b.publish(subjects.Agent(f.agent, helloRun, events.VerbRunStart),
		"hello-start", "/"+f.agent, events.VerbRunStart, f.start()))
	if f.tool == nil {
		out.WriteString("\nThe policy has no tool that may be called with {} as arguments; docs/protocol.md shows a call.\n")
		return out.String()
	}
	call := b.publish(subjects.Agent(f.agent, helloRun, events.VerbToolCall), "hello-call", "/"+f.agent, events.VerbToolCall, f.call())
	if f.result == "" {
		fmt.Fprintf(&out, "\nCall a tool; unless an executor %q answers within %s, the call ends as TOOL_TIMEOUT:\n\n%s", f.tool.Executor, short(f.tool.Timeout), call)
	} else {
		answer := b.publish(subjects.Executor(f.tool.Executor, helloRun), "hello-result", "/"+f.tool.Executor, events.VerbToolResult, f.answer())
		fmt.Fprintf(&out, "\nCall a tool, and answer as its executor; it has %s, so paste both at once:\n\n%s%s", short(f.tool.Timeout), call, answer)
	}
	out.WriteString("\nEvents that cannot be decided are told here. docs/protocol.md goes on.\n")
	return out.String()
}

// short writes a duration without the parts that are zero: 30m, not 30m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// publish gives the command that publishes an event in structured mode. data is
// JSON, quoted for the shell already.
func (b banner) publish(subject, id, source string, verb events.Verb, data string) string {
	return fmt.Sprintf(`  nats pub -s %s %s '{"specversion":"1.0","id":%q,"source":%q,"type":%q,"data":%s}'`+"\n",
		b.nats, subject, id, source, verb.Type(), data)
}

// start is the data of the run's start. The shell works the deadline out when it
// is pasted, with GNU's date or BSD's.
func (f first) start() string {
	seconds := int(f.lasts.Seconds())
	const format = "+%Y-%m-%dT%H:%M:%SZ"
	deadline := fmt.Sprintf(`"'"$(date -u -d '+%d seconds' %s 2>/dev/null || date -u -v+%dS %s)"'"`, seconds, format, seconds, format)
	limits, _ := json.Marshal(f.limits) // numbers only
	return fmt.Sprintf(`{"run_id":%q,"session_id":"first","deadline":%s,"limits":%s}`, helloRun, deadline, limits)
}

func (f first) call() string {
	return fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"tool":%s,"arguments":%s}`, helloRun, helloCall, inShell(f.tool.Name), f.arguments)
}

func (f first) answer() string {
	return fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"dispatch_id":%q,"outcome":"SUCCEEDED","result":%s}`,
		helloRun, helloCall, events.DispatchID(helloRun, 2), f.result)
}

// inShell writes a text as JSON that stands within single quotes of a shell.
func inShell(text string) string {
	encoded, _ := json.Marshal(text) // a text always can be written
	return strings.ReplaceAll(string(encoded), "'", `'\''`)
}

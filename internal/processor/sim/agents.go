package sim

import (
	"fmt"
	"time"

	"runledger/internal/events"

	"github.com/nats-io/nats.go"
)

// agents publish intents, well-meant and not.
type agents struct {
	w    *world
	next int
	runs []*agentRun
}

type agentRun struct {
	id       string
	owner    string
	deadline time.Time
	limits   string
	calls    int
	step     int
}

const maxRuns = 8

func newAgents(w *world) *agents { return &agents{w: w} }

// act publishes one intent.
func (a *agents) act() {
	w := a.w
	if len(a.runs) < maxRuns && (len(a.runs) == 0 || w.chance(0.2)) {
		a.start()
		return
	}
	run := a.runs[w.random.IntN(len(a.runs))]
	if w.chance(0.7) { // rather one of the latest
		run = a.runs[len(a.runs)-1-w.random.IntN(min(3, len(a.runs)))]
	}
	who := run.owner
	if w.chance(0.05) {
		who = "mallory"
	}
	switch n := w.random.IntN(40); {
	case n < 22:
		a.call(run, who)
	case n < 29:
		a.model(run, who)
	case n < 35:
		a.report(run, who)
	case n == 35:
		a.send(who, run.id, events.VerbRunFinish, fmt.Sprintf(`{"run_id":%q,"outcome":%q}`, run.id, []string{"SUCCESS", "FAILED"}[w.random.IntN(2)]))
	case n == 36:
		a.cancel(run, who)
	case n == 37:
		a.startAs(who, run) // a second start
	case n == 38:
		a.send(who, run.id, events.VerbToolCall, `{"run_id":1}`)
	default:
		w.inbound(w.simulator.subjects.Agent(who, run.id, events.VerbToolCall), nil, []byte("\x00not an event"))
	}
}

func (a *agents) start() {
	w := a.w
	run := &agentRun{
		id: fmt.Sprintf("run-%d", len(a.runs)), owner: fmt.Sprintf("agent-%d", w.random.IntN(2)),
		deadline: w.clock.Add(w.between(5*time.Second, 65*time.Second)),
	}
	one := func(values ...int) int { return values[w.random.IntN(len(values))] }
	run.limits = fmt.Sprintf(`{"model_calls":%d,"tool_calls":%d,"calls_per_tool":%d,"input_tokens":%d,"output_tokens":9,"total_tokens":%d,"run_bytes":%d}`,
		one(2, 5, 5), one(2, 6, 12), one(1, 4, 8), one(2, 9), one(9, 12), one(300, 2000, 8000))
	a.runs = append(a.runs, run)
	if w.chance(0.2) {
		a.call(run, run.owner) // before its start
	}
	a.startAs(run.owner, run)
}

func (a *agents) startAs(who string, run *agentRun) {
	a.send(who, run.id, events.VerbRunStart, fmt.Sprintf(`{"run_id":%q,"session_id":"s","deadline":%q,"limits":%s}`,
		run.id, run.deadline.Format(events.TimeFormat), run.limits))
}

func (a *agents) call(run *agentRun, who string) {
	w := a.w
	run.calls++
	id := fmt.Sprintf("call-%d", run.calls)
	if w.chance(0.15) {
		id = fmt.Sprintf("call-%d", 1+w.random.IntN(run.calls)) // one that was used before
	}
	if w.chance(0.03) {
		id = []string{"", "a b", "a:b", "é", "{x}"}[w.random.IntN(5)]
	}
	tool := []string{"read", "read", "read", "look", "look", "write", "unknown"}[w.random.IntN(7)]
	a.send(who, run.id, events.VerbToolCall, fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"tool":%q,"arguments":{"n":%d}}`,
		run.id, id, tool, w.random.IntN(2)))
}

// model asks for an attempt of an operation, or reports one, whether or not it
// was granted.
func (a *agents) model(run *agentRun, who string) {
	w := a.w
	id := fmt.Sprintf("op-%d", w.random.IntN(3))
	if w.chance(0.5) {
		a.send(who, run.id, events.VerbModelCall, fmt.Sprintf(`{"run_id":%q,"operation":"INTENT_ROUTER","operation_id":%q}`, run.id, id))
		return
	}
	ended := []string{`"outcome":"SUCCEEDED"`, `"outcome":"FAILED","failure":"TRANSPORT"`, `"outcome":"FAILED","failure":"UNKNOWN"`}[w.random.IntN(3)]
	usage := []string{"null", `{"input_tokens":1,"output_tokens":1}`, `{"input_tokens":4,"output_tokens":1}`}[w.random.IntN(3)]
	a.send(who, run.id, events.VerbModelReport, fmt.Sprintf(`{"run_id":%q,"operation":"INTENT_ROUTER","operation_id":%q,"attempt":%d,%s,"usage":%s}`,
		run.id, id, 1+w.random.IntN(2), ended, usage))
}

// report claims something of some call.
func (a *agents) report(run *agentRun, who string) {
	w := a.w
	run.step += w.random.IntN(2)
	a.send(who, run.id, events.VerbProgressReport, fmt.Sprintf(`{"run_id":%q,"step":%d,"claims":[{"text":"c","negative":%t,"supports":["call-%d"]}],"final":%t}`,
		run.id, 1+run.step, w.chance(0.5), 1+w.random.IntN(1+run.calls), w.chance(0.2)))
}

func (a *agents) cancel(run *agentRun, who string) {
	w := a.w
	if w.chance(0.5) {
		a.send(who, run.id, events.VerbRunCancel, fmt.Sprintf(`{"run_id":%q,"reason":"USER_REQUESTED"}`, run.id))
		return
	}
	a.next++
	header := ceHeader(fmt.Sprintf("e%d", a.next), "/operators/op", events.VerbRunCancel)
	w.inbound(w.simulator.subjects.Operator("op", run.id), header, fmt.Appendf(nil, `{"run_id":%q,"reason":"OPERATOR_REQUESTED"}`, run.id))
}

func (a *agents) send(agent, run string, verb events.Verb, data string) {
	a.next++
	header := ceHeader(fmt.Sprintf("e%d", a.next), "/"+agent, verb)
	a.w.inbound(a.w.simulator.subjects.Agent(agent, run, verb), header, []byte(data))
}

func ceHeader(id, source string, verb events.Verb) nats.Header {
	return nats.Header{"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {source}, "ce-type": {verb.Type()}}
}

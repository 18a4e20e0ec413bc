package sim

import (
	"fmt"
	"slices"
	"strings"
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
	calls    int
	step     int
}

const maxRuns = 6

func newAgents(w *world) *agents { return &agents{w: w} }

// act publishes one intent.
func (a *agents) act() {
	w := a.w
	if len(a.runs) < maxRuns && (len(a.runs) == 0 || w.chance(0.3)) {
		a.start()
		return
	}
	run := a.runs[w.random.IntN(len(a.runs))]
	who := run.owner
	if w.chance(0.05) {
		who = "mallory"
	}
	switch n := w.random.IntN(24); {
	case n < 12:
		a.call(run, who)
	case n < 15:
		a.model(run, who)
	case n >= 20:
		a.report(run, who)
	case n == 15:
		a.send(who, run.id, events.VerbRunFinish, fmt.Sprintf(`{"run_id":%q,"outcome":"SUCCESS"}`, run.id))
	case n == 16:
		a.send(who, run.id, events.VerbRunCancel, fmt.Sprintf(`{"run_id":%q,"reason":"USER_REQUESTED"}`, run.id))
	case n == 17:
		a.startAs(who, run) // a second start
	case n == 18:
		a.send(who, run.id, events.VerbToolCall, `{"run_id":1}`)
	default:
		w.inbound(w.subjects.Agent(who, run.id, events.VerbToolCall), nil, []byte("\x00not an event"))
	}
}

func (a *agents) start() {
	run := &agentRun{
		id: fmt.Sprintf("run-%d", len(a.runs)), owner: fmt.Sprintf("agent-%d", a.w.random.IntN(2)),
		deadline: a.w.clock.Add(time.Duration(5+a.w.random.IntN(60)) * time.Second),
	}
	a.runs = append(a.runs, run)
	if a.w.chance(0.2) {
		a.call(run, run.owner) // before its start
	}
	a.startAs(run.owner, run)
}

func (a *agents) startAs(who string, run *agentRun) {
	a.send(who, run.id, events.VerbRunStart, fmt.Sprintf(
		`{"run_id":%q,"session_id":"s","deadline":%q,"limits":{"model_calls":5,"tool_calls":%d,"calls_per_tool":%d,"input_tokens":9,"output_tokens":9,"total_tokens":9,"run_bytes":%d}}`,
		run.id, run.deadline.Format(events.TimeFormat), toolCalls, callsPerTool, runBytes))
}

// Limits of every simulated run, known to the checker by their own names.
const (
	toolCalls    = 12
	callsPerTool = 8
	runBytes     = 2000
)

func (a *agents) call(run *agentRun, who string) {
	w := a.w
	run.calls++
	id := fmt.Sprintf("call-%d", run.calls)
	if w.chance(0.15) {
		id = fmt.Sprintf("call-%d", 1+w.random.IntN(run.calls)) // one that was used before
	}
	if w.chance(0.05) {
		id = []string{"", "a b", "a:b", "é", "{x}"}[w.random.IntN(5)]
	}
	tool := []string{"read", "read", "look", "write", "unknown"}[w.random.IntN(5)]
	a.send(who, run.id, events.VerbToolCall, fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"tool":%q,"arguments":{"n":%d}}`,
		run.id, id, tool, w.random.IntN(3)))
}

// model asks for an attempt of an operation, or reports one, whether or not it
// was granted.
func (a *agents) model(run *agentRun, who string) {
	w := a.w
	id := fmt.Sprintf("op-%d", w.random.IntN(4))
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

func (a *agents) send(agent, run string, verb events.Verb, data string) {
	a.next++
	header := ceHeader(fmt.Sprintf("e%d", a.next), "/"+agent, verb)
	a.w.inbound(a.w.subjects.Agent(agent, run, verb), header, []byte(data))
}

func ceHeader(id, source string, verb events.Verb) nats.Header {
	return nats.Header{"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {source}, "ce-type": {verb.Type()}}
}

// inbound is what the stream IN does: it stores, in the partition of the run;
// sometimes twice, as a client does that got no answer.
func (w *world) inbound(subject string, header nats.Header, data []byte) {
	stored := strings.Replace(subject, prefix+".", prefix+".part.0.", 1)
	w.in.append(stored, header, data, w.clock)
	if w.chance(w.faults.Duplicate) {
		w.in.append(stored, header, data, w.clock)
	}
}

// executors take dispatches, claim them, and answer.
type executors struct {
	w      *world
	seen   int
	queue  []events.Dispatch
	claims map[string]int // how often a tool ran, by dispatch id
	next   int
}

func newExecutors(w *world) *executors { return &executors{w: w, claims: make(map[string]int)} }

// act takes one step of one executor.
func (e *executors) act() {
	w := e.w
	for ; e.seen < len(w.dispatch.messages); e.seen++ {
		e.queue = append(e.queue, readDispatch(w.dispatch.messages[e.seen].Data))
	}
	if len(e.queue) == 0 {
		return
	}
	i := w.random.IntN(len(e.queue))
	d := e.queue[i]
	if !w.chance(0.1) { // else it is delivered again later
		e.queue = slices.Delete(e.queue, i, i+1)
	}
	if e.claims[d.DispatchID] > 0 {
		return // somebody has claimed it
	}
	e.claims[d.DispatchID]++
	if w.chance(w.faults.ExecutorDies) {
		return
	}
	e.answer(d)
	if w.chance(0.1) {
		e.answer(d) // a second, different answer
	}
}

func (e *executors) answer(d events.Dispatch) {
	w := e.w
	e.next++
	executor := "exec"
	if w.chance(0.03) {
		executor = "foreign"
	}
	body := `"outcome":"SUCCEEDED","result":` + []string{`{"a":1}`, "null", `"` + strings.Repeat("x", 300) + `"`, `"` + strings.Repeat("y", 5000) + `"`}[w.random.IntN(4)]
	if w.chance(0.15) {
		body = `"outcome":"FAILED"`
	}
	data := fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"dispatch_id":%q,%s}`, d.RunID, d.ToolCallID, d.DispatchID, body)
	header := ceHeader(fmt.Sprintf("r%d", e.next), "/"+executor, events.VerbToolResult)
	w.inbound(w.subjects.Executor(executor, d.RunID), header, []byte(data))
}

// tick delivers the schedules whose time has come; a lost one comes later.
func (w *world) tick() {
	subjects := make([]string, 0, len(w.timers))
	for subject := range w.timers {
		subjects = append(subjects, subject)
	}
	slices.Sort(subjects)
	for _, subject := range subjects {
		t := w.timers[subject]
		if w.clock.Before(t.at) {
			continue
		}
		if w.chance(w.faults.LostTick) {
			w.timers[subject] = timer{run: t.run, at: w.clock.Add(3 * time.Second)}
			continue
		}
		delete(w.timers, subject)
		w.inbound(w.subjects.Tick(t.run), nil, nil)
	}
}

package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"

	"github.com/go-json-experiment/json"
)

// executors are some processes that share one durable consumer: each dispatch
// goes to one of them, and again to any while nobody acknowledged it.
type executors struct {
	w          *world
	deliveries []delivery
	claims     map[string]int // who has a dispatch, by its id
	next       int
}

// delivery is something that an executor does from an instant on: it is given a
// dispatch, or answers one.
type delivery struct {
	at       time.Time
	subject  string
	dispatch events.Dispatch
	answers  bool
}

func newExecutors(w *world) *executors { return &executors{w: w, claims: make(map[string]int)} }

func (e *executors) deliver(m *stream.Message) {
	d := delivery{at: e.w.clock, subject: m.Subject}
	if err := json.Unmarshal(m.Data, &d.dispatch); err != nil {
		panic(fmt.Sprintf("sim: dispatch %q: %v", m.Data, err))
	}
	e.deliveries = append(e.deliveries, d)
}

// act lets one executor do one thing.
func (e *executors) act() {
	w := e.w
	if w.faults.Duplicate > 0 && w.chance(0.03) {
		e.guess()
		return
	}
	var due []int
	for i, d := range e.deliveries {
		if !w.clock.Before(d.at) {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return
	}
	i := due[w.random.IntN(len(due))]
	d := e.deliveries[i]
	e.deliveries = slices.Delete(e.deliveries, i, i+1)
	if d.answers {
		e.answer(d.dispatch)
		return
	}
	e.handle(d, 1+w.random.IntN(3))
}

// handle is what an executor does with a dispatch: it claims it, and runs the
// tool only where the claim is its own.
func (e *executors) handle(d delivery, executor int) {
	w, id := e.w, d.dispatch.DispatchID
	if w.chance(w.faults.DiesEarly) {
		w.counts[ExecutorDeaths]++
		w.tell("executor %d dies before it claims %s", executor, id)
		e.again(d)
		return
	}
	if !e.claim(id, executor) {
		w.tell("executor %d leaves %s to executor %d", executor, id, e.claims[id])
		return
	}
	if w.chance(w.faults.LostReply) {
		w.tell("executor %d has no answer for its claim of %s, and does not run it", executor, id)
		return
	}
	w.tell("executor %d runs %s", executor, id)
	w.judge.Ran(d.dispatch.RunID, id, d.subject)
	if w.chance(w.faults.Redelivery) {
		w.counts[Redeliveries]++
		e.again(d)
	}
	if w.chance(w.faults.DiesLate) {
		w.counts[ExecutorDeaths]++
		w.tell("executor %d dies in the middle of %s", executor, id)
		return
	}
	if w.chance(0.3) { // perhaps after the call's deadline, or the run's end
		d.at, d.answers = w.clock.Add(w.between(time.Millisecond, 6*time.Second)), true
		e.deliveries = append(e.deliveries, d)
		return
	}
	e.answer(d.dispatch)
	if w.chance(0.1) {
		e.answer(d.dispatch) // a second, different answer
	}
}

// claim creates the dispatch's entry in the bucket, unless somebody has.
func (e *executors) claim(id string, executor int) bool {
	if e.claims[id] != 0 {
		return false
	}
	e.claims[id] = executor
	return true
}

// again lets a dispatch be delivered once more.
func (e *executors) again(d delivery) {
	d.at = e.w.clock.Add(e.w.between(time.Millisecond, 2*time.Second))
	e.deliveries = append(e.deliveries, d)
}

func (e *executors) answer(d events.Dispatch) {
	w := e.w
	executor := "exec"
	if w.chance(0.03) {
		executor = "foreign"
	}
	result := []string{`{"a":1}`, `{"a":1}`, "null", `"` + strings.Repeat("x", 300) + `"`, `"` + strings.Repeat("y", 5000) + `"`}[w.random.IntN(5)]
	body := `"outcome":"SUCCEEDED","result":` + result
	if w.chance(0.15) {
		body = `"outcome":"FAILED"`
	}
	e.publish(executor, d, body)
}

// guess answers a dispatch that may not have been made.
func (e *executors) guess() {
	w := e.w
	if len(w.agents.runs) == 0 {
		return
	}
	run := w.agents.runs[w.random.IntN(len(w.agents.runs))].id
	e.publish("exec", events.Dispatch{
		RunID: run, ToolCallID: fmt.Sprintf("call-%d", 1+w.random.IntN(4)), DispatchID: events.DispatchID(run, uint64(2+w.random.IntN(4))),
	}, `"outcome":"SUCCEEDED","result":{"guessed":true}`)
}

func (e *executors) publish(executor string, d events.Dispatch, body string) {
	e.next++
	data := fmt.Appendf(nil, `{"run_id":%q,"tool_call_id":%q,"dispatch_id":%q,%s}`, d.RunID, d.ToolCallID, d.DispatchID, body)
	header := ceHeader(fmt.Sprintf("r%d", e.next), "/"+executor, events.VerbToolResult)
	e.w.inbound(e.w.simulator.subjects.Executor(executor, d.RunID), header, data)
}

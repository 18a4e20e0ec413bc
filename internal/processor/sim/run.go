package sim

import (
	"fmt"
	"strings"
	"time"

	"runledger/internal/events"

	"github.com/go-json-experiment/json"
)

// Result is what one seed came to.
type Result struct {
	Seed       uint64
	Events     int // inbound
	Facts      int
	Violations []string
}

// Run plays one seed: some hundred steps with faults, then, without faults, on
// until nothing is left to do. It fails only if the simulation itself is wrong.
func Run(seed uint64, faults Faults) (Result, error) {
	w, err := newWorld(seed, faults)
	if err != nil {
		return Result{}, err
	}
	w.processes = []*process{w.start(), w.start()}
	for range 100 + w.random.IntN(200) {
		w.step()
	}
	w.settle()
	violations := check(w)
	return Result{Seed: seed, Events: len(w.in.messages), Facts: len(w.runs.messages), Violations: violations}, nil
}

// step lets one thing happen.
func (w *world) step() {
	w.clock = w.clock.Add(time.Duration(w.random.IntN(300)) * time.Millisecond)
	w.tick()
	w.trouble()
	switch n := w.random.IntN(10); {
	case n < 3:
		w.agents.act()
	case n < 5:
		w.executors.act()
	default:
		w.work()
	}
}

// trouble is what befalls the servers.
func (w *world) trouble() {
	if w.storeDown {
		w.storeDown = !w.chance(0.3)
	} else {
		w.storeDown = w.chance(w.faults.StoreDown)
	}
	if w.chance(0.05) {
		w.snapshots = append(w.snapshots, w.records.clone())
	}
	switch {
	case w.chance(w.faults.Flush):
		w.records = newRecords()
	case len(w.snapshots) > 0 && w.chance(w.faults.LostWrites):
		w.records = w.snapshots[len(w.snapshots)-1].clone()
	}
	if w.chance(w.faults.LostRecord) {
		w.records.loseOne(w.random)
	}
	if len(w.adrift) > 0 && w.chance(0.3) {
		w.adrift[0]()
		w.adrift = w.adrift[1:]
	}
}

// settle stops all faults and goes on until every event is carried and every
// run has had time to end.
func (w *world) settle() {
	w.faults, w.storeDown = Faults{}, false
	for _, land := range w.adrift {
		land()
	}
	w.adrift = nil
	for range 20_000 {
		w.clock = w.clock.Add(50 * time.Millisecond)
		w.tick()
		w.executors.act()
		w.work()
		if w.quiet() {
			return
		}
	}
}

func (w *world) quiet() bool {
	return w.position == uint64(len(w.in.messages)) && len(w.timers) == 0 && len(w.executors.queue) == 0 &&
		w.executors.seen == len(w.dispatch.messages)
}

func readDispatch(data []byte) events.Dispatch {
	var d events.Dispatch
	if err := json.Unmarshal(data, &d); err != nil {
		panic(fmt.Sprintf("sim: dispatch %q: %v", data, err))
	}
	return d
}

// tokenOf gives the i-th token of a subject.
func tokenOf(subject string, i int) string {
	tokens := strings.Split(subject, ".")
	if i >= len(tokens) {
		return ""
	}
	return tokens[i]
}

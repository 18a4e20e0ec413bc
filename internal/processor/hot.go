package processor

import (
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// hotRun is a run as a worker holds it between events: its state after its last
// fact, and what of that the store and the executors have not been given yet.
type hotRun struct {
	id     string
	state  harness.State
	rules  *harness.Rules
	loaded bool // state is that of the stream's last fact, as far as we know
	before prelude

	projected uint64                // the fact at which the store stands
	changes   []*store.RecordChange // of records, in fact order, not yet projected
	reserved  []*harness.Record     // calls reserved since the batch began, with their requests
	schedule  time.Time             // a timer to set; zero for none
	complete  bool                  // state.Records holds every record of the run
	completed bool                  // state.Completed has been loaded for this step

	makeGood bool // an event at hand was decided before: dispatch and schedule again
}

// prelude is what was said of a run before it began: refusals, which belong to
// no history. Each is fenced on the one before, and so is run.started: whether a
// run began or was refused must not depend on which of two owners was asked.
type prelude struct {
	stream  uint64 // sequence in RUNS of the last refusal; 0 for none
	inbound uint64 // sequence in IN of the event that it answers
}

// applied gives the inbound sequence up to which the run's events are decided.
func (h *hotRun) applied() uint64 {
	if h.state.Run == nil {
		return h.before.inbound
	}
	return h.state.Run.Inbound
}

// known reports whether the state holds what there is to know of the call.
func (h *hotRun) known(toolCallID string) bool {
	if h.state.Run == nil || h.complete {
		return true
	}
	_, ok := h.state.Records[toolCallID]
	return ok
}

// remember keeps a loaded record, or the knowledge that there is none.
func (h *hotRun) remember(toolCallID string, record *harness.Record) {
	if h.state.Records == nil {
		h.state.Records = make(map[string]*harness.Record)
	}
	if _, newer := h.state.Records[toolCallID]; !newer {
		h.state.Records[toolCallID] = record
	}
}

// apply takes the state past a stored fact and notes what the store lacks.
// request and raw are the bytes that the fact's event brought.
func (h *hotRun) apply(f *events.Fact, at harness.Stored, request, raw []byte) error {
	first := h.state.Run == nil
	touched, err := h.state.Apply(f, at)
	if err != nil {
		return err
	}
	h.complete = h.complete || first
	h.completed = false
	switch p := f.Payload.(type) {
	case *events.ToolReserved:
		record := *touched // the open call stays without bytes
		record.Request = request
		h.reserved = append(h.reserved, &record)
		h.changes = append(h.changes, &store.RecordChange{Record: &record, Reserved: true})
	case *events.ToolSettled:
		record := *touched
		if p.RawStored {
			record.RawResponse = raw
		}
		h.settled(&record)
	}
	return nil
}

func (h *hotRun) settled(record *harness.Record) {
	for _, c := range h.changes {
		if c.Record.Call == record.Call {
			record.Request = c.Record.Request
			c.Record, c.Settled = record, true
			return
		}
	}
	h.changes = append(h.changes, &store.RecordChange{Record: record, Settled: true})
}

// behind reports whether the store lacks something that it shall still have.
func (h *hotRun) behind(now time.Time) bool {
	run := h.state.Run
	return run != nil && run.Sequence > h.projected && now.Before(run.ExpiresAt)
}

func (h *hotRun) projection() store.Projection {
	changes := make([]store.RecordChange, len(h.changes))
	for i, c := range h.changes {
		changes[i] = *c
	}
	return store.Projection{Run: h.state.Run, From: h.projected, Records: changes}
}

// rest forgets what only the batch at hand needed.
func (h *hotRun) rest() {
	h.state.Records, h.state.Completed = nil, nil
	h.complete, h.completed, h.makeGood = false, false, false
	h.changes, h.reserved, h.schedule = nil, nil, time.Time{}
}

// hotRuns holds the runs that were used last.
type hotRuns struct{ cache *lru.LRU[string, *hotRun] }

func newHotRuns(size int) hotRuns {
	cache, err := lru.NewLRU[string, *hotRun](size, nil)
	if err != nil {
		panic(err) // size is checked by Config.Validate
	}
	return hotRuns{cache}
}

// get gives the run, empty and not loaded if it is not held.
func (h hotRuns) get(id string) *hotRun {
	if run, ok := h.cache.Get(id); ok {
		return run
	}
	run := &hotRun{id: id}
	h.cache.Add(id, run)
	return run
}

func (h hotRuns) drop(id string) { h.cache.Remove(id) }

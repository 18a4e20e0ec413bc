package processor

import (
	"slices"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// hotRun is a run as a worker holds it between events: its state after its last
// fact, and what of that the store and the executors have not been given yet.
type hotRun struct {
	id      string
	state   harness.State
	rules   *harness.Rules
	scratch bool // the store has lost something of it: it is written anew from its facts
	loaded  bool // state is that of the stream's last fact, as far as we know
	before  prelude

	projected  uint64                             // the fact at which the store stands
	operations map[string]*harness.ModelOperation // changed, not yet projected
	changes    []*store.RecordChange              // of records, in fact order, not yet projected
	reserved   []reservation                      // calls reserved since the batch began
	schedule   time.Time                          // a timer to set; zero for none
	complete   bool                               // state.Records holds every record of the run
	used       usedIDs                            // by the run, where all are known
	completed  bool                               // state.Completed has been loaded for this step

	failed   error // why the store cannot take this run; its calls are not dispatched
	makeGood bool  // an event at hand was decided before: dispatch and schedule again
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

// knows reports whether the state holds what there is to know for the need.
func (h *hotRun) knows(need harness.Need) bool {
	return len(h.missing(need)) == 0 && (!need.Completed || h.completed)
}

// missing gives what must be read from the store for the need, but for the
// completed calls.
func (h *hotRun) missing(need harness.Need) []store.Ref {
	if h.state.Run == nil || h.complete {
		return nil
	}
	var refs []store.Ref
	for _, id := range need.ToolCallIDs {
		if _, ok := h.state.Records[id]; !ok && !h.used.isNew(id) {
			refs = append(refs, store.Ref{RunID: h.id, ToolCallID: id})
		}
	}
	if id := need.OperationID; id != "" {
		if _, ok := h.state.Operations[id]; !ok {
			refs = append(refs, store.Ref{RunID: h.id, OperationID: id})
		}
	}
	return refs
}

// remember keeps what was loaded, or the knowledge that there is nothing.
func (h *hotRun) remember(ref store.Ref, l store.Loaded) {
	if h.state.Records == nil {
		h.state.Records = make(map[string]*harness.Record)
	}
	if h.state.Operations == nil {
		h.state.Operations = make(map[string]*harness.ModelOperation)
	}
	if ref.OperationID != "" {
		keepFirst(h.state.Operations, ref.OperationID, l.Operation)
	} else {
		keepFirst(h.state.Records, ref.ToolCallID, l.Record)
	}
}

// keepFirst keeps a value unless there is one: that is newer than the store's.
func keepFirst[V any](m map[string]V, key string, value V) {
	if _, newer := m[key]; !newer {
		m[key] = value
	}
}

// reservation is a call that was reserved in this batch, with what its executor
// must get; the arguments are nil where the event has aged out.
type reservation struct {
	call      uint64
	arguments []byte
}

// brought is what a fact's event brought: of a tool.call the complete request,
// and the arguments in it; of a tool.result the raw response.
type brought struct{ request, arguments, raw []byte }

func broughtBy(in *events.Inbound) brought {
	switch p := in.Payload.(type) {
	case *events.ToolCall:
		return brought{request: in.Data, arguments: p.Arguments}
	case *events.ToolResult:
		return brought{raw: p.Result}
	}
	return brought{}
}

// apply takes the state past a stored fact and notes what the store lacks.
func (h *hotRun) apply(f *events.Fact, at harness.Stored, b brought) error {
	first := h.state.Run == nil
	touched, err := h.state.Apply(f, at)
	if err != nil {
		return err
	}
	if first {
		h.complete, h.used = true, usedIDs{}
	}
	h.completed = false
	switch p := f.Payload.(type) {
	case *events.ToolReserved:
		h.used.add(p.ToolCallID)
		record := *touched // the open call stays without bytes
		record.Request = b.request
		h.reserved = append(h.reserved, reservation{record.Call, b.arguments})
		h.changes = append(h.changes, &store.RecordChange{Record: &record, Reserved: true})
	case *events.ModelGranted:
		h.changed(p.OperationID)
	case *events.ModelRecorded:
		h.changed(p.OperationID)
	case *events.ToolSettled:
		record := *touched
		if p.RawStored {
			record.RawResponse = b.raw
		}
		h.settled(&record)
	}
	return nil
}

func (h *hotRun) changed(operationID string) {
	if h.operations == nil {
		h.operations = make(map[string]*harness.ModelOperation)
	}
	h.operations[operationID] = h.state.Operations[operationID]
}

func (h *hotRun) settled(record *harness.Record) {
	for _, c := range slices.Backward(h.changes) { // the latest are settled first
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
	operations := make([]*harness.ModelOperation, 0, len(h.operations))
	for _, op := range h.operations {
		operations = append(operations, op)
	}
	return store.Projection{Run: h.state.Run, From: h.projected, Records: changes, Operations: operations}
}

// rest forgets what only the batch at hand needed.
func (h *hotRun) rest() {
	if run := h.state.Run; run != nil {
		h.projected = run.Sequence // or it has expired by our clock, and the store is not told
	}
	h.state.Records, h.state.Operations, h.state.Completed = nil, nil, nil
	h.complete, h.completed, h.makeGood = false, false, false
	h.changes, h.operations, h.reserved, h.schedule = nil, nil, nil, time.Time{}
}

// hotRuns holds the runs that were used last.
type hotRuns struct {
	cache *lru.LRU[string, *hotRun]
	ids   int // that are known of them, at most; see boundIDs
}

func newHotRuns(size int) hotRuns {
	cache, err := lru.NewLRU[string, *hotRun](size, nil)
	if err != nil {
		panic(err) // size is checked by Config.Validate
	}
	return hotRuns{cache: cache}
}

// get gives the run, empty and not loaded if it is not held.
func (h *hotRuns) get(id string) *hotRun {
	if run, ok := h.cache.Get(id); ok {
		return run
	}
	run := &hotRun{id: id}
	h.cache.Add(id, run)
	return run
}

func (h *hotRuns) drop(id string) { h.cache.Remove(id) }

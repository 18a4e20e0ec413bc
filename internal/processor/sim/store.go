package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"runledger/internal/harness"
	"runledger/internal/store"
)

// storeEnter fails while the store is down. What the process's clock showed
// before is no excuse for what it does after it.
func (t *tenure) storeEnter() error {
	if err := t.enter(); err != nil {
		return err
	}
	t.batch.Earliest = time.Time{}
	if t.w.storeDown || t.w.chance(t.w.faults.StoreError) {
		t.w.counts[StoreErrors]++
		t.w.tell("%s has no answer from the store", t.process.name)
		return fmt.Errorf("simulated: %w", store.ErrUnavailable)
	}
	return nil
}

// LoadRuns implements processor.Store.
func (t *tenure) LoadRuns(_ context.Context, ids []string) ([]*harness.Run, []error) {
	runs, errs := make([]*harness.Run, len(ids)), make([]error, len(ids))
	err := t.storeEnter()
	for i, id := range ids {
		if errs[i] = err; err != nil {
			continue
		}
		if s := t.w.records.get(id, t.w.clock); s != nil && s.run != nil {
			runs[i] = cloneRun(s.run)
		}
		t.w.tell("%s loads %s, and the store stands at %d", t.process.name, id, t.w.records.runs[id].sequence())
	}
	return runs, errs
}

// Load implements processor.Store.
func (t *tenure) Load(_ context.Context, refs []store.Ref) ([]store.Loaded, error) {
	if err := t.storeEnter(); err != nil {
		return nil, err
	}
	loaded := make([]store.Loaded, len(refs))
	for i, ref := range refs {
		if s := t.w.records.get(ref.RunID, t.w.clock); s != nil {
			loaded[i] = s.load(ref)
		}
	}
	return loaded, nil
}

// load answers for one record or operation. What is not there is no answer where
// the run says that more was.
func (s *storedRun) load(ref store.Ref) store.Loaded {
	l := store.Loaded{RunSequence: s.sequence()}
	if record, ok := s.calls[ref.ToolCallID]; ok && ref.ToolCallID != "" {
		l.Record = light(record)
		return l
	}
	if s.used[ref.ToolCallID] || len(s.ops)+len(s.used) < s.held {
		l.Err = store.ErrBehind
	} else if op, ok := s.ops[ref.OperationID]; ok {
		l.Operation = &op
	}
	return l
}

func light(r harness.Record) *harness.Record {
	r.Request, r.RawResponse, r.AgentResult = nil, nil, nil
	return &r
}

// Completed implements processor.Store.
func (t *tenure) Completed(_ context.Context, id string) ([]harness.Record, error) {
	if err := t.storeEnter(); err != nil {
		return nil, err
	}
	s := t.w.records.get(id, t.w.clock)
	if s.sequence() == 0 || len(s.done) < s.listed {
		return nil, store.ErrBehind
	}
	found := make([]harness.Record, 0, len(s.done))
	for _, entry := range s.done {
		if record, ok := s.calls[entry.id]; ok {
			found = append(found, *light(record))
		} else {
			found = append(found, harness.Record{RunID: id, ToolCallID: entry.id, Call: entry.call})
		}
	}
	slices.SortFunc(found, func(a, b harness.Record) int { return int(a.Call) - int(b.Call) })
	return found, nil
}

// Project implements processor.Store.
func (t *tenure) Project(_ context.Context, projections []store.Projection) []error {
	w := t.w
	errs := make([]error, len(projections))
	err := t.storeEnter()
	for i := range projections {
		if errs[i] = err; err != nil {
			continue
		}
		p := &projections[i]
		before := w.records.get(p.Run.ID, w.clock).sequence()
		var wrote bool
		wrote, errs[i] = w.records.project(p, w.clock)
		w.tell("%s projects %s from %d to %d; the store stood at %d: %v", t.process.name, p.Run.ID, p.From, p.Run.Sequence, before, result(wrote, errs[i]))
		if wrote {
			w.counts[Projections]++
			w.judgeProjection(p, before)
		}
	}
	if err == nil && w.chance(w.faults.StoreLostReply) {
		w.tell("%s has no answer", t.process.name)
		for i := range errs {
			errs[i] = fmt.Errorf("simulated: %w", store.ErrUnavailable)
		}
	}
	return errs
}

func result(wrote bool, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case wrote:
		return "written"
	}
	return "nothing to write"
}

// loseKey removes one key of one run, and nothing else.
func (w *world) loseKey() {
	if len(w.records.runs) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(w.records.runs))
	id := ids[w.random.IntN(len(ids))]
	s := w.records.runs[id]
	var what string
	switch n := w.random.IntN(4); {
	case n == 0 && len(s.done) > 0:
		s.done, what = nil, "the list of completed calls"
	case n == 1 && len(s.ops)+len(s.used) > 0:
		s.ops, s.used, what = map[string]harness.ModelOperation{}, map[string]bool{}, "operations and ids"
	case n > 1 && len(s.calls) > 0:
		calls := slices.Sorted(maps.Keys(s.calls))
		call := calls[w.random.IntN(len(calls))]
		delete(s.calls, call)
		w.judge.Disturbed(id)
		what = "the record of " + call
	default:
		return
	}
	w.counts[LostKeys]++
	w.tell("somebody removes %s of %s", what, id)
}

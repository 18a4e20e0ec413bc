package sim

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"runledger/internal/harness"
	"runledger/internal/store"
)

var errStoreDown = errors.New("simulated store is down")

// records is the simulated store: what the script in internal/store does, over
// maps.
type records struct {
	runs map[string]*storedRun
}

type storedRun struct {
	run   harness.Run
	calls map[string]harness.Record
	ops   map[string]harness.ModelOperation
	done  []string        // "<call> <tool call id>"
	used  map[string]bool // tool call ids
}

func newRecords() *records { return &records{runs: make(map[string]*storedRun)} }

func (r *records) clone() *records {
	out := newRecords()
	for id, s := range r.runs {
		out.runs[id] = &storedRun{run: cloneRun(&s.run), calls: maps.Clone(s.calls), ops: maps.Clone(s.ops), done: slices.Clone(s.done), used: maps.Clone(s.used)}
	}
	return out
}

func cloneRun(r *harness.Run) harness.Run {
	out := *r
	out.Usage.CallsByTool = maps.Clone(r.Usage.CallsByTool)
	out.Calls = maps.Clone(r.Calls)
	out.Recent = slices.Clone(r.Recent)
	out.Open = make([]*harness.Record, len(r.Open))
	for i, c := range r.Open {
		open := *c
		out.Open[i] = &open
	}
	return out
}

// project takes one run from the fact at which it stands to a later one.
func (r *records) project(p store.Projection) error {
	s := r.runs[p.Run.ID]
	stands := uint64(0)
	if s != nil {
		stands = s.run.Sequence
	}
	switch {
	case stands > p.Run.Sequence, stands == p.Run.Sequence && p.From > 0:
		return nil
	case stands < p.From:
		return store.ErrBehind
	case stands > p.From && p.From > 0:
		return nil // another owner went on; it will go on from there
	}
	if p.From > 0 && s.lost(p) {
		delete(r.runs, p.Run.ID)
		return store.ErrBehind
	}
	if s == nil || p.From == 0 {
		s = &storedRun{calls: make(map[string]harness.Record), ops: make(map[string]harness.ModelOperation), used: make(map[string]bool)}
		r.runs[p.Run.ID] = s
	}
	for _, change := range p.Records {
		s.change(change)
	}
	for _, op := range p.Operations {
		s.operation(*op)
	}
	s.run = cloneRun(p.Run)
	return nil
}

// operation keeps the causes that a caller did not know.
func (s *storedRun) operation(op harness.ModelOperation) {
	before := s.ops[op.ID]
	if op.Granted.ID == "" {
		op.Granted = before.Granted
	}
	if op.Reported.ID == "" {
		op.Reported = before.Reported
	}
	s.ops[op.ID] = op
}

// lost reports whether a record is gone that a projection would settle.
func (s *storedRun) lost(p store.Projection) bool {
	return slices.ContainsFunc(p.Records, func(c store.RecordChange) bool {
		_, there := s.calls[c.Record.ToolCallID]
		return !there && !c.Reserved
	})
}

func (s *storedRun) change(c store.RecordChange) {
	s.used[c.Record.ToolCallID] = true
	before, exists := s.calls[c.Record.ToolCallID]
	after := *c.Record
	if exists && !c.Reserved {
		after.Request = before.Request
	}
	s.calls[after.ToolCallID] = after
	if c.Settled {
		s.done = append(s.done, strconv.FormatUint(after.Call, 10)+" "+after.ToolCallID)
	}
}

// loseOne removes one record of one run, and nothing else.
func (r *records) loseOne(random *rand.Rand) {
	for _, id := range slices.Sorted(maps.Keys(r.runs)) {
		calls := slices.Sorted(maps.Keys(r.runs[id].calls))
		if len(calls) > 0 && random.IntN(3) == 0 {
			delete(r.runs[id].calls, calls[random.IntN(len(calls))])
			return
		}
	}
}

// storeEnter fails while the store is down.
func (p *ports) storeEnter() error {
	if err := p.enter(); err != nil {
		return err
	}
	if p.w.storeDown || p.w.chance(p.w.faults.StoreError) {
		return errStoreDown
	}
	return nil
}

// LoadRuns implements processor.Store.
func (p *ports) LoadRuns(_ context.Context, ids []string) ([]*harness.Run, []error) {
	runs, errs := make([]*harness.Run, len(ids)), make([]error, len(ids))
	err := p.storeEnter()
	for i, id := range ids {
		if errs[i] = err; err != nil {
			continue
		}
		if s := p.w.records.runs[id]; s != nil {
			run := cloneRun(&s.run)
			runs[i] = &run
		}
	}
	return runs, errs
}

// Load implements processor.Store.
func (p *ports) Load(_ context.Context, refs []store.Ref) ([]store.Loaded, error) {
	if err := p.storeEnter(); err != nil {
		return nil, err
	}
	loaded := make([]store.Loaded, len(refs))
	for i, ref := range refs {
		s := p.w.records.runs[ref.RunID]
		if s == nil {
			continue
		}
		loaded[i].RunSequence = s.run.Sequence
		if op, ok := s.ops[ref.OperationID]; ok {
			loaded[i].Operation = &op
		}
		if record, ok := s.calls[ref.ToolCallID]; ok {
			loaded[i].Record = light(record)
		} else if s.used[ref.ToolCallID] {
			loaded[i].Err = store.ErrBehind
		}
	}
	return loaded, nil
}

func light(r harness.Record) *harness.Record {
	r.Request, r.RawResponse, r.AgentResult = nil, nil, nil
	return &r
}

// Completed implements processor.Store.
func (p *ports) Completed(_ context.Context, id string) ([]harness.Record, error) {
	if err := p.storeEnter(); err != nil {
		return nil, err
	}
	s := p.w.records.runs[id]
	if s == nil {
		return nil, nil
	}
	var completed []harness.Record
	for _, entry := range s.done {
		_, id, _ := strings.Cut(entry, " ")
		if record, ok := s.calls[id]; ok {
			completed = append(completed, *light(record))
		}
	}
	slices.SortFunc(completed, func(a, b harness.Record) int { return int(a.Call) - int(b.Call) })
	return completed, nil
}

// Project implements processor.Store.
func (p *ports) Project(_ context.Context, projections []store.Projection) []error {
	errs := make([]error, len(projections))
	err := p.storeEnter()
	for i, projection := range projections {
		if errs[i] = err; err == nil {
			errs[i] = p.w.records.project(projection)
		}
	}
	if err == nil && p.w.chance(p.w.faults.StoreLostReply) {
		for i := range errs {
			errs[i] = errStoreDown
		}
	}
	return errs
}

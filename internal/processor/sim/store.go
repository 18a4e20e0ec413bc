package sim

import (
	"context"
	"errors"
	"maps"
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
	done  []string // "<call> <tool call id>"
}

func newRecords() *records { return &records{runs: make(map[string]*storedRun)} }

func (r *records) clone() *records {
	out := newRecords()
	for id, s := range r.runs {
		out.runs[id] = &storedRun{run: cloneRun(&s.run), calls: maps.Clone(s.calls), done: slices.Clone(s.done)}
	}
	return out
}

func cloneRun(r *harness.Run) harness.Run {
	out := *r
	out.Usage.CallsByTool = maps.Clone(r.Usage.CallsByTool)
	out.Calls = maps.Clone(r.Calls)
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
	case stands >= p.Run.Sequence:
		return nil
	case stands < p.From:
		return store.ErrBehind
	case stands > p.From:
		return nil // another owner went on; it will go on from there
	}
	if s == nil {
		s = &storedRun{calls: make(map[string]harness.Record)}
		r.runs[p.Run.ID] = s
	}
	for _, change := range p.Records {
		s.change(change)
	}
	s.run = cloneRun(p.Run)
	return nil
}

func (s *storedRun) change(c store.RecordChange) {
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

// LoadRecords implements processor.Store.
func (p *ports) LoadRecords(_ context.Context, refs []store.RecordRef) ([]store.Loaded, error) {
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
		if record, ok := s.calls[ref.ToolCallID]; ok {
			loaded[i].Record = light(record)
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
		completed = append(completed, *light(s.calls[id]))
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

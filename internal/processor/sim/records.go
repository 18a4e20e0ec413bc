package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
)

// records is the simulated store: what the script in internal/store does, over
// maps.
type records struct {
	runs map[string]*storedRun
}

// storedRun is the keys of one run. They expire together.
type storedRun struct {
	run     *harness.Run // nil where it was lost
	listed  int          // how long the run says that the list is
	held    int          // how many operations and ids the run says that there are
	done    []completed
	ops     map[string]harness.ModelOperation
	used    map[string]bool // tool call ids
	calls   map[string]harness.Record
	expires time.Time
}

// completed is an entry of the list of completed calls.
type completed struct {
	call uint64
	id   string
}

func newRecords() *records { return &records{runs: make(map[string]*storedRun)} }

func (r *records) clone() *records {
	out := newRecords()
	for id, s := range r.runs {
		copied := *s
		copied.done, copied.ops, copied.used, copied.calls = slices.Clone(s.done), maps.Clone(s.ops), maps.Clone(s.used), maps.Clone(s.calls)
		out.runs[id] = &copied // what run points at never changes
	}
	return out
}

// get gives the keys of a run that have not expired.
func (r *records) get(id string, now time.Time) *storedRun {
	s := r.runs[id]
	if s != nil && !now.Before(s.expires) {
		delete(r.runs, id)
		return nil
	}
	return s
}

func (s *storedRun) sequence() uint64 {
	if s == nil || s.run == nil {
		return 0
	}
	return s.run.Sequence
}

func cloneRun(r *harness.Run) *harness.Run {
	out := *r
	out.Usage.CallsByTool = maps.Clone(r.Usage.CallsByTool)
	out.Calls = maps.Clone(r.Calls)
	out.Recent = slices.Clone(r.Recent)
	out.Open = make([]*harness.Record, len(r.Open))
	for i, c := range r.Open {
		open := *c
		out.Open[i] = &open
	}
	return &out
}

// lost says that the store has lost something of a run, which it drops.
func (s *storedRun) lost() error {
	s.run, s.listed, s.held, s.done = nil, 0, 0, nil
	return store.ErrBehind
}

// project takes one run from one fact to a later one, and reports whether it
// wrote. The order of the checks is that of the script.
func (r *records) project(p *store.Projection, now time.Time) (wrote bool, err error) {
	if err := check(p); err != nil {
		return false, err
	}
	if p.From == p.Run.Sequence || !now.Before(p.Run.ExpiresAt) {
		return false, nil
	}
	s, whole := r.get(p.Run.ID, now), p.From == 0
	at := s.sequence()
	if at > 0 {
		switch {
		case !s.run.StartedAt.Equal(p.Run.StartedAt) || s.run.StartCause.Sequence != p.Run.StartCause.Sequence:
			return false, fmt.Errorf("%w: another history", store.ErrConflict)
		case !whole && (len(s.done) != s.listed || len(s.ops)+len(s.used) != s.held):
			return false, s.lost()
		case at == p.Run.Sequence && s.run.Digest != p.Run.Digest:
			return false, fmt.Errorf("%w: another digest", store.ErrConflict)
		case p.Run.Sequence < at, p.Run.Sequence == at && !whole:
			return false, nil
		}
	}
	if at < p.From {
		return false, store.ErrBehind
	}
	if s == nil {
		s = &storedRun{ops: map[string]harness.ModelOperation{}, used: map[string]bool{}, calls: map[string]harness.Record{}}
	}
	for _, change := range p.Records {
		if err := s.checkChange(&change); err != nil {
			return false, err
		}
	}
	r.runs[p.Run.ID] = s
	s.write(p, whole, at)
	return true, nil
}

// checkChange looks at what is there of a record.
func (s *storedRun) checkChange(c *store.RecordChange) error {
	have, exists := s.calls[c.Record.ToolCallID]
	switch {
	case !exists && !c.Reserved:
		return s.lost()
	case !exists:
		return nil
	case have.Call != c.Record.Call || !have.ReservedAt.Equal(c.Record.ReservedAt):
		return fmt.Errorf("%w: another reservation", store.ErrConflict)
	case have.Status != events.StatusProjecting && c.Settled && have.Status != c.Record.Status:
		return fmt.Errorf("%w: another settlement", store.ErrConflict)
	}
	return nil
}

func (s *storedRun) write(p *store.Projection, whole bool, at uint64) {
	var open []*harness.Record
	if s.run != nil {
		open = s.run.Open
	}
	if whole {
		open, at, s.done = nil, 0, nil
		clear(s.ops)
		clear(s.used)
	}
	s.run, s.expires = cloneRun(p.Run), p.Run.ExpiresAt
	for _, op := range p.Operations {
		s.operation(*op)
	}
	for _, change := range p.Records {
		if change.Reserved {
			s.used[change.Record.ToolCallID] = true
		}
		s.change(&change)
		wasOpen := slices.ContainsFunc(open, func(c *harness.Record) bool { return c.Call == change.Record.Call })
		if change.Settled && (wasOpen || at < change.Record.Call) {
			s.done = append(s.done, completed{change.Record.Call, change.Record.ToolCallID})
		}
	}
	s.listed, s.held = len(s.done), len(s.ops)+len(s.used)
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

// change writes a record that is not there or not settled.
func (s *storedRun) change(c *store.RecordChange) {
	before, exists := s.calls[c.Record.ToolCallID]
	if exists && before.Status != events.StatusProjecting {
		return
	}
	after := *c.Record
	if exists && !c.Reserved {
		after.Request = before.Request
	}
	s.calls[after.ToolCallID] = after
}

// check is what the store demands of a projection before it asks the script.
func check(p *store.Projection) error {
	conflict := func(want string) error { return fmt.Errorf("%w: projection: want %s", store.ErrConflict, want) }
	if p.Run == nil || p.Run.Sequence == 0 || p.From > p.Run.Sequence {
		return conflict("a run that stands at fact From or further")
	}
	settled, open := 0, 0
	seen := make(map[string]bool, len(p.Records))
	for _, c := range p.Records {
		switch {
		case seen[c.Record.ToolCallID]:
			return conflict("one change for each record")
		case c.Reserved != (c.Record.Call > p.From):
			return conflict("Reserved exactly where the reservation lies after From")
		case !c.Reserved && !c.Settled, c.Settled != (c.Record.Status != events.StatusProjecting):
			return conflict("Settled exactly where the record is")
		case c.Settled:
			settled++
		default:
			open++
		}
		seen[c.Record.ToolCallID] = true
	}
	total := int64(0)
	for _, n := range p.Run.Calls {
		total += n
	}
	if p.From == 0 && (int64(settled) != total || open != len(p.Run.Open)) {
		return conflict("every settled and every open call of a run that is written anew")
	}
	return nil
}

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/progress"
)

// Projection takes one run, its records and its model operations from fact From
// to fact Run.Sequence. It must hold what all facts in between changed.
type Projection struct {
	Run     *harness.Run   // as it stands after the last fact
	From    uint64         // the fact at which the store stands; 0 writes everything anew
	Records []RecordChange // one for each record that a fact in between touched

	// Each that a fact in between touched, as it stands after the last of them.
	// Granted or Reported may be zero where its fact lies before From: what the
	// store has of it then stays.
	Operations []*harness.ModelOperation
}

// RecordChange is the change of one record: which of its transitions lie after
// From, and its state after the last of them, with the bytes that they brought
// (Request; RawResponse where RawStored; AgentResult where READY). Bytes that
// are lost to the caller too may be nil.
type RecordChange struct {
	Record   *harness.Record
	Reserved bool
	Settled  bool
}

// A projection with more than that is written in stages, so that no single
// script holds up the server or passes what it takes in one command: 2^20
// arguments, which the last stage reaches at some 100,000 calls.
const (
	stageRecords = 500
	stageBytes   = 8 << 20
)

// stage says what of a projection a call writes.
type stage uint8

const (
	stageOfRun      stage = iota // the run, its operations and its records: all of it
	stageOfRecords               // some of its records, ahead of the run
	stageOfRunAlone              // the run and its operations, whose records stages have written
)

func (s stage) name() string {
	if s == stageOfRecords {
		return "records"
	}
	return "run"
}

// Project brings the store to where the runs are, in one pipeline. It gives one
// error for each projection: nil (the run stands at Run.Sequence or further, or
// has expired), a *BehindError, ErrConflict, events.ErrNewer or ErrUnavailable.
// Projecting the same again is harmless.
func (s *Store) Project(ctx context.Context, projections []Projection) []error {
	errs := make([]error, len(projections))
	stages := make([][]*scriptCall, len(projections))
	var calls []*scriptCall
	for i := range projections {
		p := &projections[i]
		if err := p.check(); err != nil {
			errs[i] = conflict("projection: %w", err)
			continue
		}
		if p.From == p.Run.Sequence {
			continue
		}
		if stages[i], errs[i] = s.prepare(p); errs[i] == nil {
			calls = append(calls, stages[i]...)
		}
	}
	s.evaluate(ctx, calls)
	for i := range projections {
		for _, c := range stages[i] {
			if errs[i] == nil {
				errs[i] = c.outcome()
			}
		}
	}
	return errs
}

func (c *scriptCall) outcome() error {
	reply, err := c.reply()
	if err != nil {
		return err
	}
	return answer(reply)
}

// prepare makes the calls of one projection: usually one, and for a large one
// stages before it that write records alone.
func (s *Store) prepare(p *Projection) ([]*scriptCall, error) {
	keys, err := s.keys.of(p.Run.ID)
	if err != nil {
		return nil, conflict("projection: %w", err)
	}
	records := make([]string, len(p.Records))
	for i, c := range p.Records {
		if records[i], err = s.keys.record(p.Run.ID, c.Record.ToolCallID); err != nil {
			return nil, conflict("projection: %w", err)
		}
	}
	return stages(p, keys, records)
}

func stages(p *Projection, keys runKeys, records []string) ([]*scriptCall, error) {
	var calls []*scriptCall
	staged := cutStage(p.Records) < len(p.Records)
	for from := 0; staged && from < len(p.Records); {
		to := from + cutStage(p.Records[from:])
		call, err := encodeCallOf(p, stageOfRecords, keys, records[from:to], p.Records[from:to])
		if err != nil {
			return nil, err
		}
		calls, from = append(calls, call), to
	}
	last := stageOfRun
	if staged {
		last = stageOfRunAlone
	}
	call, err := encodeCallOf(p, last, keys, records, p.Records)
	if err != nil {
		return nil, err
	}
	return append(calls, call), nil
}

// cutStage gives how many of the changes go into the next stage.
func cutStage(changes []RecordChange) int {
	size := 0
	for i, c := range changes {
		size += len(c.Record.Request) + len(c.Record.RawResponse) + len(c.Record.AgentResult)
		if i > 0 && (i == stageRecords || size > stageBytes) {
			return i
		}
	}
	return len(changes)
}

// encodeCallOf writes keys and arguments as the script lists them.
func encodeCallOf(p *Projection, stage stage, keys runKeys, records []string, changes []RecordChange) (*scriptCall, error) {
	run := p.Run
	call := newScriptCall(3+len(records), 64+40*len(changes)+6*len(p.Operations))
	call.add(keys.run, keys.done, keys.ops)
	for _, key := range records {
		call.add(key)
	}
	call.add(layoutVersion, stage.name(), p.From, run.Sequence, run.Digest, run.ExpiresAt.UnixMilli(),
		run.StartedAt.UnixMilli(), run.StartCause.Sequence, run.StartCause.ID)

	e := encoder{args: call.args}
	e.counted(func() {
		if stage != stageOfRecords {
			encodeRun(&e, p)
		}
	})
	e.counted(func() {
		if stage != stageOfRecords {
			for _, op := range p.Operations {
				e.operation(op)
			}
			for i := range changes {
				if changes[i].Reserved {
					e.add(callField(changes[i].Record.ToolCallID), changes[i].Record.Call)
				}
			}
		}
	})
	for i := range changes {
		e.change(&changes[i], stage != stageOfRunAlone)
	}
	if e.err != nil {
		return nil, conflict("projection: %w", e.err)
	}
	call.args = e.args
	return call, nil
}

// counted puts the number of arguments that fill adds before them.
func (e *encoder) counted(fill func()) {
	at := len(e.args)
	e.args = append(e.args, 0)
	fill()
	e.args[at] = len(e.args) - at - 1
}

func (e *encoder) change(c *RecordChange, withFields bool) {
	r, entry := c.Record, ""
	if c.Settled {
		entry = progress.Identity{Call: r.Call, ToolCallID: r.ToolCallID}.String()
	}
	e.args = append(e.args, flag(c.Reserved), flag(c.Settled), r.Call, r.ReservedAt.UnixMilli(),
		r.ExpiresAt.UnixMilli(), string(r.Status), entry)
	e.counted(func() {
		if !withFields {
			return
		}
		parts := part(0)
		if c.Reserved {
			e.add("v", layoutVersion)
			parts |= onCreate
		}
		if c.Settled {
			parts |= onChange
		}
		encode(e, recordFields, parts, r)
	})
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return ""
}

// check reports what does not hold together. Here a broken invariant of the
// caller is first seen, and costs one run.
func (p *Projection) check() error {
	run := p.Run
	if run == nil || run.Sequence == 0 || p.From > run.Sequence {
		return errors.New("want a run that stands at fact From or further")
	}
	if run.StartedAt.IsZero() || run.ExpiresAt.IsZero() {
		return errors.New("want a run with StartedAt and ExpiresAt")
	}
	reserved, settled := 0, 0
	seen := make(map[string]bool)
	for i := range p.Records {
		c := &p.Records[i]
		if err := c.check(p); err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
		if seen[c.Record.ToolCallID] {
			return fmt.Errorf("change %d: want one change for each record", i)
		}
		seen[c.Record.ToolCallID] = true
		if c.Settled {
			settled++
		} else {
			reserved++
		}
	}
	if p.From == 0 && (settled != run.Settled() || reserved != len(run.Open)) {
		return errors.New("written anew: want every settled and every open call of the run, got " +
			strconv.Itoa(settled) + " and " + strconv.Itoa(reserved))
	}
	return p.checkOperations()
}

// settles reports whether a call settles after From.
func (p *Projection) settles() bool {
	return slices.ContainsFunc(p.Records, func(c RecordChange) bool { return c.Settled })
}

func (c *RecordChange) check(p *Projection) error {
	r := c.Record
	switch {
	case r == nil || r.RunID != p.Run.ID:
		return errors.New("want a record of the run")
	case r.Call == 0 || r.Call > p.Run.Sequence || c.Reserved != (r.Call > p.From):
		return errors.New("want Reserved exactly where the reservation lies after From")
	case !c.Reserved && !c.Settled:
		return errors.New("want a transition")
	case c.Settled != (r.Status != events.StatusProjecting):
		return errors.New("want Settled exactly where the record is")
	}
	if err := c.checkBytes(); err != nil {
		return err
	}
	return checkRecord(r)
}

func (c *RecordChange) checkBytes() error {
	r := c.Record
	switch {
	case c.Reserved && r.Request != nil && int64(len(r.Request)) != r.RequestBytes:
		return errors.New("want as many bytes of request as the record says")
	case r.RawResponse != nil && !r.RawStored:
		return errors.New("want no raw response that the record says is not stored")
	case c.Settled && r.RawResponse != nil && int64(len(r.RawResponse)) != r.RawBytes:
		return errors.New("want as many bytes of raw response as the record says")
	}
	return nil
}

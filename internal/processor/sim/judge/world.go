package judge

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dispatch takes a message of DISPATCH. batch is that of the process, since
// before it looked at the call's deadline.
func (j *Judge) Dispatch(m Message, batch Batch) {
	tokens := strings.Split(m.Subject, ".") // <prefix>.dispatch.<executor>.<run>.<sequence>
	if len(tokens) != 5 {
		j.violation("%s is no subject of a dispatch", m.Subject)
		return
	}
	if j.dispatches[m.Subject] {
		j.violation("%s was dispatched twice", m.Subject)
	}
	j.dispatches[m.Subject] = true
	r := j.run(tokens[3])
	sequence, err := strconv.ParseUint(tokens[4], 10, 64)
	if err != nil || r.state == nil || r.state.calls[sequence] == nil {
		r.violation("call %s was dispatched without a reservation", tokens[4])
		return
	}
	c := r.state.calls[sequence]
	if c.dispatched {
		r.violation("call %d was dispatched twice", sequence)
	}
	c.dispatched = true
	if c.Executor != tokens[2] {
		r.violation("call %d of %s was dispatched to %s", sequence, c.Executor, tokens[2])
	}
	// The store takes nothing that has expired by its own clock.
	if r.projected < sequence && m.Time.UnixMilli() < r.state.ExpiresAt {
		r.violation("call %d was dispatched before its record stood: the store has been at fact %d", sequence, r.projected)
	}
	if batch.Earliest.UnixMilli() >= c.Deadline {
		r.violation("call %d was dispatched at %v or later, after its deadline %v", sequence, batch.Earliest, time.UnixMilli(c.Deadline).UTC())
	}
}

// Ran takes that an executor runs the tool of a dispatch.
func (j *Judge) Ran(runID, id, subject string) {
	if j.ran[id]++; j.ran[id] > 1 {
		j.violation("dispatch %s of run %s ran %d times", id, runID, j.ran[id])
	}
	if !j.dispatches[subject] {
		j.violation("%s ran, and was not dispatched", subject)
	}
}

// Scheduled takes that a schedule of a run was stored; earliest is the first of
// those that have not fired.
func (j *Judge) Scheduled(runID string, at, earliest time.Time) {
	r := j.run(runID)
	r.schedules[at.UnixMilli()], r.wakes = true, earliest
}

// Fired takes that a schedule of a run is gone, and its tick will come by
// Inbound; earliest is the first of the others, zero where there is none.
func (j *Judge) Fired(runID string, earliest time.Time) { j.run(runID).wakes = earliest }

// Disturbed takes that the world removed records of a run from the store.
func (j *Judge) Disturbed(runID string) { j.run(runID).disturbed = true }

// Stored is what the store has of a run after a projection.
type Stored struct {
	Before     uint64 // the fact at which the run stood before it
	Run        Run
	Records    []Record // those that the projection changed, or all
	Operations []Operation
	Done       []string // tool call ids of the completed calls
	All        bool     // Records and Operations are all that the store has
}

// Projected takes a projection, after the store has it.
func (j *Judge) Projected(runID string, got Stored) {
	r := j.run(runID)
	n := got.Run.Sequence
	if n < got.Before {
		r.violation("the store goes back from fact %d to %d", got.Before, n)
	}
	if n == 0 || n > uint64(len(r.facts)) {
		r.violation("the store stands at fact %d, and there are %d", n, len(r.facts))
		return
	}
	r.projected = max(r.projected, n)
	want := r.at(n)
	want.Repeats = want.repetitions()
	if timer := got.Run.TimerAt; timer != 0 && !r.schedules[timer] {
		r.violation("the store says that a timer stands at %v, and none was set", time.UnixMilli(timer).UTC())
	}
	d := got.Run.compare(&want.Run)
	for i := range got.Records {
		d = append(d, got.Records[i].against(want)...)
	}
	for i := range got.Operations {
		if op := want.operations[got.Operations[i].ID]; op == nil {
			d = append(d, "operation "+got.Operations[i].ID+" is in no fact")
		} else {
			d = append(d, got.Operations[i].compare(op)...)
		}
	}
	if !slices.Equal(slices.Sorted(slices.Values(got.Done)), slices.Sorted(slices.Values(want.done))) {
		differ(&d, "completed calls", strings.Join(got.Done, " "), strings.Join(want.done, " "))
	}
	for _, difference := range d {
		r.violation("stored at fact %d: %s", n, difference)
	}
}

func (got *Record) against(want *state) differences {
	c := want.records[got.ToolCallID]
	if c == nil {
		return differences{"record " + got.ToolCallID + " is in no fact"}
	}
	return got.compare(&c.Record)
}

// Moved takes that the position of a partition stands at an inbound sequence
// now: what comes before it is never read again.
func (j *Judge) Moved(number int, position uint64, now time.Time, batch Batch) {
	p := j.partitions[strconv.Itoa(number)]
	if p == nil || p.covered > 0 && position < p.events[p.covered-1].sequence {
		j.violation("the position of partition %d goes back to %d", number, position)
		return
	}
	touched := make(map[string]bool)
	for p.covered < len(p.events) && p.events[p.covered].sequence <= position {
		e := p.events[p.covered]
		p.covered++
		j.finished(e, now, batch)
		j.run(e.run).unread--
		touched[e.run] = true
	}
	for _, id := range slices.Sorted(maps.Keys(touched)) {
		j.runs[id].checkWakes(batch)
	}
}

// checkWakes holds that a run which goes on will be looked at when something is
// due in it, once nothing of it is left to be read.
func (r *run) checkWakes(batch Batch) {
	s := r.state
	if s == nil || s.Phase == phaseTerminated || r.unread > 0 {
		return
	}
	next := s.next()
	switch last := r.facts[len(r.facts)-1]; {
	case r.wakes.IsZero():
		r.violation("the position moves on, and nothing will wake the run: it is %s and has no timer", s.Phase)
	case !last.decision && last.by != batch.Process: // after this owner looked; it wakes later
	case r.wakes.UnixMilli() > next:
		r.violation("the position moves on, and the run wakes at %v, while something is due at %v", r.wakes, time.UnixMilli(next).UTC())
	}
}

// finished holds that an event is answered, and all that follows from it done.
func (j *Judge) finished(e *event, now time.Time, batch Batch) {
	if e.decided+e.dead == 0 && e.verb != "tick" {
		if before := j.effects[e.name()]; e.id == "" || before == 0 || before >= e.sequence {
			j.violation("the position passes event %d (%s of run %s), which has no answer", e.sequence, e.verb, e.run)
		}
	}
	if len(e.facts) == 0 {
		return
	}
	latest := batch.Latest
	if now.After(latest) {
		latest = now
	}
	r := j.runs[e.run]
	for _, n := range e.facts {
		// What was merely due may have come of another owner's clock, after this one
		// looked; whoever wakes the run next finds it.
		own := r.facts[n-1].decision || r.facts[n-1].by == batch.Process
		if own && n > r.projected && latest.UnixMilli() < r.state.ExpiresAt {
			r.violation("the position passes event %d, and fact %d is not projected; the store has been at %d", e.sequence, n, r.projected)
		}
		c := r.state.calls[n]
		if c != nil && !c.dispatched && c.Status == statusProjecting && latest.UnixMilli() < c.Deadline && r.state.Phase == phaseRunning {
			r.violation("the position passes event %d, and call %d is not dispatched", e.sequence, n)
		}
	}
}

// End takes that the world has come to rest: what must have happened by now.
func (j *Judge) End() {
	for _, number := range slices.Sorted(maps.Keys(j.partitions)) {
		if p := j.partitions[number]; p.covered < len(p.events) {
			j.violation("partition %s: %d events are not passed by the position", number, len(p.events)-p.covered)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(j.runs)) {
		r := j.runs[id]
		if r.state == nil {
			continue
		}
		if r.state.Phase != phaseTerminated {
			r.violation("it is %s for ever, with %d open calls; its last is %v", r.state.Phase, len(r.state.Open), r.facts[len(r.facts)-1])
		}
	}
}

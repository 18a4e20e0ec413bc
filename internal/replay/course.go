package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"
)

// course is one run as it would have been.
type course struct {
	id    string
	state harness.State
	begun bool   // as it was recorded
	left  string // why its events are left out; empty where they are not

	calls    map[uint64]uint64 // recorded reservation → its event
	here     map[uint64]uint64 // event → reservation here
	noResult map[uint64]bool   // reservations here that were refused
	told     map[string]bool   // keys of the late results that were told
}

// Why a run is not as it was recorded.
const (
	goesOnHere     = "its end was recorded, and is none here"
	unreadableHere = "its history cannot be read"
	unbegunHere    = "it has not begun here" // that leaves nothing out
)

func newCourse(id string) *course {
	return &course{id: id, calls: make(map[uint64]uint64), here: make(map[uint64]uint64), noResult: make(map[uint64]bool), told: make(map[string]bool)}
}

// wasRecorded takes the run past a fact as it stands. The error is errHistory
// where it does not follow.
func (c *course) wasRecorded(f *events.Fact, at harness.Stored) error {
	if f.Sequence == 0 {
		c.told[f.OutsideKey] = true
		return nil
	}
	if _, reserved := f.Payload.(*events.ToolReserved); reserved {
		c.calls[f.Sequence], c.here[f.Cause.Sequence] = f.Cause.Sequence, f.Sequence
	}
	if _, err := c.state.Apply(f, at); err != nil {
		return fmt.Errorf("%w: %w", errHistory, err)
	}
	return nil
}

// event decides one event, at the recorded instant or else at its own time.
func (w *whatIf) event(ctx context.Context, c *course, a *arrival, at time.Time) error {
	m, err := w.in.message(ctx, a)
	if err != nil && !errors.Is(err, stream.ErrNotFound) {
		return err
	}
	w.in.answered(c.id, a.sequence)
	if err != nil { // it was there when IN was read
		w.tally.aged++
		return nil //nolint:nilerr // it is counted
	}
	if m.Time.After(w.last) {
		w.last = m.Time
	}
	in, err := w.in.decode(m)
	if err != nil {
		return nil //nolint:nilerr // it is kept for the operator under any policy
	}
	if c.left != "" {
		return nil
	}
	w.tally.events++
	now := harness.Now(at, c.state.Run, in)
	if err := w.timers(c, now); err != nil {
		return err
	}
	now = harness.Now(now, c.state.Run, in)
	if err := w.due(c, in, now); err != nil {
		return err
	}
	if !w.redirect(c, in) {
		w.tally.fellAway++
		return nil
	}
	if err := w.take(c, w.rules.Decide(&c.state, in, now).Fact); err != nil {
		return err
	}
	return w.due(c, in, now)
}

// redirect lets a result answer the dispatch that its call has here. It reports
// false where there is none.
func (w *whatIf) redirect(c *course, in *events.Inbound) bool {
	result, ok := in.Payload.(*events.ToolResult)
	if !ok {
		return true
	}
	number, ours := strings.CutPrefix(result.DispatchID, c.id+".")
	recorded, err := strconv.ParseUint(number, 10, 64)
	event, dispatched := c.calls[recorded]
	if !ours || err != nil || !dispatched {
		return true // it answers nothing that was dispatched
	}
	here, reserved := c.here[event]
	if reserved {
		p := *result
		p.DispatchID = events.DispatchID(c.id, here)
		in.Payload = &p
	}
	return reserved
}

// timers lets everything come due up to an instant, each at its own.
func (w *whatIf) timers(c *course, until time.Time) error {
	for c.state.Run != nil {
		at, ok := c.state.Run.NextDue()
		if !ok || at.After(until) {
			return nil
		}
		before := c.state.Run.Sequence
		tick := &events.Inbound{ID: string(events.VerbTick), Address: events.Address{Role: events.RoleTimer, Principal: c.id, Run: c.id, Verb: events.VerbTick}}
		if err := w.due(c, tick, harness.Now(at, c.state.Run, nil)); err != nil {
			return err
		}
		if c.state.Run.Sequence == before {
			return nil
		}
	}
	return nil
}

func (w *whatIf) due(c *course, in *events.Inbound, now time.Time) error {
	for c.state.Run != nil {
		if harness.Needs(c.state.Run, nil).Completed {
			c.state.Completed = settled(&c.state)
		}
		fact := w.rules.Due(&c.state, in, now)
		if fact == nil {
			return nil
		}
		if err := w.take(c, fact); err != nil {
			return err
		}
	}
	return nil
}

// take counts a fact that would have been, and goes on from it.
func (w *whatIf) take(c *course, f *events.Fact) error {
	if f == nil {
		return nil
	}
	if f.Kind() == events.KindToolLate {
		if c.told[f.OutsideKey] {
			return nil // it is told once
		}
		c.told[f.OutsideKey] = true
	}
	unknown := false
	if p, ok := f.Payload.(*events.ToolSettled); ok {
		unknown = c.noResult[p.Call]
	}
	w.tally.wouldBe(f, unknown)
	touched, err := c.state.Apply(f, harness.Stored{Sequence: f.Sequence})
	if err != nil {
		return fmt.Errorf("run %s under the other policy: %w", c.id, err)
	}
	if touched != nil {
		touched.AgentResult = nil
	}
	if _, reserved := f.Payload.(*events.ToolReserved); reserved {
		c.here[f.Cause.Sequence], c.noResult[f.Sequence] = f.Sequence, true // until a recorded one shows
	}
	return nil
}

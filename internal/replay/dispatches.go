package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"
)

// dispatchCheck reads DISPATCH beside RUNS. What a reservation leads to and what
// was dispatched cancel each other out as they come, in whichever order; so what
// is left are the few that are in flight, and what is wrong.
type dispatchCheck struct {
	stretch  DispatchStretch
	cursor   Cursor
	ahead    []stream.Message
	done     bool
	expected map[string]expectedDispatch // by subject
	found    map[string][]foundDispatch  // likewise
	same     int64
}

type expectedDispatch struct {
	run      string
	call     uint64
	sum      [sha256.Size]byte
	size     int64
	deadline time.Time
	event    uint64 // the intent
	decided  func() bool
	reserved uint64 // message of RUNS
	stored   time.Time
}

type foundDispatch struct {
	sequence uint64
	sum      [sha256.Size]byte
}

func newDispatchCheck(s DispatchStretch) *dispatchCheck {
	return &dispatchCheck{stretch: s, expected: make(map[string]expectedDispatch), found: make(map[string][]foundDispatch)}
}

// sumOf gives one digest of all that a dispatch must have: each part with its
// length before it, attributes in order. Headers that NATS adds are left out.
func sumOf(header map[string][]string, data []byte) (sum [sha256.Size]byte) {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if isAttribute(name) {
			fmt.Fprintf(&b, "%q %q\n", name, header[name])
		}
	}
	b.Write(data)
	return sha256.Sum256(b.Bytes())
}

// upTo reads what was dispatched until then.
func (d *dispatchCheck) upTo(ctx context.Context, until time.Time) error {
	for d != nil && !d.done {
		if len(d.ahead) == 0 {
			messages, err := d.cursor.Next(ctx)
			if err != nil {
				return fmt.Errorf("read %s: %w", stream.StreamDispatch, err)
			}
			d.ahead, d.done = messages, len(messages) == 0
			continue
		}
		m := &d.ahead[0]
		if m.Time.After(until) {
			return nil
		}
		d.take(m.Subject, foundDispatch{sequence: m.Sequence, sum: sumOf(m.Header, m.Data)})
		d.ahead = d.ahead[1:]
	}
	return nil
}

func (d *dispatchCheck) take(subject string, f foundDispatch) {
	if want, ok := d.expected[subject]; ok && want.sum == f.sum {
		delete(d.expected, subject)
		d.same++
		return
	}
	d.found[subject] = append(d.found[subject], f)
}

// reserved notes what a tool.reserved leads to.
func (v *verifier) reserved(r *trial, f *events.Fact, in *events.Inbound, m *stream.Message) {
	d := v.dispatches
	p, isReservation := f.Payload.(*events.ToolReserved)
	call, isCall := in.Payload.(*events.ToolCall)
	if d == nil || !isReservation || !isCall || m.Time.Before(d.stretch.KeptAt.Add(-clockMargin)) {
		return
	}
	partition, ordinal := r.partition, r.ordinal
	header, data := events.EncodeDispatch(f.Agent, events.Dispatch{
		RunID: f.Run, ToolCallID: p.ToolCallID, DispatchID: events.DispatchID(f.Run, f.Sequence), Tool: p.Tool, Arguments: call.Arguments, Deadline: p.Deadline,
	}, f.Time, f.Cause)
	subject := v.subjects.Dispatch(p.Executor, f.Run, f.Sequence)
	want := expectedDispatch{
		run: f.Run, call: f.Sequence, sum: sumOf(header, data), size: int64(len(data)), deadline: p.Deadline, event: in.Sequence, reserved: m.Sequence, stored: m.Time,
		decided: func() bool { return v.isDecided(partition, in.Sequence, ordinal) },
	}
	for i, f := range d.found[subject] {
		if f.sum != want.sum {
			continue
		}
		if d.found[subject] = slices.Delete(d.found[subject], i, i+1); len(d.found[subject]) == 0 {
			delete(d.found, subject)
		}
		d.same++
		return
	}
	d.expected[subject] = want
}

// checkDispatches reports what is left when all was read.
func (v *verifier) checkDispatches(ctx context.Context) error {
	d := v.dispatches
	if d == nil {
		return nil
	}
	for !d.done {
		if err := d.upTo(ctx, time.Unix(1<<40, 0)); err != nil {
			return err
		}
	}
	v.report.Dispatches = d.same
	for _, subject := range slices.Sorted(maps.Keys(d.found)) {
		for _, f := range d.found[subject] {
			if err := v.dispatched(ctx, subject, f); err != nil {
				return err
			}
		}
	}
	for _, subject := range slices.Sorted(maps.Keys(d.expected)) {
		if want := d.expected[subject]; v.mustBeDispatched(want) {
			v.differ(Difference{
				What: OtherDispatch, Run: want.run, Sequence: want.call, Kind: events.KindToolReserved, Stream: want.reserved, Event: want.event,
				Why: "the call is open and its time is not over, and DISPATCH does not have it",
			})
		}
	}
	return nil
}

// mustBeDispatched reports whether a reserved call must stand in DISPATCH. One
// that nobody could be given before its time was over, or that is larger than a
// message may be, is never dispatched, and settles as a timeout.
func (v *verifier) mustBeDispatched(want expectedDispatch) bool {
	s := v.dispatches.stretch
	r := v.runs[want.run]
	if r == nil || r.beyond != "" || r.state.Run == nil || !want.decided() || s.Largest > 0 && want.size+dispatchHeaders > s.Largest || !want.deadline.After(s.At.Add(v.cfg.Skew)) || want.stored.Before(s.KeptAt.Add(clockMargin)) {
		return false
	}
	return slices.ContainsFunc(r.state.Run.Open, func(c *harness.Record) bool { return c.Call == want.call })
}

// dispatchHeaders is more than what the headers of a dispatch take.
const dispatchHeaders = 16 << 10

// dispatched judges a dispatch that no reservation of the stretch leads to as it
// is: by its run as that stands at the end.
func (v *verifier) dispatched(ctx context.Context, subject string, f foundDispatch) error {
	differ := func(run string, call, event uint64, why string) {
		d := Difference{What: OtherDispatch, Run: run, Sequence: call, Event: event, Why: fmt.Sprintf("message %d of DISPATCH, %s: %s", f.sequence, shown(subject), why)}
		v.differ(d)
	}
	tokens := strings.Split(subject, ".")
	number, err := strconv.ParseUint(tokens[len(tokens)-1], 10, 64)
	if err != nil || len(tokens) < 3 || !events.ValidName(tokens[len(tokens)-2]) {
		differ("", 0, 0, "its subject names no call")
		return nil //nolint:nilerr // it is told
	}
	run := tokens[len(tokens)-2]
	r, err := v.trial(ctx, head{outside: true, run: run}, v.cfg.Stretch.FactsTo+1)
	if err != nil {
		return err
	}
	if r.beyond != "" {
		v.report.unchecked(r.beyond, 1)
		return nil
	}
	var record *harness.Record
	for _, known := range r.state.Records {
		if known.Call == number {
			record = known
		}
	}
	if r.state.Run == nil {
		aged, err := v.mayHaveAged(ctx, run)
		if err != nil {
			return err
		}
		if aged {
			v.report.unchecked(UncheckedHistoryAged, 1)
			return nil
		}
	}
	switch want, ok := v.dispatches.expected[subject]; {
	case record == nil:
		differ(run, 0, 0, fmt.Sprintf("fact %d of its run reserves no call", number))
		return nil
	case ok && want.sum != f.sum:
		differ(run, number, want.event, "it is not what its reservation leads to")
		delete(v.dispatches.expected, subject)
		return nil
	}
	return v.dispatchedAgain(ctx, r, record, subject, f, differ)
}

// dispatchedAgain judges a dispatch whose reservation lies before what is read of
// RUNS or DISPATCH, or that was dispatched before.
func (v *verifier) dispatchedAgain(ctx context.Context, r *trial, record *harness.Record, subject string, f foundDispatch, differ func(string, uint64, uint64, string)) error {
	m, err := v.in.read(ctx, record.Cause.Sequence)
	if errors.Is(err, stream.ErrNotFound) {
		v.report.unchecked(UncheckedEventAged, 1)
		return nil
	}
	if err != nil {
		return err
	}
	first, err := v.cfg.Streams.First(ctx, stream.StreamDispatch, subject)
	if err != nil {
		return err
	}
	in, err := v.in.decode(m)
	call, isCall := (*events.ToolCall)(nil), false
	if err == nil {
		call, isCall = in.Payload.(*events.ToolCall)
	}
	if !isCall {
		v.report.unchecked(UncheckedAfterDifference, 1)
		return nil
	}
	header, data := events.EncodeDispatch(r.state.Run.Agent, events.Dispatch{
		RunID: r.id, ToolCallID: record.ToolCallID, DispatchID: events.DispatchID(r.id, record.Call), Tool: record.Tool, Arguments: call.Arguments, Deadline: record.Deadline,
	}, record.ReservedAt, record.Cause)
	switch {
	case subject != v.subjects.Dispatch(record.Executor, r.id, record.Call), sumOf(header, data) != f.sum:
		differ(r.id, record.Call, record.Cause.Sequence, "it is not what its reservation leads to")
	case first != nil && first.Sequence < f.sequence:
		differ(r.id, record.Call, record.Cause.Sequence, "its call was dispatched before")
	default:
		v.report.Dispatches++
	}
	return nil
}

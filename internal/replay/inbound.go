package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"runledger/internal/events"
	"runledger/internal/stream"
)

// defaultWindow bounds the bytes of events that were read and wait for their
// facts. Beyond it those that wait longest are let go of: only their sequence is
// kept, and they are read once more when their turn comes. One partition may lie
// far behind another, and an agent may send what nothing will ever answer.
const defaultWindow = 64 << 20

// mostWaiting is how many events of one run may wait.
const mostWaiting = 1 << 17

// inbound reads IN beside RUNS: as far as the facts at hand go, and keeps for
// each run the events that nothing has answered yet.
type inbound struct {
	streams  Streams
	subjects events.Subjects
	cursor   Cursor
	ahead    []stream.Message // read, not yet sorted in
	at       uint64           // last sequence that was sorted in
	done     bool

	pending    map[string][]*arrival // by run, in order
	partitions map[int]*partition
	window     int64
	held       int64      // bytes of messages in pending
	messages   int        // these
	holding    []*arrival // with their messages, the oldest first; some were answered since
	passed     int64      // what asked for nothing

	// ticked reports whether a tick of the run can matter: one that comes to a
	// run that has ended asks for nothing.
	ticked func(run string) bool
	// known reports whether a run began with that very event, so that it asks for
	// nothing more.
	known func(address events.Address, m *stream.Message) bool
	// unnamed takes what names no run: it must have been kept for the operator.
	unnamed func(ctx context.Context, m stream.Message, ordinal uint64) error
	// tooMany is told that a run has more than mostWaiting events that wait.
	tooMany func(run string)
	// gap is told of sequences that IN leaves out.
	gap func(ctx context.Context, after, next uint64) error
}

// partition is how far one partition was read, and how far it was decided for
// certain, in events of it.
type partition struct{ read, decided uint64 }

// newInbound reads what is below these subjects, with so many bytes of waiting
// events in memory. It passes over ticks and over what names no run, until it is
// told what to do with them.
func newInbound(streams Streams, subjects events.Subjects, window int64) *inbound {
	return &inbound{
		streams: streams, subjects: subjects, window: window, pending: make(map[string][]*arrival), partitions: make(map[int]*partition),
		ticked:  func(string) bool { return false },
		known:   func(events.Address, *stream.Message) bool { return false },
		unnamed: func(context.Context, stream.Message, uint64) error { return nil },
		tooMany: func(string) {},
		gap:     func(context.Context, uint64, uint64) error { return nil },
	}
}

// arrival is an event that waits for its answer.
type arrival struct {
	sequence  uint64
	ordinal   uint64 // its place in its partition; 0 where it was not read in turn
	partition int
	tick      bool
	early     bool            // it lies before the stretch
	message   *stream.Message // nil where it was let go of
	told      uint64          // the message of RUNS that told its agent INTERNAL_ERROR; 0 if none did
}

// upTo reads on until the event with that sequence has been sorted in.
func (b *inbound) upTo(ctx context.Context, sequence uint64) error {
	for b.at < sequence && !b.done {
		if len(b.ahead) == 0 {
			messages, err := b.cursor.Next(ctx)
			if err != nil {
				return fmt.Errorf("read %s: %w", stream.StreamIn, err)
			}
			if b.ahead, b.done = messages, len(messages) == 0; b.done {
				return nil
			}
		}
		if b.ahead[0].Sequence > sequence {
			return nil
		}
		m := b.ahead[0]
		b.ahead = b.ahead[1:]
		if m.Sequence > b.at+1 {
			if err := b.gap(ctx, b.at, m.Sequence); err != nil {
				return err
			}
		}
		if err := b.sort(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (b *inbound) sort(ctx context.Context, m stream.Message) error {
	b.at = m.Sequence
	number := b.subjects.PartitionOf(m.Subject)
	p := b.partitions[number]
	if p == nil {
		p = &partition{}
		b.partitions[number] = p
	}
	p.read++
	address, err := b.subjects.ParseInbound(m.Subject)
	if err != nil {
		return b.unnamed(ctx, m, p.read)
	}
	if address.Verb == events.VerbTick && !b.ticked(address.Run) || address.Verb == events.VerbRunStart && b.known(address, &m) {
		b.passed++
		return nil
	}
	a := &arrival{sequence: m.Sequence, ordinal: p.read, partition: number, tick: address.Verb == events.VerbTick}
	b.hold(a, m)
	if b.pending[address.Run] = append(b.pending[address.Run], a); len(b.pending[address.Run]) > mostWaiting {
		b.tooMany(address.Run)
	}
	return nil
}

// admit puts an event in line that was not read in turn.
func (b *inbound) admit(run string, m stream.Message) {
	a := &arrival{sequence: m.Sequence, partition: b.subjects.PartitionOf(m.Subject), early: true}
	b.hold(a, m)
	waiting := b.pending[run]
	at, _ := slices.BinarySearchFunc(waiting, a.sequence, func(a *arrival, sequence uint64) int { return cmp.Compare(a.sequence, sequence) })
	b.pending[run] = slices.Insert(waiting, at, a)
}

// hold keeps the message of an event, and lets go of those that have waited
// longest where there is no room.
func (b *inbound) hold(a *arrival, m stream.Message) {
	size := weight(&m)
	if size > b.window {
		return
	}
	for len(b.holding) > 0 && (b.holding[0].message == nil || b.held+size > b.window) {
		b.release(b.holding[0])
		b.holding[0] = nil
		b.holding = b.holding[1:]
	}
	if n := len(b.holding); n > 1024 && n > 4*b.messages { // those that were answered behind one that waits
		b.holding = slices.DeleteFunc(b.holding, func(a *arrival) bool { return a.message == nil })
	}
	b.held += size
	b.messages++
	a.message = &m
	b.holding = append(b.holding, a)
}

// release lets go of the message of an event.
func (b *inbound) release(a *arrival) {
	if a.message != nil {
		b.held -= weight(a.message)
		b.messages--
		a.message = nil
	}
}

// weight is roughly what a message takes in memory.
func weight(m *stream.Message) int64 {
	return int64(len(m.Data)+len(m.Subject)) + 64*int64(len(m.Header)) + 128
}

// find gives the waiting event of the run with that sequence, nil if there is
// none: it was answered before, or is another run's. It stays where it is.
func (b *inbound) find(run string, sequence uint64) *arrival {
	at, found := b.place(run, sequence)
	if !found {
		return nil
	}
	return b.pending[run][at]
}

// place finds where the event with that sequence waits.
func (b *inbound) place(run string, sequence uint64) (int, bool) {
	return slices.BinarySearchFunc(b.pending[run], sequence, func(a *arrival, sequence uint64) int { return cmp.Compare(a.sequence, sequence) })
}

// decided notes that an event was decided.
func (b *inbound) decided(a *arrival) {
	if p := b.partitions[a.partition]; p != nil {
		p.decided = max(p.decided, a.ordinal)
	}
}

// first gives the run's first waiting event before that sequence, nil if none.
func (b *inbound) first(run string, before uint64) *arrival {
	if waiting := b.pending[run]; len(waiting) > 0 && waiting[0].sequence < before {
		return waiting[0]
	}
	return nil
}

// answered takes an event out of those that wait.
func (b *inbound) answered(run string, sequence uint64) {
	at, found := b.place(run, sequence)
	if !found {
		return
	}
	waiting := b.pending[run]
	b.release(waiting[at])
	switch {
	case len(waiting) == 1:
		delete(b.pending, run)
	case at == 0:
		waiting[0] = nil
		b.pending[run] = waiting[1:]
	default:
		b.pending[run] = slices.Delete(waiting, at, at+1)
	}
}

// dropKnown forgets the events that wait for a run which has begun with that very
// event, as far as they are held.
func (b *inbound) dropKnown(run string) {
	waiting := b.pending[run]
	left := slices.DeleteFunc(waiting, func(a *arrival) bool {
		if a.message == nil || a.told != 0 || a.early {
			return false
		}
		address, err := b.subjects.ParseInbound(a.message.Subject)
		known := err == nil && address.Verb == events.VerbRunStart && b.known(address, a.message)
		if known {
			b.release(a)
			b.passed++
		}
		return known
	})
	if b.pending[run] = left; len(left) == 0 {
		delete(b.pending, run)
	}
}

// dropTicks forgets the ticks that wait for a run which has ended, and gives how
// many they were.
func (b *inbound) dropTicks(run string) (dropped int64) {
	for i := 0; i < len(b.pending[run]); {
		if a := b.pending[run][i]; a.tick {
			b.answered(run, a.sequence)
			dropped++
			continue
		}
		i++
	}
	return dropped
}

// drop forgets all that waits of a run.
func (b *inbound) drop(run string) {
	for _, a := range b.pending[run] {
		b.release(a)
	}
	delete(b.pending, run)
}

// What is in the place of an event that IN does not have: it was there, and is
// older than what IN keeps now, or it is not there though younger ones and older
// ones are. Both are stream.ErrNotFound.
var (
	errAged = fmt.Errorf("event has aged out: %w", stream.ErrNotFound)
	errGone = fmt.Errorf("event is not in %s: %w", stream.StreamIn, stream.ErrNotFound)
)

// message gives the whole event. One that was let go of may have aged out since:
// the error is stream.ErrNotFound then.
func (b *inbound) message(ctx context.Context, a *arrival) (stream.Message, error) {
	if a.message != nil {
		return *a.message, nil
	}
	return b.read(ctx, a.sequence)
}

func (b *inbound) read(ctx context.Context, sequence uint64) (stream.Message, error) {
	m, err := b.streams.Event(ctx, sequence)
	if !errors.Is(err, stream.ErrNotFound) {
		return m, err
	}
	kept, err := b.streams.EventsKept(ctx)
	switch {
	case err != nil:
		return m, err
	case sequence < kept:
		return m, fmt.Errorf("%w: %d", errAged, sequence)
	}
	return m, fmt.Errorf("%w: %d", errGone, sequence)
}

func (b *inbound) decode(m stream.Message) (*events.Inbound, error) {
	return events.Decode(b.subjects, events.Message{
		Subject: m.Subject, Header: m.Header, Data: m.Data, Sequence: m.Sequence, Time: m.Time,
	})
}

package replay

import (
	"context"
	"errors"
	"fmt"

	"runledger/internal/events"
	"runledger/internal/stream"
)

// defaultWindow bounds the bytes of events that were read and wait for their
// facts. Of what comes beyond it only the sequence is kept, and the event is
// read once more when its turn comes: one partition may lie far behind another.
const defaultWindow = 64 << 20

// inbound reads IN beside RUNS: as far as the facts at hand go, and keeps for
// each run the events that nothing has answered yet.
type inbound struct {
	streams  Streams
	subjects events.Subjects
	cursor   Cursor
	ahead    []stream.Message // read, not yet sorted in
	at       uint64           // last sequence that was sorted in
	done     bool

	pending map[string][]arrival // by run, in order
	window  int64
	held    int64 // bytes of messages in pending
	passed  int64 // ticks that asked for nothing

	// ticked reports whether a tick of the run can matter: one that comes to a
	// run that has ended asks for nothing.
	ticked func(run string) bool
	// unnamed takes what names no run: it must have been kept for the operator.
	unnamed func(ctx context.Context, m stream.Message, why error) error
}

// newInbound reads what is below these subjects, with so many bytes of waiting
// events in memory. It passes over ticks and over what names no run, until it is
// told what to do with them.
func newInbound(streams Streams, subjects events.Subjects, window int64) *inbound {
	return &inbound{
		streams: streams, subjects: subjects, window: window, pending: make(map[string][]arrival),
		ticked:  func(string) bool { return false },
		unnamed: func(context.Context, stream.Message, error) error { return nil },
	}
}

// arrival is an event that waits for its answer.
type arrival struct {
	sequence  uint64
	partition int
	tick      bool
	message   stream.Message // without subject where it was let go of
	told      bool           // its agent got INTERNAL_ERROR
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
		if err := b.sort(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (b *inbound) sort(ctx context.Context, m stream.Message) error {
	b.at = m.Sequence
	address, err := b.subjects.ParseInbound(m.Subject)
	if err != nil {
		return b.unnamed(ctx, m, err)
	}
	if address.Verb == events.VerbTick && !b.ticked(address.Run) {
		b.passed++
		return nil
	}
	a := arrival{sequence: m.Sequence, partition: b.subjects.PartitionOf(m.Subject), tick: address.Verb == events.VerbTick}
	if size := weight(&m); b.held+size <= b.window {
		b.held += size
		a.message = m
	}
	b.pending[address.Run] = append(b.pending[address.Run], a)
	return nil
}

// weight is roughly what a message takes in memory.
func weight(m *stream.Message) int64 {
	return int64(len(m.Data)+len(m.Subject)) + 64*int64(len(m.Header)) + 128
}

// find gives the waiting event of the run with that sequence, nil if there is
// none: it was answered before, or is another run's. It stays where it is.
func (b *inbound) find(run string, sequence uint64) *arrival {
	for i := range b.pending[run] {
		if a := &b.pending[run][i]; a.sequence == sequence {
			return a
		}
	}
	return nil
}

// first gives the run's first waiting event before that sequence, nil if none.
func (b *inbound) first(run string, before uint64) *arrival {
	if waiting := b.pending[run]; len(waiting) > 0 && waiting[0].sequence < before {
		return &waiting[0]
	}
	return nil
}

// answered takes an event out of those that wait.
func (b *inbound) answered(run string, sequence uint64) {
	waiting := b.pending[run]
	for i := range waiting {
		if waiting[i].sequence != sequence {
			continue
		}
		if waiting[i].message.Subject != "" {
			b.held -= weight(&waiting[i].message)
		}
		if len(waiting) == 1 {
			delete(b.pending, run)
			return
		}
		if i == 0 {
			waiting[0] = arrival{} // so that its message can go
			b.pending[run] = waiting[1:]
			return
		}
		b.pending[run] = append(waiting[:i], waiting[i+1:]...)
		return
	}
}

// dropTicks forgets the ticks that wait for a run which has ended, and gives how
// many they were.
func (b *inbound) dropTicks(run string) (dropped int64) {
	for i := 0; i < len(b.pending[run]); {
		if a := &b.pending[run][i]; a.tick {
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
		if a.message.Subject != "" {
			b.held -= weight(&a.message)
		}
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
	if a.message.Subject != "" {
		return a.message, nil
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

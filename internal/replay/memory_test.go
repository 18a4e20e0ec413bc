package replay_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"runledger/internal/replay"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// memory is streams as they were recorded. A test changes its own copy.
type memory struct {
	runs, in, invalid []stream.Message
	dispatch          []stream.Message
	policies          map[string][]byte
	stretch           replay.Stretch
	kept              uint64 // first event that IN still has; 0 where none has aged out
	lost              bool   // every event ages out once it was read with the others
}

func (m *memory) clone() *memory {
	c := *m
	c.runs, c.in, c.invalid, c.dispatch = copies(m.runs), copies(m.in), copies(m.invalid), copies(m.dispatch)
	if m.stretch.Dispatches != nil {
		dispatches := *m.stretch.Dispatches
		c.stretch.Dispatches = &dispatches
	}
	c.stretch.Positions = maps.Clone(m.stretch.Positions)
	c.policies = maps.Clone(m.policies)
	return &c
}

func copies(messages []stream.Message) []stream.Message {
	out := slices.Clone(messages)
	for i := range out {
		out[i].Header = nats.Header{}
		for name, values := range messages[i].Header {
			out[i].Header[name] = slices.Clone(values)
		}
		out[i].Data = slices.Clone(messages[i].Data)
	}
	return out
}

// remove takes a message out of RUNS and leaves the sequences of the others.
func (m *memory) remove(sequence uint64) {
	m.runs = slices.DeleteFunc(m.runs, func(f stream.Message) bool { return f.Sequence == sequence })
}

// fact gives the message of RUNS with that sequence.
func (m *memory) fact(sequence uint64) *stream.Message {
	for i := range m.runs {
		if m.runs[i].Sequence == sequence {
			return &m.runs[i]
		}
	}
	return nil
}

// cursor hands out a few messages at a time.
type cursor struct{ left []stream.Message }

func (c *cursor) Next(context.Context) ([]stream.Message, error) {
	n := min(7, len(c.left))
	batch := c.left[:n]
	c.left = c.left[n:]
	return batch, nil
}

func (c *cursor) Close() {}

func stretchOf(messages []stream.Message, from, to uint64) *cursor {
	var left []stream.Message
	for _, m := range messages {
		if m.Sequence >= from && m.Sequence <= to {
			left = append(left, m)
		}
	}
	return &cursor{left}
}

func (m *memory) Facts(_ context.Context, from, to uint64) (replay.Cursor, error) {
	return stretchOf(m.runs, from, to), nil
}

func (m *memory) Events(_ context.Context, from, to uint64) (replay.Cursor, error) {
	return stretchOf(m.in, from, to), nil
}

func (m *memory) Event(_ context.Context, sequence uint64) (stream.Message, error) {
	for _, e := range m.in {
		if e.Sequence == sequence && !m.lost {
			return e, nil
		}
	}
	return stream.Message{}, stream.ErrNotFound
}

func (m *memory) EventsKept(context.Context) (uint64, error) {
	if m.lost {
		return m.stretch.EventsTo + 1, nil
	}
	return m.kept, nil
}

func (m *memory) Said(_ context.Context, run string, before uint64, fn func(stream.Message) error) error {
	for _, f := range m.runs {
		if f.Sequence < before && strings.Split(f.Subject, ".")[4] == run {
			if err := fn(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) DeadLetter(_ context.Context, subject string) (*stream.Message, error) {
	for i := range m.invalid {
		if m.invalid[i].Subject == subject {
			return &m.invalid[i], nil
		}
	}
	return nil, nil
}

func (m *memory) Letters(context.Context) (replay.Cursor, error) {
	return stretchOf(m.invalid, 0, math.MaxUint64), nil
}

func (m *memory) Dispatches(_ context.Context, from, to uint64) (replay.Cursor, error) {
	return stretchOf(m.dispatch, from, to), nil
}

func (m *memory) First(_ context.Context, name, filter string) (*stream.Message, error) {
	for _, e := range map[string][]stream.Message{stream.StreamIn: m.in, stream.StreamRuns: m.runs, stream.StreamDispatch: m.dispatch}[name] {
		if stream.Matches(filter, e.Subject) {
			return &e, nil
		}
	}
	return nil, nil
}

func (m *memory) Get(_ context.Context, digest string) ([]byte, error) {
	if content, ok := m.policies[digest]; ok {
		return content, nil
	}
	return nil, stream.ErrNotFound
}

func (m *memory) Digests(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(m.policies)), nil
}

package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamRuns     = "RUNS"
	streamDispatch = "DISPATCH"
)

// Count reads DISPATCH and RUNS from their start to where they end now. A run
// that is still going on is reported as one that never terminated, so count when
// work has ended. An error says that the streams could not be read to the end.
func Count(ctx context.Context, js jetstream.JetStream, prefix string) (*Report, error) {
	c := &counter{
		prefix: prefix + ".",
		report: &Report{Rejected: map[string]int64{}, Terminated: map[string]int64{}},
		runs:   map[string]*run{}, dispatched: map[callID][]dispatch{},
		decided: map[string]uint64{}, refused: map[string]bool{},
	}
	// Dispatches first: each of them then has its reservation among the facts.
	if err := readAll(ctx, js, streamDispatch, c.dispatch); err != nil {
		return nil, err
	}
	if err := readAll(ctx, js, streamRuns, c.fact); err != nil {
		return nil, err
	}
	c.finish()
	return c.report, nil
}

// readAll hands every message of the stream, up to the last one now, to take.
func readAll(ctx context.Context, js jetstream.JetStream, name string, take func(message)) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("audit: stream %s: %w", name, err)
	}
	if stream.CachedInfo().State.Msgs == 0 {
		return nil
	}
	last := stream.CachedInfo().State.LastSeq
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return fmt.Errorf("audit: read stream %s: %w", name, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("audit: read stream %s: %w", name, err)
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("audit: read stream %s: %w", name, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("audit: read stream %s: %w", name, err)
		}
		if meta.Sequence.Stream <= last {
			take(message{subject: msg.Subject(), header: msg.Headers(), data: msg.Data(), sequence: meta.Sequence.Stream})
		}
		if meta.Sequence.Stream >= last {
			return nil
		}
	}
}

type message struct {
	subject  string
	header   map[string][]string
	data     []byte
	sequence uint64 // in its stream
}

// callID names a call by its run and the sequence of its reservation there.
type callID struct {
	run      string
	sequence uint64
}

type dispatch struct {
	executor   string
	toolCallID string
	stream     uint64
}

type counter struct {
	prefix     string
	report     *Report
	runs       map[string]*run
	dispatched map[callID][]dispatch
	decided    map[string]uint64 // inbound sequence to the fact that decided it
	refused    map[string]bool   // refused tool.call events, by source and id
}

// violation notes one broken promise.
func (c *counter) violation(format string, args ...any) {
	c.report.ViolationCount++
	if len(c.report.Violations) < MaxViolations {
		c.report.Violations = append(c.report.Violations, fmt.Sprintf(format, args...))
	}
}

// finish looks at what only shows at the end.
func (c *counter) finish() {
	for _, id := range slices.Sorted(maps.Keys(c.runs)) {
		if r := c.runs[id]; r.terminated == 0 {
			c.violation("run %s never terminated; its last fact is %d", id, r.last)
		}
	}
	ids := slices.SortedFunc(maps.Keys(c.dispatched), func(a, b callID) int {
		return cmp.Or(strings.Compare(a.run, b.run), cmp.Compare(a.sequence, b.sequence))
	})
	for _, id := range ids {
		c.checkDispatches(id, c.dispatched[id])
	}
}

func (c *counter) checkDispatches(id callID, all []dispatch) {
	for _, again := range all[1:] {
		c.report.DuplicateDispatches++
		c.violation("call %d of run %s was dispatched again at %d of %s, first at %d", id.sequence, id.run, again.stream, streamDispatch, all[0].stream)
	}
	var reserved *call
	if r := c.runs[id.run]; r != nil {
		reserved = r.calls[id.sequence]
	}
	switch first := all[0]; {
	case reserved == nil:
		c.violation("call %d of run %s was dispatched at %d of %s without a reservation", id.sequence, id.run, first.stream, streamDispatch)
	case reserved.executor != first.executor:
		c.violation("call %d of run %s was reserved for executor %s and dispatched to %s", id.sequence, id.run, reserved.executor, first.executor)
	case reserved.toolCallID != first.toolCallID:
		c.violation("call %d of run %s was reserved as %.80q and dispatched as %.80q", id.sequence, id.run, reserved.toolCallID, first.toolCallID)
	}
}

var errSubject = errors.New("not a subject of this stream")

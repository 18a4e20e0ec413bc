package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamIn       = "IN"
	streamRuns     = "RUNS"
	streamDispatch = "DISPATCH"
	streamInvalid  = "INVALID"
)

// patience is how long Count waits for the answer to an event while none comes.
const patience = 5 * time.Second

// Count reads IN, DISPATCH, RUNS and INVALID from their start to where they end
// now, and waits a while for the answers to events of IN that have none yet. A
// run that is still going on is reported as one that never terminated, so count
// when work has ended. An error says that the streams could not be read to the
// end.
func Count(ctx context.Context, js jetstream.JetStream, prefix string) (*Report, error) {
	return count(ctx, js, prefix, patience)
}

func count(ctx context.Context, js jetstream.JetStream, prefix string, patience time.Duration) (*Report, error) {
	c := &counter{
		prefix: prefix + ".", patience: patience,
		report: &Report{Rejected: map[string]int64{}, Terminated: map[string]int64{}, DeadLetters: map[string]int64{}},
		runs:   map[string]*run{}, dispatched: map[callID][]dispatch{},
		events: map[uint64]inbound{}, decided: map[uint64]uint64{}, kept: map[uint64]uint64{},
		internal: map[uint64]bool{}, refused: map[string]bool{},
	}
	if _, err := read(ctx, js, streamIn, 0, c.inbound); err != nil {
		return nil, err
	}
	// Dispatches before facts: each of them then has its reservation among these.
	if _, err := read(ctx, js, streamDispatch, 0, c.dispatch); err != nil {
		return nil, err
	}
	if err := c.readAnswers(ctx, js); err != nil {
		return nil, err
	}
	c.finish()
	return c.report, nil
}

// readAnswers reads facts and dead letters until every event has its answer, or
// none has come for a while.
func (c *counter) readAnswers(ctx context.Context, js jetstream.JetStream) error {
	var facts, letters uint64
	open, since := -1, time.Now()
	for {
		var err error
		if facts, err = read(ctx, js, streamRuns, facts, c.fact); err != nil {
			return err
		}
		if letters, err = read(ctx, js, streamInvalid, letters, c.deadLetter); err != nil {
			return err
		}
		now := len(c.unanswered())
		if now != open {
			open, since = now, time.Now()
		}
		if open == 0 || time.Since(since) >= c.patience {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("audit: %d events wait for their answer: %w", open, ctx.Err())
		}
	}
}

// read hands every message of the stream above after, up to the last one now,
// to take, and gives the sequence of the last.
func read(ctx context.Context, js jetstream.JetStream, name string, after uint64, take func(message)) (uint64, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return after, fmt.Errorf("audit: stream %s: %w", name, err)
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 || state.LastSeq <= after {
		return after, nil
	}
	return state.LastSeq, readTo(ctx, stream, name, after, state.LastSeq, take)
}

func readTo(ctx context.Context, stream jetstream.Stream, name string, after, last uint64, take func(message)) error {
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	})
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
	patience   time.Duration
	report     *Report
	runs       map[string]*run
	dispatched map[callID][]dispatch
	events     map[uint64]inbound // of IN, by sequence
	decided    map[uint64]uint64  // inbound sequence to the fact that decided it
	kept       map[uint64]uint64  // inbound sequence to the dead letter that it is
	internal   map[uint64]bool    // inbound sequences that were answered INTERNAL_ERROR
	refused    map[string]bool    // refused tool.call events, by source and id
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
	c.checkAnswers()
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

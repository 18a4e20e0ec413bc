package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"runledger/internal/events"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
)

// floorRun is what must be known of a run.
type floorRun struct {
	last  uint64 // stream sequence of its last fact
	facts uint64
	wave  int // in which it had a fact last
}

type floorStep struct {
	fact     *messageTemplate
	writes   []commandTemplate
	dispatch *messageTemplate
}

// floorEvent is an event of a batch and what it leads to.
type floorEvent struct {
	step      *floorStep
	values    values
	run       *floorRun
	partition int
}

func (r recipe) newStep(s step) floorStep {
	f := floorStep{fact: r.newMessage(s.Fact), writes: r.newCommands(s.Writes)}
	if s.Dispatch != nil {
		f.dispatch = r.newMessage(*s.Dispatch)
	}
	return f
}

// read waits for an event, and takes all that are there. It takes none where a
// position is to move before one comes.
func (f *floor) read(ctx context.Context) error {
	f.batch = f.batch[:0]
	var due <-chan time.Time // nil while no position is to move
	if at := f.positions.due(); !at.IsZero() {
		f.timer.Reset(time.Until(at))
		defer f.timer.Stop()
		due = f.timer.C
	}
	select {
	case m := <-f.in:
		if err := f.add(m); err != nil {
			return err
		}
	case <-due:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	for len(f.batch) < floorBatch {
		select {
		case m := <-f.in:
			if err := f.add(m); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// add takes an event into the batch: the run from its subject, the call from its
// data. Other events than the load's are passed over.
func (f *floor) add(m *nats.Msg) error {
	if err := f.pull.took(m); err != nil {
		return err
	}
	// harness v1 part <n> in <role> <principal> <run> <verb>
	tokens := strings.SplitN(m.Subject, ".", 9)
	if len(tokens) < 9 {
		return nil
	}
	partition, err := strconv.Atoi(tokens[3])
	if err != nil || partition < 0 || partition >= partitions {
		return fmt.Errorf("an event came on %s, want partition 0 to %d", m.Subject, partitions-1)
	}
	e := floorEvent{partition: partition, values: values{run: tokens[7]}}
	switch events.Verb(tokens[8]) {
	case events.VerbRunStart:
		e.step = &f.start
	case events.VerbToolCall:
		e.step = &f.reserve
	case events.VerbToolResult:
		e.step = &f.settle
	default:
		return nil
	}
	e.values.call, _ = toolCallID(m.Data)
	e.run = f.runs[e.values.run]
	if e.run == nil {
		e.run = &floorRun{}
		f.runs[e.values.run] = e.run
	}
	f.batch = append(f.batch, e)
	return nil
}

// commit publishes the facts, in waves: of each run one at a time.
func (f *floor) commit(ctx context.Context) error {
	f.now = f.now[:0]
	for i := range f.batch {
		f.now = append(f.now, i)
	}
	for len(f.now) > 0 {
		f.wave++
		wave, later := f.now[:0], f.later[:0]
		for _, i := range f.now {
			e := &f.batch[i]
			if e.run.wave == f.wave {
				later = append(later, i) // the fact before must have its sequence
				continue
			}
			e.run.wave = f.wave
			e.run.facts++
			e.values.dispatch = e.values.run + "." + strconv.FormatUint(e.run.facts, 10)
			if err := f.publish(e.step.fact, e.values, i, e.run.last); err != nil {
				return err
			}
			wave = append(wave, i)
		}
		err := f.wait(ctx, len(wave), func(place int, sequence uint64) { f.batch[place].run.last = sequence })
		if err != nil {
			return err
		}
		f.now, f.later = later, wave
	}
	return nil
}

func (f *floor) publish(t *messageTemplate, v values, place int, expect uint64) error {
	return f.nc.PublishMsg(t.with(v, f.inbox+"."+strconv.Itoa(place), expect))
}

// wait takes the acks of what was published since the last wait.
func (f *floor) wait(ctx context.Context, count int, fn func(place int, sequence uint64)) error {
	for range count {
		select {
		case m := <-f.acks:
			place, err := strconv.Atoi(m.Subject[len(f.inbox)+1:])
			if err != nil {
				return fmt.Errorf("an ack came on %s", m.Subject)
			}
			sequence, err := ackSequence(m.Data)
			if err != nil {
				return fmt.Errorf("the stream refused a message of the floor: %w", err)
			}
			fn(place, sequence)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// project sends the commands of the batch in one pipeline.
func (f *floor) project(ctx context.Context) error {
	pipe := f.redis.Pipeline()
	for i := range f.batch {
		e := &f.batch[i]
		for _, t := range e.step.writes {
			_ = pipe.Process(ctx, redis.NewCmd(ctx, t.with(e.values)...)) // only queues it
		}
	}
	if pipe.Len() == 0 {
		return nil
	}
	_, err := pipe.Exec(ctx)
	if err != nil {
		return fmt.Errorf("the commands of the floor: %w", err)
	}
	return nil
}

func (f *floor) dispatch(ctx context.Context) error {
	published := 0
	for i := range f.batch {
		if e := &f.batch[i]; e.step.dispatch != nil {
			if err := f.publish(e.step.dispatch, e.values, published, 0); err != nil {
				return err
			}
			published++
		}
	}
	return f.wait(ctx, published, func(int, uint64) {})
}

package sim

import (
	"context"
	"errors"
	"time"

	"runledger/internal/processor"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

var errCrashed = errors.New("simulated process has crashed")

// maxCalls bounds how often one batch may call the outside: more than any that
// ends.
const maxCalls = 5000

// enter is called before everything that a process does outside itself. Once it
// has crashed every call fails, and nothing that it does has an effect.
func (t *tenure) enter() error {
	w := t.w
	if t.calls++; t.calls > maxCalls {
		panic("sim: a batch does not end")
	}
	if t.process.crashed {
		return errCrashed
	}
	if w.chance(w.faults.Crash) {
		w.crash(t.process)
		return errCrashed
	}
	if w.depth < 2 && w.chance(w.faults.Stall) {
		w.stall(t)
	}
	if t.process.crashed {
		return errCrashed
	}
	return nil
}

// stall lets the others go on.
func (w *world) stall(t *tenure) {
	w.counts[Stalls]++
	w.tell("%s stalls", t.process.name)
	w.depth++
	for range 1 + w.random.IntN(6) {
		w.clock = w.clock.Add(w.between(0, 300*1e6))
		w.step()
	}
	w.depth--
	w.tell("%s goes on", t.process.name)
}

// answer is a publish whose outcome the simulated server has decided.
type answer struct {
	sequence uint64
	err      error
}

// Wait implements processor.Pending.
func (a answer) Wait(context.Context) (uint64, error) { return a.sequence, a.err }

// Publish implements processor.Publisher.
func (t *tenure) Publish(msg *nats.Msg, expect stream.Expect) processor.Pending {
	if t.batch.Earliest.IsZero() {
		t.now()
	}
	batch := t.batch // as it is before the process stalls
	if err := t.enter(); err != nil {
		return answer{err: err}
	}
	w := t.w
	if tokenOf(msg.Subject, 1) != "dispatch" {
		t.batch.Earliest = time.Time{}
	}
	if w.chance(w.faults.LostRequest) {
		w.counts[LostPublishes]++
		w.tell("%s has no answer for %s", t.process.name, msg.Subject)
		if w.chance(0.5) { // it is on its way still, and lands later
			w.adrift = append(w.adrift, func() {
				w.tell("what was adrift lands")
				_, _ = w.publish(msg, expect, batch)
			})
		}
		return answer{err: stream.ErrUnanswered}
	}
	sequence, err := w.publish(msg, expect, batch)
	if w.chance(w.faults.LostReply) {
		w.counts[LostPublishes]++
		w.tell("%s has no answer", t.process.name)
		return answer{err: stream.ErrUnanswered}
	}
	return answer{sequence, err}
}

// Last implements processor.History.
func (t *tenure) Last(_ context.Context, filter string) (*stream.Message, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	return t.w.runs.lastOf(filter), nil
}

// From implements processor.History.
func (t *tenure) From(_ context.Context, filter string, sequence uint64, fn func(stream.Message) error) error {
	if err := t.reads(); err != nil {
		return err
	}
	for _, m := range t.w.runs.under(filter, sequence) {
		if err := fn(m); err != nil {
			return err
		}
	}
	return nil
}

// Inbound implements processor.History.
func (t *tenure) Inbound(_ context.Context, sequence uint64) (stream.Message, error) {
	if err := t.reads(); err != nil {
		return stream.Message{}, err
	}
	if sequence == 0 || sequence > uint64(len(t.w.in.messages)) {
		return stream.Message{}, stream.ErrNotFound
	}
	return t.w.in.messages[sequence-1], nil
}

// reads is enter for what only reads the streams; it may go unanswered.
func (t *tenure) reads() error {
	if err := t.enter(); err != nil {
		return err
	}
	if t.w.chance(t.w.faults.LostReply) {
		return stream.ErrUnanswered
	}
	return nil
}

package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// batch is some consecutive events of one partition on their way through.
type batch struct {
	w        *Worker
	messages []stream.Message
	chains   []*chain // one a run, in order of first event
}

// run carries the batch through every stage. After an error nothing may be
// assumed of what was done; running the messages again as a new batch is right.
func (b *batch) run(ctx context.Context) error {
	undecodable := b.decode()
	if err := b.storeAll(ctx, undecodable); err != nil {
		return err
	}
	if err := b.commit(ctx); err != nil {
		return err
	}
	if err := b.setTimers(ctx); err != nil {
		return err
	}
	if err := b.project(ctx, b.runs()); err != nil {
		return err
	}
	if err := b.dispatchAll(ctx); err != nil {
		return err
	}
	reserved := 0
	for _, c := range b.chains {
		reserved += len(c.run.reserved)
		c.run.rest()
	}
	b.w.hot.boundIDs(reserved)
	return nil
}

// decode sorts the messages into chains by run, and gives those that are no
// events at all as publications for the operator.
func (b *batch) decode() (undecodable []*publication) {
	byRun := make(map[string]*chain, len(b.messages))
	for _, m := range b.messages {
		in, err := events.Decode(b.w.cfg.Subjects, events.Message{
			Subject: m.Subject, Header: m.Header, Data: m.Data, Sequence: m.Sequence, Time: m.Time,
		})
		if err != nil {
			undecodable = append(undecodable, b.undecodable(m, err))
			continue
		}
		c := byRun[in.Run]
		if c == nil {
			c = &chain{run: b.w.hot.get(in.Run)}
			byRun[in.Run] = c
			b.chains = append(b.chains, c)
		}
		c.queue = append(c.queue, in)
	}
	return undecodable
}

func (b *batch) runs() []*hotRun {
	runs := make([]*hotRun, len(b.chains))
	for i, c := range b.chains {
		runs[i] = c.run
	}
	return runs
}

// flight is a publication of a chain that is not answered yet.
type flight struct {
	chain       *chain
	publication *publication
	pending     Pending
}

// commit answers every event. Each chain has at most one message in flight;
// answers are awaited in the order of publishing, which is that in which the
// stream gives them, and each lets its chain go on at once.
func (b *batch) commit(ctx context.Context) error {
	ready, needy, flights := b.chains, []*chain(nil), []flight(nil)
	for len(ready) > 0 || len(flights) > 0 {
		for _, c := range ready {
			s, err := b.next(c)
			switch {
			case err != nil:
				b.poisonChain(c, harness.ReasonBrokenInvariant, err)
				needy = append(needy, c)
			case c.reloads > maxReloads:
				return fmt.Errorf("run %s was overtaken %d times in one batch", c.run.id, c.reloads)
			case s.load:
				needy = append(needy, c)
			case s.publish != nil:
				flights = append(flights, flight{c, s.publish, b.w.cfg.Publisher.Publish(s.publish.msg, s.publish.expect)})
			}
		}
		ready = nil
		switch {
		case len(flights) > 0:
			landed := flights[0]
			flights = flights[1:]
			if err := b.land(ctx, landed); err != nil {
				return err
			}
			ready = []*chain{landed.chain}
		case len(needy) > 0:
			if err := b.load(ctx, needy); err != nil {
				return err
			}
			ready, needy = needy, nil
		}
	}
	return nil
}

// maxReloads bounds how often a run is loaded anew within a batch, before that
// backs off and is tried again.
const maxReloads = 8

// land takes the answer to a publication.
func (b *batch) land(ctx context.Context, f flight) error {
	sequence, err := f.pending.Wait(ctx)
	switch {
	case err == nil:
		if err := b.stored(f.chain, f.publication, sequence); err != nil {
			b.poisonChain(f.chain, harness.ReasonBrokenInvariant, err)
		}
		return nil
	case errors.Is(err, stream.ErrStale):
		return b.refused(ctx, f.chain, f.publication)
	case tooLarge(err):
		return b.oversized(ctx, f.chain, f.publication, err)
	default:
		return fmt.Errorf("publish %s: %w", f.publication.msg.Subject, err)
	}
}

// refused handles a message that the stream did not take because something was
// there before: our own from an earlier try, another owner's, or, for a late
// result, that of an earlier one.
func (b *batch) refused(ctx context.Context, c *chain, p *publication) error {
	if p.prelude || p.fact != nil && p.fact.Sequence > 0 {
		b.w.cfg.Metrics.reloads.Inc()
		c.reload()
		return nil
	}
	if p.fact == nil || p.fact.Kind() != events.KindToolLate {
		c.answered(p) // its key is the event's own: an earlier try stored it
		return nil
	}
	told, err := b.w.cfg.History.Last(ctx, p.msg.Subject)
	if err != nil {
		return err
	}
	if told == nil {
		return fmt.Errorf("read %s: it was refused as stored before, and is not there", p.msg.Subject)
	}
	first, _, err := events.DecodeFact(b.w.cfg.Subjects, told.Subject, told.Header, told.Data)
	if err == nil && first.Cause.Sequence == p.in.Sequence {
		c.answered(p)
		return nil
	}
	again := b.deadLetter(p.in, harness.ReasonLateAgain, "")
	if err := b.storeAll(ctx, []*publication{again}); err != nil {
		return err
	}
	c.answered(again)
	return nil
}

// storeAll stores messages that are made once by their subjects, side by side.
// One that is there already is as good.
func (b *batch) storeAll(ctx context.Context, publications []*publication) error {
	pending := make([]Pending, len(publications))
	for i, p := range publications {
		pending[i] = b.w.cfg.Publisher.Publish(p.msg, p.expect)
	}
	for i, p := range publications {
		_, err := pending[i].Wait(ctx)
		if tooLarge(err) {
			err = b.storeSmaller(ctx, p, err)
		}
		if err != nil && !errors.Is(err, stream.ErrStale) {
			return fmt.Errorf("publish %s: %w", p.msg.Subject, err)
		}
		if err == nil {
			b.w.cfg.Metrics.stored(p)
		}
	}
	return nil
}

// poisonChain gives a run up for this batch: its events go to the operator.
func (b *batch) poisonChain(c *chain, reason harness.Reason, err error) {
	b.w.cfg.Log.Error().Err(err).Str("run", c.run.id).Str("reason", string(reason)).
		Msg("run cannot be worked with; its events are kept under invalid")
	b.w.hot.drop(c.run.id)
	c.poison = &poison{reason: reason, detail: err, applied: c.run.applied()}
	*c.run = hotRun{id: c.run.id, schedule: b.w.cfg.Clock().Truncate(wakeBroken).Add(wakeBroken)}
	c.begun, c.decided = false, false
}

// wakeBroken is when a run that was given up is looked at again: whoever mends
// its keys need not know how to wake it. Instants are whole multiples of it, so
// that however many batches give the run up, one schedule stands.
const wakeBroken = 30 * time.Second

// Headers of a dead letter, beside those of the event itself.
const (
	HeaderReason   = "Runledger-Reason"   // a harness.Reason
	HeaderDetail   = "Runledger-Detail"   // for the operator; bounded
	HeaderSubject  = "Runledger-Subject"  // as stored in IN
	HeaderSequence = "Runledger-Sequence" // in IN
	HeaderOmitted  = "Runledger-Omitted"  // bytes of an event that is too large to be kept twice; IN has it
)

const maxDetail = 512

// deadLetter keeps an event, whole, where an operator finds it.
func (b *batch) deadLetter(in *events.Inbound, reason harness.Reason, detail string) *publication {
	m := b.message(in.Sequence)
	p := b.dead(m, in.Role, in.Principal, reason, detail)
	p.in = in
	return p
}

func (b *batch) undecodable(m stream.Message, err error) *publication {
	role, principal := events.Role("unknown"), "unknown"
	if a, err := b.w.cfg.Subjects.ParseInbound(m.Subject); err == nil {
		role, principal = a.Role, a.Principal
	}
	return b.dead(m, role, principal, harness.ReasonUndecodable, err.Error())
}

func (b *batch) dead(m stream.Message, role events.Role, principal string, reason harness.Reason, detail string) *publication {
	header := nats.Header{}
	for key, values := range m.Header {
		if !isServerHeader(key) {
			header[key] = values
		}
	}
	b.explain(header, m, reason, detail)
	return &publication{
		msg: &nats.Msg{
			Subject: b.w.cfg.Subjects.Invalid(role, principal, m.Sequence), Header: header, Data: m.Data,
		},
		expect: stream.ExpectNew(), reason: reason, detail: detail, sequence: m.Sequence,
	}
}

// explain says in headers why an event is kept.
func (b *batch) explain(header nats.Header, m stream.Message, reason harness.Reason, detail string) {
	header[HeaderReason] = []string{string(reason)}
	header[HeaderDetail] = []string{printable(detail, maxDetail)}
	header[HeaderSubject] = []string{m.Subject}
	header[HeaderSequence] = []string{fmt.Sprint(m.Sequence)}
}

// message finds the message of an event of this batch.
func (b *batch) message(sequence uint64) stream.Message {
	for _, m := range b.messages {
		if m.Sequence == sequence {
			return m
		}
	}
	return stream.Message{Sequence: sequence}
}

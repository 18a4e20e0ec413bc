package processor

import (
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// chain is the events of one run in a batch, answered one after the other.
type chain struct {
	run   *hotRun
	queue []*events.Inbound

	reloads int  // in this batch
	begun   bool // now stands for the event at hand
	decided bool // its decision is stored; only what is due is left
	now     time.Time
	poison  *poison // set where the run cannot be worked with
}

// poison says why every event of a run goes to the operator.
type poison struct {
	reason  harness.Reason
	detail  error
	applied uint64 // events up to here were decided before
}

// spares reports whether an event has nothing to do with the operator: it was
// decided, or it is a tick, which nobody sent and which comes again.
func (p *poison) spares(in *events.Inbound) bool {
	return in.Sequence <= p.applied || in.Verb == events.VerbTick
}

// step is what a chain needs next: something loaded, or a message stored; the
// zero step is that it needs nothing more.
type step struct {
	load    bool
	publish *publication
}

// publication is a message to be stored, and what it is.
type publication struct {
	msg    *nats.Msg
	expect stream.Expect

	in         *events.Inbound
	fact       *events.Fact
	digest     string
	sequence   uint64 // in IN, of a dead letter
	decides    bool   // it is the answer to the event at hand
	prelude    bool   // it is said before the run has begun
	reason     harness.Reason
	dispatched string // the tool, of a dispatch
	detail     string
}

// next advances the chain until it needs something from outside. Rules that
// panic on one run must not end the process: they break that run's invariant.
func (b *batch) next(c *chain) (s step, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("%w: the rules panicked: %v", harness.ErrBrokenInvariant, recovered)
		}
	}()
	for len(c.queue) > 0 {
		in := c.queue[0]
		if c.poison != nil {
			if c.poison.spares(in) {
				c.pop()
				continue
			}
			return b.nextPoisoned(c, in)
		}
		if !c.run.loaded {
			return step{load: true}, nil
		}
		run := c.run.state.Run
		if !c.begun {
			c.begun, c.now = true, harness.Now(b.w.cfg.Clock(), run, in)
			if in.Sequence <= c.run.applied() { // what it led to may be unfinished
				c.decided, c.run.makeGood = true, true
			}
		}
		if !c.run.knows(harness.Needs(run, nil)) {
			return step{load: true}, nil
		}
		if fact := c.run.rules.Due(&c.run.state, in, c.now); fact != nil {
			return b.publishFact(c, in, fact, false, "")
		}
		if c.decided {
			c.pop()
			continue
		}
		if !c.run.knows(harness.Needs(run, in)) {
			return step{load: true}, nil
		}
		decision := c.run.rules.Decide(&c.run.state, in, c.now)
		switch {
		case decision.Fact != nil:
			return b.publishFact(c, in, decision.Fact, true, decision.Detail)
		case decision.DeadLetter != "":
			return step{publish: b.deadLetter(in, decision.DeadLetter, decision.Detail)}, nil
		}
		c.pop()
	}
	return step{}, nil
}

// pop goes on to the next event.
func (c *chain) pop() {
	c.queue = c.queue[1:]
	c.begun, c.decided = false, false
}

// reload lets the event at hand be answered anew, on a fresh state. Whoever
// overtook us may have stopped before it handed out the calls, so we do.
func (c *chain) reload() {
	c.reloads++
	*c.run = hotRun{id: c.run.id, makeGood: true}
	c.begun, c.decided = false, false
}

func (b *batch) publishFact(c *chain, in *events.Inbound, f *events.Fact, decides bool, detail string) (step, error) {
	encoded, err := f.Encode()
	if err != nil {
		return step{}, err
	}
	subjects := b.w.cfg.Subjects
	p := &publication{
		msg: &nats.Msg{Subject: f.Subject(subjects), Header: encoded.Header, Data: encoded.Data},
		in:  in, fact: f, digest: encoded.Digest, decides: decides, detail: detail,
	}
	switch {
	case c.poison != nil:
		p.expect = stream.ExpectNew()
	case c.run.state.Run == nil:
		p.expect, p.prelude = stream.ExpectLast(subjects.AllOf(f.Run), c.run.before.stream), true
	case f.Sequence == 0:
		p.expect = stream.ExpectNew()
	default:
		p.expect = stream.ExpectLast(subjects.History(f.Agent, f.Run), c.run.state.Run.Stream)
	}
	return step{publish: p}, nil
}

// stored takes the chain past a publication that the stream has stored.
func (b *batch) stored(c *chain, p *publication, sequence uint64) error {
	b.w.cfg.Metrics.stored(p)
	if p.fact == nil || p.fact.Sequence == 0 {
		if p.prelude {
			c.run.before = prelude{stream: sequence, inbound: p.in.Sequence}
		}
		c.answered(p)
		return nil
	}
	at := harness.Stored{Sequence: sequence, Digest: p.digest}
	if err := c.run.apply(p.fact, at, broughtBy(p.in)); err != nil {
		return err
	}
	c.decided = c.decided || p.decides
	return nil
}

// answered ends the event at hand, whose answer is no fact of the run's history.
func (c *chain) answered(p *publication) {
	if c.poison != nil && p.fact == nil && p.in.Role == events.RoleAgent {
		c.decided = true // the operator has it; the agent is told next
		return
	}
	c.pop()
}

// nextPoisoned keeps the event for the operator, then gives its agent an answer
// that says nothing of the cause.
func (b *batch) nextPoisoned(c *chain, in *events.Inbound) (step, error) {
	if !c.decided {
		return step{publish: b.deadLetter(in, c.poison.reason, c.poison.detail.Error())}, nil
	}
	f := harness.Internal(in, harness.Now(b.w.cfg.Clock(), nil, in))
	return b.publishFact(c, in, f, true, "")
}

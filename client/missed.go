package client

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"runledger/internal/events"
)

const (
	streamRuns = "RUNS"

	// A plain subscription misses what is published while the connection is
	// down, and what a leader stored and could not pass on before it was killed.
	// So whoever waits looks into the stream now and then: first after the one,
	// at last every other.
	firstLook   = time.Second
	longestLook = 5 * time.Second

	// maxAhead bounds the facts of a run that are kept while those before them
	// are read; what goes beyond is read, too.
	maxAhead = 256

	// getTimeout bounds one read of a fact.
	getTimeout = 2 * time.Second
)

// missed is what a history knows of facts that its subscription did not bring.
type missed struct {
	reading bool           // by one goroutine
	stored  uint64         // stream sequence in RUNS of the last fact taken or read
	ahead   []*events.Fact // came before those that go before them, in any order
	fresh   bool           // one of them came since the stream was last asked
}

// hold keeps a fact that does not follow the last one.
func (h *history) hold(f *events.Fact) {
	if len(h.ahead) < maxAhead {
		h.ahead = append(h.ahead, f)
	}
	h.fresh = true
}

// lookAgain reads in the stream what the subscription did not bring, unless
// that is being done. It does not wait for it.
func (r *Run) lookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beginReading()
}

// beginReading is lookAgain for who holds the lock.
func (r *Run) beginReading() {
	if r.reading || r.ended != nil || r.closed != nil {
		return
	}
	r.reading = r.agent.read(r.readMissed)
}

// readMissed reads until the stream has nothing more of the run.
func (r *Run) readMissed(ctx context.Context) {
	for pause := firstPause; ; {
		found, err := r.readNext(ctx)
		switch {
		case err == nil && found:
			pause = firstPause
			continue
		case err == nil:
			if r.caughtUp() {
				return
			}
			continue
		case !isUnanswered(err) || time.Now().After(r.until):
			r.log.Warn().Err(err).Str("run", r.id).Msg("facts that were missed cannot be read")
			r.tellAhead()
			return
		}
		if !rest(ctx, pause) {
			r.tellAhead()
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// readNext reads one fact, and reports whether there was one.
func (r *Run) readNext(ctx context.Context) (bool, error) {
	r.mu.Lock()
	after, over := r.stored, r.ended != nil || r.closed != nil
	r.mu.Unlock()
	if over {
		return false, nil
	}
	msg, err := r.agent.factAfter(ctx, after, r.id)
	if err != nil || msg == nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = max(r.stored, msg.Sequence)
	fact, _, err := events.DecodeFact(r.agent.subjects, msg.Subject, msg.Header, msg.Data)
	if err == nil {
		r.follow(fact)
		return true, nil
	}
	r.log.Warn().Err(err).Str("subject", msg.Subject).Msg("fact passed over")
	if sequence, err := strconv.ParseUint(msg.Header.Get("ce-sequence"), 10, 64); err == nil {
		r.passOver(sequence)
	}
	return true, nil
}

// caughtUp reports whether nothing is left to be read, and ends the reading
// then.
func (r *Run) caughtUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fresh {
		r.fresh = false
		return false
	}
	r.endReading()
	return true
}

// tellAhead gives up the reading, and follows what came without it.
func (r *Run) tellAhead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endReading()
}

// endReading follows what came ahead of something that the stream does not
// have; in the ordinary case there is no such thing.
func (r *Run) endReading() {
	ahead := r.ahead
	r.ahead, r.fresh, r.reading = nil, false, false
	slices.SortFunc(ahead, func(a, b *events.Fact) int { return int(a.Sequence) - int(b.Sequence) })
	for _, f := range ahead {
		r.follow(f)
	}
}

// factAfter gives the first fact that tells this agent of the run, of its
// history or outside of it, behind a place of RUNS, or nil where there is none.
func (a *Agent) factAfter(ctx context.Context, place uint64, run string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	runs, err := a.runsStream(ctx)
	if err != nil {
		return nil, err
	}
	msg, err := runs.GetMsg(ctx, place+1, jetstream.WithGetMsgSubject(a.cfg.Prefix+".*."+a.cfg.Name+"."+run+".>"))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return msg, err
}

// runsStream is the handle of RUNS, which costs one request.
func (a *Agent) runsStream(ctx context.Context) (jetstream.Stream, error) {
	if known := a.history.Load(); known != nil {
		return *known, nil
	}
	runs, err := a.pub.js.Stream(ctx, streamRuns)
	if err != nil {
		return nil, err
	}
	a.history.Store(&runs)
	return runs, nil
}

// read runs a reading until it is done or the Agent is closed, and reports
// whether it has begun.
func (a *Agent) read(reading func(context.Context)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.reading.Go(func() { reading(a.open) })
	return true
}

// looks is when somebody who waits looks into the stream.
type looks struct {
	*time.Timer
	pause time.Duration
}

func newLooks() *looks { return &looks{Timer: time.NewTimer(firstLook), pause: firstLook} }

// next is called after the timer has fired.
func (l *looks) next() {
	l.pause = min(2*l.pause, longestLook)
	l.Reset(l.pause)
}

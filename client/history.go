package client

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"runledger/internal/events"
)

// waiter waits for what becomes of one intent.
type waiter struct {
	intent   string // CloudEvents id
	verb     events.Verb
	answered func()      // ends the publishing
	seen     atomic.Bool // a fact has answered, so the intent was stored
	answer   chan answer // holds one
	reserved uint64      // sequence of the call's reservation, once it is accepted
}

type answer struct {
	result  *Result // of a tool call
	attempt int     // of a model call: the number that was granted
	err     error
}

// isForAnswer tells who waits for a fact of its own from who waits for the end.
func (w *waiter) isForAnswer() bool {
	return w.verb != events.VerbRunFinish && w.verb != events.VerbRunCancel
}

// deliver gives the answer; a second one has no effect.
func (w *waiter) deliver(a answer) {
	w.saw()
	select {
	case w.answer <- a:
	default:
	}
}

func (w *waiter) saw() {
	w.seen.Store(true)
	w.answered()
}

// history is what the facts of a run have told so far, and who waits for more.
type history struct {
	id  string
	log zerolog.Logger

	mu      sync.Mutex
	last    uint64 // sequence of the last fact; 0 until the run has started
	intents map[string]*waiter
	calls   map[uint64]*waiter // accepted calls by the sequence of their reservation
	release *Release
	ending  *events.RunEnding
	ended   *Termination
	closed  error // why nothing more is followed, apart from the end

	missed

	released chan struct{} // closed when release is set
	done     chan struct{}
}

// expect registers a waiter before its intent is published.
func (h *history) expect(w *waiter) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != nil {
		return h.closed
	}
	if h.ended != nil {
		return h.endedError(nil)
	}
	h.intents[w.intent] = w
	return nil
}

// unexpect drops a waiter that is answered or has given up.
func (h *history) unexpect(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.intents, w.intent)
	delete(h.calls, w.reserved)
}

// close gives the error to whoever waits, and ends the history.
func (h *history) close(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil || h.closed != nil {
		return
	}
	h.closed = err
	h.fail(err, everybody)
	close(h.done)
}

func everybody(*waiter) bool { return true }

// fail gives the error to those who wait and are meant.
func (h *history) fail(err error, meant func(*waiter) bool) {
	for id, w := range h.intents {
		if meant(w) {
			w.deliver(answer{err: err})
			delete(h.intents, id)
		}
	}
	for sequence, w := range h.calls {
		if meant(w) {
			w.deliver(answer{err: err})
			delete(h.calls, sequence)
		}
	}
}

// take follows one fact that came, and was stored in RUNS under that sequence
// (0 where that is not told). Where facts before it did not come, they are read
// first.
func (r *Run) take(f *events.Fact, stored uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last > 0 && f.Sequence > r.last+1 && r.ended == nil {
		if r.beginReading(); r.reading {
			r.hold(f)
			return
		}
	}
	if r.follow(f) && f.Sequence > 0 {
		r.stored = max(r.stored, stored)
	}
}

// follow follows the next fact, and reports whether it was one.
func (r *Run) follow(f *events.Fact) bool {
	w := r.intents[f.Cause.ID]
	if !f.Cause.Decision {
		w = nil // it was due when the event came, and is not its answer
	}
	if p, ok := f.Payload.(*events.ToolSettled); ok {
		w = r.calls[p.Call]
	}
	if f.Sequence > 0 && !r.advance(f.Sequence, w) {
		return false
	}
	r.tell(f, w)
	if r.ended != nil {
		r.agent.forget(r)
	}
	return true
}

// advance reports whether a fact, for which w waits if anybody does, is the next
// of the history, after making good what is missing before it. Before the run
// has started, facts of another run of this id may come: they are not followed.
func (h *history) advance(sequence uint64, w *waiter) bool {
	if h.last == 0 {
		if sequence != 1 || w == nil {
			return false
		}
	} else if sequence <= h.last {
		return false // seen before
	}
	h.step(sequence, w)
	return true
}

// passOver counts a fact of the history that could not be understood.
func (h *history) passOver(sequence uint64) {
	if h.last > 0 && sequence > h.last {
		h.step(sequence, nil)
	}
}

// step moves to a sequence. Where facts between did not come and cannot be read
// either, everybody whose answer may have been among them is told. It was not
// for whoever waits for the fact at hand, nor for whoever waits for the run's
// last.
func (h *history) step(sequence uint64, atHand *waiter) {
	if missed := sequence - h.last - 1; missed > 0 {
		h.log.Warn().Str("run", h.id).Uint64("after", h.last).Uint64("missed", missed).Msg("facts of a run were missed")
		h.fail(fmt.Errorf("run %s: %w: %d after sequence %d", h.id, ErrHistoryGap, missed, h.last),
			func(w *waiter) bool { return w != atHand && w.isForAnswer() })
	}
	h.last = sequence
}

// tell gives a fact to w, who waits for it if anybody does.
func (h *history) tell(f *events.Fact, w *waiter) {
	switch p := f.Payload.(type) {
	case *events.RunStarted:
		h.decided(w, answer{})
	case *events.RunRejected:
		h.decided(w, answer{err: h.runRejected(p)})
	case *events.ToolReserved:
		if w != nil {
			delete(h.intents, w.intent)
			w.reserved = f.Sequence
			h.calls[f.Sequence] = w
			w.saw()
		}
	case *events.ToolRejected:
		h.decided(w, answer{err: h.toolRejected(p)})
	case *events.ToolSettled:
		h.settled(p, w)
	case *events.ModelGranted:
		h.decided(w, answer{attempt: p.Attempt})
	case *events.ModelRejected:
		h.decided(w, answer{err: h.modelRejected(p)})
	case *events.ModelRecorded, *events.ProgressAccepted:
		h.decided(w, answer{})
	case *events.ProgressInvalid:
		h.decided(w, answer{err: h.progressInvalid(p)})
	case *events.RunReleased:
		h.releasedAs(p)
	case *events.RunEnding:
		h.ending = p
		h.decided(w, answer{})
	case *events.RunTerminated:
		h.terminated(p)
	}
}

func (h *history) decided(w *waiter, a answer) {
	if w != nil {
		delete(h.intents, w.intent)
		w.deliver(a)
	}
}

func (h *history) settled(p *events.ToolSettled, w *waiter) {
	if w == nil {
		return
	}
	delete(h.calls, p.Call)
	if p.Status == events.StatusReady {
		w.deliver(answer{result: &Result{
			ToolCallID: p.ToolCallID, Tool: p.Tool, Sequence: p.Call,
			Evidence: Evidence(p.Evidence), Data: json.RawMessage(p.Result),
		}})
		return
	}
	var err error = &FailedError{RunID: h.id, ToolCallID: p.ToolCallID, Tool: p.Tool, Code: Code(p.Code), Message: p.Message}
	if p.Code == events.CodeRunTerminated {
		err = h.endedError(err)
	}
	w.deliver(answer{err: err})
}

// releasedAs notes why the run was released, which happens once.
func (h *history) releasedAs(p *events.RunReleased) {
	if h.release == nil {
		h.release = &Release{Reason: string(p.Reason), GraceUntil: p.GraceUntil}
		close(h.released)
	}
}

func (h *history) terminated(p *events.RunTerminated) {
	h.ended = &Termination{
		Outcome: Outcome(p.Outcome), Reason: p.Reason, EndedAt: p.EndedAt,
		Usage: Usage(p.Usage), Calls: p.Calls,
	}
	h.fail(h.endedError(nil), everybody)
	close(h.done)
}

package client

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/events"
)

// Run is one run of an [Agent]. It may be used by many goroutines; calls that
// run at once are reserved in the order in which their events reach the stream.
type Run struct {
	agent    *Agent
	deadline time.Time
	until    time.Time // answers are waited for until then
	history
}

func newRun(a *Agent, spec RunSpec) *Run {
	until := spec.Deadline
	if now := time.Now(); until.Before(now) {
		until = now // the refusal is waited for all the same
	}
	r := &Run{agent: a, deadline: spec.Deadline, until: until.Add(a.cfg.AnswerGrace)}
	r.history = history{
		id: spec.RunID, log: a.cfg.Log, done: make(chan struct{}), released: make(chan struct{}),
		intents: make(map[string]*waiter), calls: make(map[uint64]*waiter),
	}
	return r
}

// ID is the run id.
func (r *Run) ID() string { return r.id }

// Done is closed once the run has ended and its last fact has been seen, or the
// Agent was closed.
func (r *Run) Done() <-chan struct{} { return r.done }

// Termination gives the end of the run; ok is false until it is known.
func (r *Run) Termination() (end Termination, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		return Termination{}, false
	}
	return *r.ended, true
}

func (r *Run) start(ctx context.Context, data []byte) error {
	_, err := r.askAndAwait(ctx, events.VerbRunStart, data, "start of run "+r.id)
	return err
}

// Call calls a tool and waits for its bounded result. The error is
//   - *[RejectedError] if the call was refused: nothing was executed;
//   - *[FailedError] if it was accepted and ended as ERROR;
//   - *[EndedError] if the run has ended, by whatever cause;
//   - [ErrHistoryGap], [ErrUnanswered] or [ErrNoAnswer] if what became of it is
//     not known;
//   - the context's error if that ended first; the call itself goes on.
func (r *Run) Call(ctx context.Context, call Call) (*Result, error) {
	pending, err := r.StartCall(ctx, call)
	if err != nil {
		return nil, err
	}
	return pending.Wait(ctx)
}

// Pending is a call that was published and may not have been answered yet.
type Pending struct {
	run *Run
	id  string
	w   *waiter
}

// StartCall publishes a call and returns once the stream has it, so that calls
// started one after the other are decided in that order and run side by side.
// Wait for each, once.
func (r *Run) StartCall(ctx context.Context, call Call) (*Pending, error) {
	data, err := r.callData(call)
	if err != nil {
		return nil, err
	}
	w := &waiter{}
	if err := r.ask(ctx, w, events.VerbToolCall, data); err != nil {
		return nil, err
	}
	return &Pending{run: r, id: call.ID, w: w}, nil
}

// Wait waits for the result; errors are those of [Run.Call]. A context that
// ends gives up the waiting, not the call.
func (p *Pending) Wait(ctx context.Context) (*Result, error) {
	a, err := p.run.await(ctx, p.w, fmt.Sprintf("tool call %.80q in run %s", p.id, p.run.id))
	return a.result, err
}

// callData writes the data of a tool.call. What an event could not even carry
// is refused here; everything else is for the processor to say.
func (r *Run) callData(call Call) ([]byte, error) {
	if call.ID == "" || !utf8.ValidString(call.ID) {
		return nil, fmt.Errorf("Call.ID: want the framework's tool call id, got %.80q; it is never made up here", call.ID)
	}
	if call.Tool == "" || !utf8.ValidString(call.Tool) {
		return nil, fmt.Errorf("Call.Tool: want the name of a tool, got %.80q", call.Tool)
	}
	arguments := jsontext.Value(call.Arguments)
	if len(arguments) == 0 {
		arguments = jsontext.Value("{}")
	}
	if !arguments.IsValid() {
		return nil, fmt.Errorf("Call.Arguments of tool call %.80q: want one JSON value in UTF-8 without duplicate names, got %d bytes that are not", call.ID, len(call.Arguments))
	}
	var o object
	o.text("run_id", r.id)
	o.text("tool_call_id", call.ID)
	o.text("tool", call.Tool)
	o.raw("arguments", arguments)
	return o.bytes(), nil
}

// Cancel ends the run as CANCELLED and waits for its last fact. Open calls end
// as ERROR. Where the run ended otherwise first, the termination that holds
// comes together with an *[EndedError].
func (r *Run) Cancel(ctx context.Context, reason CancelReason) (*Termination, error) {
	data, err := json.Marshal(&events.RunCancel{RunID: r.id, Reason: events.CancelReason(reason)})
	if err != nil {
		return nil, fmt.Errorf("cancel run %s: %w", r.id, err)
	}
	return r.end(ctx, events.VerbRunCancel, data, OutcomeCancelled)
}

// Finish ends the run as SUCCESS or FAILED and waits for its last fact. Open
// calls end as ERROR. Where the run ended otherwise first, the termination that
// holds comes together with an *[EndedError].
func (r *Run) Finish(ctx context.Context, outcome Outcome) (*Termination, error) {
	data, err := json.Marshal(&events.RunFinish{RunID: r.id, Outcome: events.Outcome(outcome)})
	if err != nil {
		return nil, fmt.Errorf("finish run %s: %w", r.id, err)
	}
	return r.end(ctx, events.VerbRunFinish, data, outcome)
}

func (r *Run) end(ctx context.Context, verb events.Verb, data []byte, want Outcome) (*Termination, error) {
	_, err := r.askAndAwait(ctx, verb, data, string(verb)+" of run "+r.id)
	if ended := new(EndedError); err == nil || errors.As(err, &ended) {
		err = r.awaitEnd(ctx) // the end is fixed; its last fact follows
	}
	if err != nil {
		return nil, err
	}
	end, _ := r.Termination()
	if end.Outcome != want {
		return &end, &EndedError{RunID: r.id, Outcome: end.Outcome, Reason: end.Reason}
	}
	return &end, nil
}

// ask publishes an intent for which w waits. A fact that answers it proves that
// it was stored, whether or not the acknowledgement comes.
func (r *Run) ask(ctx context.Context, w *waiter, verb events.Verb, data []byte) error {
	publishing, answered := context.WithDeadline(ctx, r.until)
	defer answered()
	w.intent, w.verb, w.answered = newID(), verb, answered
	w.answer = make(chan answer, 1)
	if err := r.expect(w); err != nil {
		return err
	}
	event := events.NewIntent(verb, w.intent, r.agent.cfg.Source, time.Now(), data)
	err := r.agent.pub.publish(publishing, r.agent.subjects.Agent(r.agent.cfg.Name, r.id, verb), event)
	if err == nil || w.seen.Load() {
		return nil
	}
	r.unexpect(w)
	if publishing.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w by the run's deadline: %w", ErrUnanswered, err)
	}
	return fmt.Errorf("%s of run %s: %w", verb, r.id, err)
}

// askAndAwait publishes an intent and waits for its answer.
func (r *Run) askAndAwait(ctx context.Context, verb events.Verb, data []byte, what string) (answer, error) {
	w := &waiter{}
	if err := r.ask(ctx, w, verb, data); err != nil {
		return answer{}, err
	}
	return r.await(ctx, w, what)
}

// await waits for the answer to what was asked.
func (r *Run) await(ctx context.Context, w *waiter, what string) (answer, error) {
	timer := time.NewTimer(time.Until(r.until))
	defer timer.Stop()
	looks := newLooks()
	defer looks.Stop()
	defer r.unexpect(w)
	for {
		select {
		case a := <-w.answer:
			return a, a.err
		case <-looks.C:
			r.lookAgain()
			looks.next()
		case <-ctx.Done():
			return answer{}, fmt.Errorf("wait for the answer to %s: %w", what, ctx.Err())
		case <-timer.C:
			return answer{}, fmt.Errorf("%s: %w (waited until %s)", what, ErrNoAnswer, r.until.Format(time.RFC3339))
		}
	}
}

// awaitEnd waits for the run's last fact.
func (r *Run) awaitEnd(ctx context.Context) error {
	timer := time.NewTimer(time.Until(r.until))
	defer timer.Stop()
	looks := newLooks()
	defer looks.Stop()
	for {
		select {
		case <-r.done:
			return r.whyDone()
		case <-looks.C:
			r.lookAgain()
			looks.next()
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of run %s: %w", r.id, ctx.Err())
		case <-timer.C:
			return fmt.Errorf("end of run %s: %w (waited until %s)", r.id, ErrNoAnswer, r.until.Format(time.RFC3339))
		}
	}
}

// whyDone is nil where the run's last fact was seen, and otherwise says why
// nothing more is followed.
func (r *Run) whyDone() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return nil
	}
	return r.closed
}

package client

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runledger/internal/events"
)

// Dispatch is one call as its executor gets it.
type Dispatch struct {
	RunID      string
	ToolCallID string
	DispatchID string // unique for ever; good as an idempotency key
	Tool       string
	Arguments  stdjson.RawMessage // a JSON object, byte for byte as the agent sent it
	Deadline   time.Time          // of the call; an answer that comes later changes nothing
}

// maxErrorText bounds what of a handler's error is kept, in bytes.
const maxErrorText = 4096

// codeMessageTooLarge is the server's refusal of a message above a stream's own
// limit.
const codeMessageTooLarge = 10054

// serve takes one dispatch from its delivery to its answer.
func (e *Executor) serve(ctx context.Context, msg jetstream.Msg) {
	d, err := readDispatch(msg.Data())
	if err != nil {
		e.cfg.Log.Error().Err(err).Str("subject", msg.Subject()).Msg("dispatch cannot be read; it is dropped")
		e.settle(msg.TermWithReason("not a dispatch"), msg)
		return
	}
	if !time.Now().Before(d.Deadline) {
		e.stats.expired.Add(1)
		e.settle(msg.Ack(), msg)
		return
	}
	// What was claimed is finished, also when the executor stops.
	call, cancel := context.WithDeadline(context.WithoutCancel(ctx), d.Deadline)
	defer cancel()
	mine, err := e.claims.claim(call, d.DispatchID)
	switch {
	case err != nil:
		e.cfg.Log.Error().Err(err).Str("dispatch", d.DispatchID).Msg("dispatch could not be claimed; it is given back")
		e.settle(msg.NakWithDelay(time.Second), msg)
		return
	case !mine:
		e.stats.elsewhere.Add(1)
		e.settle(msg.Ack(), msg)
		return
	}
	e.confirm(call, msg)
	outcome, result := e.run(call, d)
	e.stats.ran.Add(1)
	e.answer(d, outcome, result)
}

func readDispatch(data []byte) (Dispatch, error) {
	var d events.Dispatch
	if err := json.Unmarshal(data, &d); err != nil {
		return Dispatch{}, fmt.Errorf("dispatch: %w", err)
	}
	if !events.ValidName(d.RunID) || d.DispatchID == "" || d.ToolCallID == "" || d.Deadline.IsZero() {
		return Dispatch{}, errors.New("dispatch: want run_id, tool_call_id, dispatch_id and deadline")
	}
	return Dispatch{
		RunID: d.RunID, ToolCallID: d.ToolCallID, DispatchID: d.DispatchID, Tool: d.Tool,
		Arguments: stdjson.RawMessage(d.Arguments), Deadline: d.Deadline,
	}, nil
}

// settle logs an acknowledgement that could not be sent. The dispatch is then
// delivered again, and its claim decides.
func (e *Executor) settle(err error, msg jetstream.Msg) {
	if err != nil {
		e.cfg.Log.Warn().Err(err).Str("subject", msg.Subject()).Msg("dispatch could not be acknowledged")
	}
}

// confirm acknowledges a claimed dispatch and waits until the server says so.
// Where it does not, the claim alone keeps the tool from running twice.
func (e *Executor) confirm(ctx context.Context, msg jetstream.Msg) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AckTimeout)
	defer cancel()
	e.settle(msg.DoubleAck(ctx), msg)
}

// run runs the tool. Whatever the handler does, there is an outcome.
func (e *Executor) run(ctx context.Context, d Dispatch) (outcome events.ResultOutcome, result []byte) {
	defer func() {
		if p := recover(); p != nil {
			e.cfg.Log.Error().Str("tool", d.Tool).Str("dispatch", d.DispatchID).
				Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("handler panicked")
			outcome, result = events.ResultFailed, failure("the handler panicked")
		}
	}()
	handler := e.handlers[d.Tool]
	if handler == nil {
		e.cfg.Log.Error().Str("tool", d.Tool).Str("dispatch", d.DispatchID).Msg("no handler for this tool")
		return events.ResultFailed, failure("the executor has no handler for this tool")
	}
	result, err := handler(ctx, d)
	switch {
	case err != nil && len(result) > 0 && jsontext.Value(result).IsValid():
		return events.ResultFailed, result
	case err != nil:
		return events.ResultFailed, failure(err.Error())
	case len(result) == 0:
		return events.ResultSucceeded, []byte("null")
	case !jsontext.Value(result).IsValid():
		e.cfg.Log.Error().Str("tool", d.Tool).Str("dispatch", d.DispatchID).Msg("the handler's result is not JSON")
		return events.ResultFailed, failure("the handler's result is not one JSON value in UTF-8 without duplicate names")
	}
	return events.ResultSucceeded, result
}

// failure is the raw response of a call that failed without one of its own. The
// record keeps it for operators; the agent never sees it.
func failure(text string) []byte {
	if len(text) > maxErrorText {
		text = text[:maxErrorText]
	}
	var o object
	o.text("error", strings.ToValidUTF8(text, "\uFFFD")) // it may also be cut within a character
	return o.bytes()
}

// answer publishes the result: until the call's deadline, and once at least, so
// that a late result is told of.
func (e *Executor) answer(d Dispatch, outcome events.ResultOutcome, result []byte) {
	until := d.Deadline
	if least := time.Now().Add(e.cfg.AckTimeout); until.Before(least) {
		until = least
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	err := e.publish(ctx, d, outcome, result)
	if isTooLarge(err) {
		e.cfg.Log.Warn().Str("dispatch", d.DispatchID).Int("bytes", len(result)).Msg("result is too large to publish")
		err = e.publish(ctx, d, events.ResultTooLarge, result)
	}
	if err != nil {
		e.stats.unanswered.Add(1)
		e.cfg.Log.Error().Err(err).Str("dispatch", d.DispatchID).Msg("result could not be published; the call will time out")
	}
}

func (e *Executor) publish(ctx context.Context, d Dispatch, outcome events.ResultOutcome, result []byte) error {
	var o object
	o.text("run_id", d.RunID)
	o.text("tool_call_id", d.ToolCallID)
	o.text("dispatch_id", d.DispatchID)
	o.text("outcome", string(outcome))
	if outcome == events.ResultTooLarge {
		o.number("size", int64(len(result)))
	} else {
		o.raw("result", result)
	}
	event := events.NewIntent(events.VerbToolResult, newID(), e.cfg.Source, time.Now(), o.bytes())
	return e.pub.publish(ctx, e.subjects.Executor(e.cfg.Name, d.RunID), event)
}

func isTooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && api.ErrorCode == codeMessageTooLarge
}

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

// setTimers publishes the schedules that the runs need, before the store learns
// of them: what it says of a timer then stands. Setting one twice is setting it
// once.
func (b *batch) setTimers(ctx context.Context) error {
	var timers []Pending
	for _, c := range b.chains {
		h := c.run
		b.setTimer(c)
		if h.schedule.IsZero() {
			continue
		}
		msg := stream.ScheduleMsg(b.w.cfg.Subjects.Timer(h.id, h.schedule.UnixMilli()), b.w.cfg.Subjects.Tick(h.id), h.schedule)
		timers = append(timers, b.w.cfg.Publisher.Publish(msg, stream.ExpectNone()))
	}
	for _, t := range timers {
		if _, err := t.Wait(ctx); err != nil {
			return fmt.Errorf("set timer: %w", err)
		}
	}
	return nil
}

// setTimer decides whether the run needs a schedule: it has none that is known,
// the known one has fired, or something is due earlier. A call thus costs no
// timer of its own while an earlier one stands.
func (b *batch) setTimer(c *chain) {
	h, run := c.run, c.run.state.Run
	if run == nil {
		return
	}
	due, ok := run.NextDue()
	if !ok {
		return
	}
	now := harness.Now(b.w.cfg.Clock(), run, nil)
	if c.now.After(now) {
		now = c.now // a tick says that its instant has passed, however slow our clock is
	}
	stands := run.TimerAt.After(now) && !due.Before(run.TimerAt)
	if stands && !h.makeGood {
		return
	}
	h.schedule, run.TimerAt = due, due
}

// dispatchAll gives reserved calls to their executors, after the store has
// their records. Each may have been dispatched before.
func (b *batch) dispatchAll(ctx context.Context) error {
	var publications []*publication
	for _, c := range b.chains {
		if c.run.state.Run == nil || c.run.failed != nil {
			continue
		}
		dispatches, err := b.dispatches(ctx, c.run)
		if err != nil {
			return err
		}
		publications = append(publications, dispatches...)
	}
	return b.storeAll(ctx, publications)
}

// dispatches gives what the run's executors must get: the calls that this batch
// reserved, or, where an event had been decided before, every open call.
func (b *batch) dispatches(ctx context.Context, h *hotRun) ([]*publication, error) {
	var publications []*publication
	for _, call := range h.state.Run.Open {
		arguments := h.arguments(call)
		if arguments == nil && !h.makeGood {
			continue
		}
		if !b.w.cfg.Clock().Before(call.Deadline) {
			continue // its timeout is due, and nobody may run it any more
		}
		if arguments == nil {
			in, err := b.cause(ctx, call.Cause.Sequence)
			if err == nil {
				arguments = broughtBy(in).arguments
			}
			if errors.Is(err, stream.ErrNotFound) || errors.Is(err, errUnreadable) || err == nil && arguments == nil {
				b.w.cfg.Log.Error().Err(err).Str("run", h.id).Uint64("call", call.Call).
					Msg("the request of an open call cannot be read; the call will time out")
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		publications = append(publications, b.dispatch(h, call, arguments))
	}
	return publications, nil
}

// arguments gives those of a call that this batch reserved, nil for another.
func (h *hotRun) arguments(call *harness.Record) []byte {
	for _, r := range h.reserved {
		if r.call == call.Call {
			return r.arguments
		}
	}
	return nil
}

func (b *batch) dispatch(h *hotRun, call *harness.Record, arguments []byte) *publication {
	header, data := events.EncodeDispatch(h.state.Run.Agent, events.Dispatch{
		RunID: h.id, ToolCallID: call.ToolCallID, DispatchID: events.DispatchID(h.id, call.Call),
		Tool: call.Tool, Arguments: arguments, Deadline: call.Deadline,
	}, call.ReservedAt, call.Cause)
	return &publication{
		msg: &nats.Msg{
			Subject: b.w.cfg.Subjects.Dispatch(call.Executor, h.id, call.Call), Header: header, Data: data,
		},
		expect: stream.ExpectNew(), dispatched: call.Tool,
	}
}

// lag gives how far behind an event was when it was read.
func lag(clock, stored time.Time) time.Duration { return max(clock.Sub(stored), 0) }

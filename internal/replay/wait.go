package replay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errNoAnswer is why a wait was given up.
var errNoAnswer = errors.New("nats-server does not answer")

// wait bounds for how long nothing may come of messages that are there. A reader
// itself goes on for ever, as servers may go and come back.
type wait struct {
	ctx      context.Context //nolint:containedctx // it is the wait
	patience time.Duration
	timer    *time.Timer
}

// newWait begins one; stop ends it.
func newWait(ctx context.Context, patience time.Duration) (w *wait, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w = &wait{ctx: ctx, patience: patience, timer: time.AfterFunc(patience, func() { cancel(errNoAnswer) })}
	return w, func() {
		w.timer.Stop()
		cancel(nil)
	}
}

// again says that something came.
func (w *wait) again() { w.timer.Reset(w.patience) }

// tell says what to do where the wait was given up.
func (w *wait) tell(err error, name string) error {
	if err == nil || !errors.Is(context.Cause(w.ctx), errNoAnswer) {
		return err
	}
	return fmt.Errorf("no message of %s came for %v, and more are there: %w; look whether it runs, and begin again", name, w.patience, errNoAnswer)
}

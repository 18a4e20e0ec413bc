package harness

import (
	"sync"

	"runledger/internal/events"
)

// Cancellation signals, once, that a run's work shall stop. The first reason
// stays. It is safe for use by several goroutines; the zero value is ready.
type Cancellation struct {
	mu        sync.Mutex
	reason    events.CancelReason
	callbacks []func(events.CancelReason)
}

// Cancel signals the reason if it is the first, and runs the registered
// callbacks, in order of registration, before it returns. It reports whether
// this call was the first.
func (c *Cancellation) Cancel(reason events.CancelReason) bool {
	c.mu.Lock()
	if c.reason != "" {
		c.mu.Unlock()
		return false
	}
	c.reason = reason
	callbacks := c.callbacks
	c.callbacks = nil
	c.mu.Unlock()
	for _, callback := range callbacks {
		callback(reason)
	}
	return true
}

// OnCancel registers a callback that runs once, when the run is cancelled; at
// once if it already is. A callback must not block.
func (c *Cancellation) OnCancel(callback func(events.CancelReason)) {
	c.mu.Lock()
	reason := c.reason
	if reason == "" {
		c.callbacks = append(c.callbacks, callback)
	}
	c.mu.Unlock()
	if reason != "" {
		callback(reason)
	}
}

// Reason gives the first reason; empty while the run is not cancelled.
func (c *Cancellation) Reason() events.CancelReason {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason
}

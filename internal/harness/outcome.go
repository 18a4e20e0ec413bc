package harness

import (
	"sync"
	"time"

	"runledger/internal/events"
)

// Termination is how, why and when a run ended.
type Termination struct {
	Outcome events.Outcome
	Reason  string
	At      time.Time
}

// Lifecycle is RUNNING until the first termination, which is never replaced.
// It is safe for use by several goroutines; the zero value is RUNNING.
type Lifecycle struct {
	mu    sync.Mutex
	ended *Termination
}

// Finish records the termination if it is the first. It reports the one that
// holds, and whether this call set it.
func (l *Lifecycle) Finish(t Termination) (holds Termination, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.ended, first = &t, true
	}
	return *l.ended, first
}

// Termination gives the termination, if the run has ended.
func (l *Lifecycle) Termination() (t Termination, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		return Termination{}, false
	}
	return *l.ended, true
}

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// timer is one schedule in TIMERS.
type timer struct {
	subject string
	run     string
	at      time.Time // the instant that it was set for
	fires   time.Time // later than that where the tick is late
}

// schedule stores a schedule; setting one twice is setting it once.
func (w *world) schedule(msg *nats.Msg, who string) (uint64, error) {
	at, err := time.Parse("@at "+time.RFC3339Nano, msg.Header.Get("Nats-Schedule"))
	if err != nil {
		panic(fmt.Sprintf("sim: schedule %q: %v", msg.Header.Get("Nats-Schedule"), err))
	}
	run := tokenOf(msg.Subject, 2)
	w.tell("%s sets a timer of %s at %v", who, run, at.Sub(w.began))
	if !slices.ContainsFunc(w.timers, func(t timer) bool { return t.subject == msg.Subject }) {
		w.timers = append(w.timers, timer{subject: msg.Subject, run: run, at: at, fires: at})
	}
	w.judge.Scheduled(run, at, w.earliest(run))
	return 1, nil
}

// earliest gives the first of the schedules of a run that have not fired, zero
// where there is none.
func (w *world) earliest(run string) (at time.Time) {
	for _, t := range w.timers {
		if t.run == run && (at.IsZero() || t.at.Before(at)) {
			at = t.at
		}
	}
	return at
}

// tick delivers the schedules whose time has come.
func (w *world) tick() {
	var due []timer
	w.timers = slices.DeleteFunc(w.timers, func(t timer) bool {
		if w.clock.Before(t.fires) {
			return false
		}
		due = append(due, t)
		return true
	})
	for _, t := range due {
		if w.chance(w.faults.LateTick) {
			w.counts[LateTicks]++
			t.fires = w.clock.Add(w.between(100*time.Millisecond, 4*time.Second))
			if w.chance(0.1) {
				t.fires = w.clock.Add(w.between(20*time.Second, 90*time.Second))
			}
			w.timers = append(w.timers, t)
			w.tell("a tick of %s is late, and comes at %v", t.run, t.fires.Sub(w.began))
			continue
		}
		w.judge.Fired(t.run, w.earliest(t.run))
		w.inbound(w.simulator.subjects.Tick(t.run), nil, nil)
		if w.chance(w.faults.TickTwice) {
			w.inbound(w.simulator.subjects.Tick(t.run), nil, nil)
		}
	}
}

package stream

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Headers of a scheduled message (nats-server, message scheduling).
const (
	headerSchedule       = "Nats-Schedule"
	headerScheduleTarget = "Nats-Schedule-Target"
)

// ScheduleMsg makes the message that lets TIMERS deliver a tick at an instant:
// published on timerSubject, it makes the server put an empty message on
// tickSubject. Measured on 2.15.3: never early, at most 250 ms late.
//
// Both subjects are those before any transform. A tick carries nothing: who
// gets it looks at what is due. An instant that has passed fires at once.
// A second schedule on the same timerSubject replaces the first; one instant
// needs one message, whatever is due then.
func ScheduleMsg(timerSubject, tickSubject string, at time.Time) *nats.Msg {
	// The helper of nats.go cuts the instant to seconds and would fire early.
	return &nats.Msg{
		Subject: timerSubject,
		Header: nats.Header{
			headerSchedule:       []string{"@at " + at.UTC().Format(time.RFC3339Nano)},
			headerScheduleTarget: []string{tickSubject},
		},
	}
}

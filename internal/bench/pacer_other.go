//go:build !linux

package bench

import "time"

// sleepUntil sleeps as exactly as the timers of Go do.
func sleepUntil(at time.Time) { time.Sleep(time.Until(at)) }

package bench

import (
	"syscall"
	"time"
)

// sleepUntil sleeps to within the kernel's timer slack (50 µs). The timers of Go
// are woken by the poller, which counts whole milliseconds. It blocks a thread.
func sleepUntil(at time.Time) {
	for {
		left := time.Until(at)
		if left <= 0 {
			return
		}
		span := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&span, nil) // a signal only wakes it early
	}
}

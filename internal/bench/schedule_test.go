package bench

import (
	"testing"
	"time"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func TestArrivalsAreEvenAndDoNotDrift(t *testing.T) {
	s := schedule{start: noon, rate: 300}
	for n, want := range map[int]time.Duration{
		0: 0, 1: 3_333_333 * time.Nanosecond, 150: 500 * time.Millisecond, 300: time.Second, 3_000_000: 10_000 * time.Second,
	} {
		if got := s.at(n).Sub(noon); got != want {
			t.Errorf("arrival %d is at %v, want %v", n, got, want)
		}
	}
}

func TestArrivalsBeforeAnInstantAreCounted(t *testing.T) {
	s := schedule{start: noon, rate: 300}
	for span, want := range map[time.Duration]int{
		-time.Second: 0, 0: 0, time.Nanosecond: 1, 3 * time.Millisecond: 1, 3_333_333: 1, 3_333_334: 2,
		time.Second: 300, time.Second + 1: 301, 10 * time.Second: 3000,
	} {
		if got := s.count(noon.Add(span)); got != want {
			t.Errorf("before %v there are %d arrivals, want %d", span, got, want)
		}
	}
}

// TestAStallCountsForEveryCallThatItDelays stops the sending of an open loop for
// a while: the calls are then late by what was left of the stall when each of
// them was due.
func TestAStallCountsForEveryCallThatItDelays(t *testing.T) {
	s := schedule{start: noon, rate: 100}
	whole := newRecorder()
	stalledUntil := noon.Add(500 * time.Millisecond)
	for n := range 100 {
		sent := s.at(n)
		if sent.Before(stalledUntil) {
			sent = stalledUntil
		}
		settled := sent.Add(time.Millisecond)
		whole.record(settled.Sub(s.at(n)))
	}
	got := whole.latency()
	// 50 calls are late by 500, 490, … 10 ms, and the other 50 not at all.
	if got.P50 < 0.99 || got.P50 > 1.01 || got.P99 < 490 || got.P99 > 492 || got.Max < 500 || got.Max > 502 {
		t.Errorf("got %+v, want p50 1 ms, p99 491 ms, at most 501 ms", got)
	}
}

func TestSleepUntilWakesNotBeforeAndSoonAfter(t *testing.T) {
	best := time.Hour
	for range 50 {
		at := time.Now().Add(2300 * time.Microsecond)
		sleepUntil(at)
		late := time.Since(at)
		if late < 0 {
			t.Fatalf("woke %v early", -late)
		}
		best = min(best, late)
	}
	if best > 600*time.Microsecond { // the timers of Go count whole milliseconds
		t.Errorf("woke at best %v late, want less than 600µs", best)
	}
}

package bench

import (
	"math"
	"testing"
	"time"
)

func TestPercentilesOfKnownDurations(t *testing.T) {
	r := newRecorder()
	for n := 1; n <= 1000; n++ { // 1 ms to 1000 ms
		r.record(time.Duration(n) * time.Millisecond)
	}
	got := r.latency()
	for name, pair := range map[string][2]float64{
		"p50": {got.P50, 500}, "p99": {got.P99, 990}, "p99.9": {got.P999, 999}, "max": {got.Max, 1000},
	} {
		if math.Abs(pair[0]-pair[1])/pair[1] > 0.001 {
			t.Errorf("%s is %v ms, want %v to three digits", name, pair[0], pair[1])
		}
	}
}

func TestDurationsBeyondTheRangeCountAtItsEnds(t *testing.T) {
	r := newRecorder()
	r.record(-time.Second)
	r.record(time.Hour)
	if n := r.histogram.TotalCount(); n != 2 {
		t.Fatalf("%d durations were counted, want 2", n)
	}
	if low, high := r.histogram.Min(), r.latency().Max; low != 1 || math.Abs(high-600_000) > 600 {
		t.Errorf("they count as %d µs and %v ms, want 1 µs and 10 minutes", low, high)
	}
}

func TestNothingRecordedIsZero(t *testing.T) {
	if got := newRecorder().latency(); got != (Latency{}) {
		t.Errorf("got %+v", got)
	}
}

func TestMedians(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 100}, 3}} {
		before := append([]float64(nil), c.values...)
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", before, got, c.want)
		}
	}
}

package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency tells of one stretch of a call, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Latencies are those of the stretches of a call.
type Latencies struct {
	// IntentToDispatch is from the scheduled instant of an intent until the
	// executor has the dispatch.
	IntentToDispatch Latency `json:"intent_to_dispatch"`
	// ResultToSettled is from the publishing of a result until the agent has
	// the settled fact.
	ResultToSettled Latency `json:"result_to_settled"`
	// Whole is from the scheduled instant of an intent until the agent has the
	// settled fact; the executor's claim lies in it.
	Whole Latency `json:"whole_call"`
}

// recorder counts durations in microseconds up to ten minutes, to three digits.
// It is used by one goroutine.
type recorder struct{ histogram *hdrhistogram.Histogram }

const longestRecorded = 10 * time.Minute

func newRecorder() recorder {
	return recorder{hdrhistogram.New(1, longestRecorded.Microseconds(), 3)}
}

// record counts one duration. One that is too long to be told counts as the
// longest that can be.
func (r recorder) record(d time.Duration) {
	d = min(max(d, time.Microsecond), longestRecorded)
	_ = r.histogram.RecordValue(d.Microseconds()) // within the range
}

func (r recorder) latency() Latency {
	at := func(percent float64) float64 {
		return milliseconds(r.histogram.ValueAtPercentile(percent))
	}
	return Latency{P50: at(50), P99: at(99), P999: at(99.9), Max: milliseconds(r.histogram.Max())}
}

func milliseconds(microseconds int64) float64 { return float64(microseconds) / 1000 }

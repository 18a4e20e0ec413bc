package replay_test

import (
	"testing"

	"runledger/internal/replay"
)

// BenchmarkVerify verifies 1,000 runs of 10 calls in memory: what deciding,
// encoding and comparing costs without the reading of the streams.
func BenchmarkVerify(b *testing.B) {
	m := generated(b, 1000, 10)
	b.ReportAllocs()
	facts := int64(0)
	for b.Loop() {
		report, err := replay.Verify(b.Context(), config(m))
		if err != nil || !report.OK() || report.Checked != int64(len(m.runs)) {
			b.Fatalf("got %+v, %v", report, err)
		}
		facts += report.Checked
	}
	b.ReportMetric(float64(facts)/b.Elapsed().Seconds(), "facts/s")
}

// Package demotest has the recorded runs for tests of the whole, and what must
// come of them whatever happens meanwhile.
package demotest

import (
	"compress/gzip"
	"maps"
	"os"
	"testing"

	"runledger/internal/audit"
	"runledger/internal/demo"
)

// Runs and calls of the recording; what became of them is in Want.
const (
	Runs  = 50
	Calls = 282
)

// Read reads the recorded runs from a packed file.
func Read(t testing.TB, path string) []demo.Transcript {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	transcripts, err := demo.ReadTranscripts(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return transcripts
}

// Want requires that the recorded runs, played so many times by whoever and
// through whatever faults, came to what they come to; see the requirements of
// the demonstration.
func Want(t testing.TB, r *audit.Report, rounds int64) {
	t.Helper()
	for what, pair := range map[string][2]int64{
		"runs":                 {r.Runs, Runs},
		"calls":                {r.Calls, Calls},
		"reserved":             {r.Reserved, 205},
		"ready":                {r.Ready, 205},
		"error":                {r.Error, 0},
		"evidence found":       {r.EvidenceFound, 172},
		"no evidence":          {r.NoEvidence, 33},
		"sequence gaps":        {r.SequenceGaps, 0},
		"duplicate dispatches": {r.DuplicateDispatches, 0},
	} {
		if got, want := pair[0], pair[1]*rounds; got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
	}
	if want := map[string]int64{"NOT_READ_ONLY": 67 * rounds, "DUPLICATE_TOOL_CALL": 10 * rounds}; !maps.Equal(r.Rejected, want) {
		t.Errorf("rejected: got %v, want %v", r.Rejected, want)
	}
	if want := map[string]int64{"SUCCESS": Runs * rounds}; !maps.Equal(r.Terminated, want) {
		t.Errorf("terminated: got %v, want %v", r.Terminated, want)
	}
	for _, violation := range r.Violations {
		t.Error(violation)
	}
}

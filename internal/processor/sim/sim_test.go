package sim

import (
	"os"
	"strconv"
	"testing"
)

// seeds says how many seeds a test plays, and from which on; SIM_SEEDS and
// SIM_SEED_BASE set them.
func seeds(t *testing.T, count uint64) (from, to uint64) {
	t.Helper()
	read := func(name string, fallback uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return fallback
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: want a number, got %q", name, text)
		}
		return n
	}
	from = read("SIM_SEED_BASE", 1)
	return from, from + read("SIM_SEEDS", count)
}

func TestNoSeedBreaksAnInvariant(t *testing.T) {
	from, to := seeds(t, 300)
	events, facts := 0, 0
	for seed := from; seed < to; seed++ {
		result, err := Run(seed, Everything())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range result.Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
		events, facts = events+result.Events, facts+result.Facts
		if t.Failed() {
			return
		}
	}
	t.Logf("%d seeds, %d events, %d facts", to-from, events, facts)
	if events == 0 || facts == 0 {
		t.Fatal("the simulation did nothing")
	}
}

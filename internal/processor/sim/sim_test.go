package sim

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func simulator(t testing.TB) *Simulator {
	t.Helper()
	s, err := NewSimulator()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNoSeedBreaksAnInvariant plays the seeds that "make sim" plays by the
// thousand.
func TestNoSeedBreaksAnInvariant(t *testing.T) {
	s := simulator(t)
	var counts Counts
	for seed := uint64(1); seed <= 300; seed++ {
		result := s.Play(seed, Everything(), nil)
		for _, v := range result.Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
		counts.Add(result.Counts)
		if t.Failed() {
			return
		}
	}
	t.Log(counts)
}

// TestEverySortOfTroubleHappens holds that the simulation does what it says: a
// fault that never comes proves nothing.
func TestEverySortOfTroubleHappens(t *testing.T) {
	s := simulator(t)
	var counts Counts
	for seed := uint64(1); seed <= 100; seed++ {
		counts.Add(s.Play(seed, Everything(), nil).Counts)
	}
	for kind, n := range counts {
		if n < 50 {
			t.Errorf("want at least 50 %v in 100 seeds, got %d", Count(kind), n)
		}
	}
}

// TestASeedAlwaysPlaysTheSame holds what makes a failing seed worth telling.
func TestASeedAlwaysPlaysTheSame(t *testing.T) {
	s, other := simulator(t), simulator(t)
	for seed := uint64(1); seed <= 5; seed++ {
		var first, second bytes.Buffer
		a, b := s.Play(seed, Everything(), &first), other.Play(seed, Everything(), &second)
		if !reflect.DeepEqual(a, b) || first.String() != second.String() {
			t.Fatalf("seed %d played twice and was not the same", seed)
		}
		if quiet := s.Play(seed, Everything(), nil); !reflect.DeepEqual(a, quiet) {
			t.Fatalf("seed %d is another when nobody looks", seed)
		}
		if !strings.Contains(first.String(), "carries events") {
			t.Fatalf("the trace tells nothing: %.200s", first.String())
		}
	}
}

// TestWithoutFaultsEveryRunEnds plays the world without trouble.
func TestWithoutFaultsEveryRunEnds(t *testing.T) {
	s := simulator(t)
	for seed := uint64(1); seed <= 50; seed++ {
		result := s.Play(seed, Faults{}, nil)
		if len(result.Violations) > 0 {
			t.Fatalf("seed %d: %s", seed, strings.Join(result.Violations, "\n"))
		}
		if c := result.Counts; c[Crashes]+c[Stalls]+c[StoreErrors]+c[StoreLosses] > 0 {
			t.Fatalf("seed %d: want no trouble, got %v", seed, c)
		}
	}
}

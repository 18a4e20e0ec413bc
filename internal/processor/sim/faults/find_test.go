package faults

import (
	"os"
	"strings"
	"testing"
)

// TestEveryFaultFitsTheTree holds the tables to the code as it is.
func TestEveryFaultFitsTheTree(t *testing.T) {
	root := moduleRoot(t)
	names := make(map[string]bool)
	for _, f := range all() {
		if names[f.name] || f.name == "" || f.wrong == "" || f.seeds < 1 {
			t.Errorf("%q: want a name of its own, what is wrong, and a bound of seeds", f.name)
		}
		names[f.name] = true
		if _, err := f.files(root); err != nil {
			t.Error(err)
		}
	}
	if len(names) < 20 {
		t.Errorf("want at least 20 faults, got %d", len(names))
	}
}

// The simulation is built and played for each fault, some seconds each. Without
// SIM_FAULTS=all, which "make sim" sets, these stand for the others: one of the
// worker, one of a handover, one of the rules.
func chosen(t *testing.T) []fault {
	t.Helper()
	switch which := os.Getenv("SIM_FAULTS"); which {
	case "all":
		return all()
	case "":
		return []fault{workerFaults()[0], handoverFaults()[0], ruleFaults()[0]}
	default:
		var some []fault
		for _, f := range all() {
			if strings.Contains(f.name, which) {
				some = append(some, f)
			}
		}
		if len(some) == 0 {
			t.Fatalf("SIM_FAULTS: want all, or a part of the name of a fault, got %q", which)
		}
		return some
	}
}

// TestTheSimulationFindsEachFault builds the simulation with one fault after the
// other, and expects a violation within its bound of seeds. Without a fault it
// finds nothing.
func TestTheSimulationFindsEachFault(t *testing.T) {
	root := moduleRoot(t)
	t.Run("none", func(t *testing.T) {
		if out, violated := play(t, build(t, root, ""), 200); violated {
			t.Fatalf("a violation without any fault, so that nothing could be told of the others:\n%s", out)
		}
	})
	two := make(chan struct{}, 2) // builds need memory, and the processors are few
	for _, f := range chosen(t) {
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			two <- struct{}{}
			defer func() { <-two }()
			overlay, err := f.overlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			out, violated := play(t, build(t, root, overlay), f.seeds)
			if !violated {
				t.Fatalf("%s: %s, and the simulation does not see it in %d seeds:\n%s", f.name, f.wrong, f.seeds, out)
			}
			first, _, _ := strings.Cut(out, "\n  play it again")
			t.Logf("%s (%s): %s", f.name, f.wrong, first)
		})
	}
}

// Sim plays seeds of the simulation in internal/processor/sim, side by side, and
// says what it found; its last line counts what happened. Its exit status is 1
// if a seed broke an invariant.
//
//	sim -seeds 10000 -base 1    many seeds, from one on
//	sim -seed 7                 one seed, step by step
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"runledger/internal/processor/sim"
)

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 0, "play this seed step by step")
	flag.Uint64Var(&o.seeds, "seeds", 2000, "how many seeds to play")
	flag.Uint64Var(&o.base, "base", 1, "the first of them")
	flag.IntVar(&o.side, "parallel", runtime.GOMAXPROCS(0), "how many at once")
	flag.Parse()
	debug.SetGCPercent(400) // seeds are short-lived, and there is memory enough
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sim: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	seed, seeds, base uint64
	side              int
}

var errViolated = errors.New("an invariant was broken")

func run(o options, out io.Writer) error {
	s, err := sim.NewSimulator()
	if err != nil {
		return err
	}
	if o.seed > 0 {
		return playOne(s, o.seed, out)
	}
	return playMany(s, o, out)
}

// playOne tells what happens in one seed.
func playOne(s *sim.Simulator, seed uint64, out io.Writer) error {
	result := s.Play(seed, sim.Everything(), out)
	fmt.Fprintf(out, "\n%v\n", result.Counts)
	if len(result.Violations) == 0 {
		return nil
	}
	tellFailure(out, result)
	return fmt.Errorf("seed %d: %w", seed, errViolated)
}

func tellFailure(out io.Writer, r sim.Result) {
	fmt.Fprintf(out, "seed %d:\n", r.Seed)
	for _, v := range r.Violations {
		fmt.Fprintf(out, "  %s\n", v)
	}
	fmt.Fprintf(out, "  play it again step by step: make sim SEED=%d\n", r.Seed)
}

// Sim plays seeds of the simulation in internal/processor/sim, side by side, and
// says what it found; its last line counts what happened. Its exit status is 1
// if a seed broke an invariant, and 2 if its flags are wrong.
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
	"strings"

	"runledger/internal/processor/sim"
)

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "sim: %v\n", err)
		os.Exit(2)
	}
	debug.SetGCPercent(400) // seeds are short-lived, and there is memory enough
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sim: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	one               bool // seed was given: play it alone, step by step
	seed, seeds, base uint64
	side              int
}

// parse reads the flags; help goes to errOut. With -seed the others would say
// nothing, so they are refused beside it.
func parse(args []string, errOut io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Uint64Var(&o.seed, "seed", 0, "play this seed step by step")
	flags.Uint64Var(&o.seeds, "seeds", 2000, "how many seeds to play")
	flags.Uint64Var(&o.base, "base", 1, "the first of them")
	flags.IntVar(&o.side, "parallel", runtime.GOMAXPROCS(0), "how many at once")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("want flags only, got %q", flags.Arg(0))
	}
	var others []string
	flags.Visit(func(f *flag.Flag) {
		if o.one = o.one || f.Name == "seed"; f.Name != "seed" {
			others = append(others, "-"+f.Name)
		}
	})
	if o.one && len(others) > 0 {
		return o, fmt.Errorf("want -seed alone, got it with %s", strings.Join(others, ", "))
	}
	if !o.one && (o.side < 1 || o.seeds < 1) {
		return o, fmt.Errorf("want -parallel and -seeds of at least 1, got %d and %d", o.side, o.seeds)
	}
	return o, nil
}

var errViolated = errors.New("an invariant was broken")

func run(o options, out io.Writer) error {
	s, err := sim.NewSimulator()
	if err != nil {
		return err
	}
	if o.one {
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

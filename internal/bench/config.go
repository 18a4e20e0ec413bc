package bench

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// Config says what to measure, and how long.
type Config struct {
	// Program is this program's own path: it is started again as each of the
	// processes, by the commands below "bench".
	Program string
	// Dir is an empty folder for the servers' files; some gigabytes for a full
	// measurement. Its content is removed after each session.
	Dir string
	// Seconds is the measured time of each phase, without its warm-up.
	Seconds int
	// Rounds of processor and floor; the medians of the rounds are told.
	Rounds int
	// Rates are the fixed arrival rates, in calls a second, at which latencies
	// are measured, beside a quarter, a half and three quarters of the
	// processor's throughput. None leaves latencies out.
	Rates []int
	// Progress takes a line for each phase, for people.
	Progress io.Writer
}

// Validate names the first field that is wrong, what it got and what it wants.
func (c Config) Validate() error {
	switch {
	case c.Program == "":
		return errors.New(`bench: Program is "", want the path of this program`)
	case c.Dir == "":
		return errors.New(`bench: Dir is "", want an empty folder`)
	case c.Seconds < 1 || c.Seconds > MaxSeconds:
		return fmt.Errorf("bench: Seconds is %d, want 1 to %d", c.Seconds, MaxSeconds)
	case c.Rounds < 1 || c.Rounds > MaxRounds:
		return fmt.Errorf("bench: Rounds is %d, want 1 to %d", c.Rounds, MaxRounds)
	case c.Progress == nil:
		return errors.New("bench: Progress is nil, want a writer")
	}
	for _, rate := range c.Rates {
		if rate < 1 || rate > MaxRate {
			return fmt.Errorf("bench: a rate is %d, want 1 to %d calls a second", rate, MaxRate)
		}
	}
	if _, err := exec.LookPath(c.Program); err != nil {
		return fmt.Errorf("bench: Program: %w", err)
	}
	return nil
}

// What a [Config] may ask for at most.
const (
	MaxSeconds = 3600
	MaxRounds  = 100
	MaxRate    = 50_000 // arrivals a second that one load process can do
)

// The commands below "bench" that make this program one of the processes.
const (
	CommandNATS  = "nats-server"
	CommandLoad  = "load"
	CommandFloor = "floor"
)

// warmup is what goes before the measured time of a phase.
func (c Config) warmup() time.Duration {
	return min(max(c.measured()/4, time.Second), 5*time.Second)
}

func (c Config) measured() time.Duration { return time.Duration(c.Seconds) * time.Second }

func (c Config) say(format string, args ...any) { fmt.Fprintf(c.Progress, format+"\n", args...) }

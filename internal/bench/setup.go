package bench

import (
	"fmt"
	"strings"
)

// Setup is what the servers, the processors and the calls are like.
type Setup struct {
	SyncAlways bool // nats-server: fsync before every acknowledgement
	Replicas   int  // of streams and buckets, on as many servers: 1 or 3
	NoAOF      bool // redis-server: no append-only file; else it is fsynced every second
	Processors int

	ArgumentBytes int // of each call
	ResultBytes   int // raw response of each call
	OpenRuns      int // that the calls go to
}

// BaseSetup is the one from which each cell of the matrix differs in one thing.
func BaseSetup() Setup {
	return Setup{Replicas: 1, Processors: 1, ArgumentBytes: 1 << 10, ResultBytes: 4 << 10, OpenRuns: 1000}
}

// Validate names the first field that is wrong, what it got and what it wants.
func (s Setup) Validate() error {
	switch {
	case s.Replicas != 1 && s.Replicas != 3:
		return fmt.Errorf("setup: Replicas is %d, want 1 or 3", s.Replicas)
	case s.Processors < 1 || s.Processors > 16:
		return fmt.Errorf("setup: Processors is %d, want 1 to 16", s.Processors)
	case s.ArgumentBytes < minArguments || s.ArgumentBytes > 128<<10:
		return fmt.Errorf("setup: ArgumentBytes is %d, want %d to 128 KiB", s.ArgumentBytes, minArguments)
	case s.ResultBytes < minResult || s.ResultBytes > maxResult:
		return fmt.Errorf("setup: ResultBytes is %d, want %d to %d", s.ResultBytes, minResult, maxResult)
	case s.OpenRuns < 1 || s.OpenRuns > maxRuns:
		return fmt.Errorf("setup: OpenRuns is %d, want 1 to %d", s.OpenRuns, maxRuns)
	}
	return nil
}

// window is how many calls are under way at saturation: one in each run, but no
// more than memory and servers take.
func (s Setup) window() int {
	const mostBytes = 64 << 20
	return min(s.OpenRuns, 1000, max(16, mostBytes/(s.ResultBytes+s.ArgumentBytes)))
}

// maxCalls bounds a phase so that what Redis keeps of it fits into memory.
func (s Setup) maxCalls() int {
	const mostBytes = 2 << 30
	return mostBytes / (s.ResultBytes + s.ArgumentBytes + 4<<10)
}

// String names the setup for people.
func (s Setup) String() string {
	parts := []string{"sync default"}
	if s.SyncAlways {
		parts[0] = "sync always"
	}
	if s.Replicas > 1 {
		parts = append(parts, fmt.Sprintf("%d replicas", s.Replicas))
	}
	if s.NoAOF {
		parts = append(parts, "no AOF")
	} else {
		parts = append(parts, "AOF everysec")
	}
	return strings.Join(append(parts, plural(s.Processors, "processor"), size(s.ArgumentBytes)+" arguments",
		size(s.ResultBytes)+" results", plural(s.OpenRuns, "open run")), ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func size(bytes int) string {
	if bytes >= 1<<10 && bytes%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d B", bytes)
}

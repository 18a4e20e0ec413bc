package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test program is the processes, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == commandNATS || os.Args[1] == commandPlay) {
		main()
		return
	}
	m.Run()
}

func testConfig(t *testing.T, peers ...spec) Config {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Peers: peers, Program: program, Dir: t.TempDir(), Seconds: 1, Rounds: 1, Progress: t.Output()}
}

// A play fails by itself unless each call was executed once and settled once
// and the tool itself tells of as many.
func TestEachPeerExecutesEveryCallOnceWhereNothingFails(t *testing.T) {
	for _, s := range catalogue() {
		t.Run(s.Name, func(t *testing.T) {
			cfg := testConfig(t, s)
			results, err := measureAll(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if len(results) != 1 {
				t.Fatalf("got %d results, want 1", len(results))
			}
			r := results[0]
			c := r.Calls
			if c.Intended == 0 || c.Executed != c.Intended || c.Settled != c.Intended || c.ExecutedMore != 0 || c.SettledMore != 0 {
				t.Errorf("calls came to %+v, want each executed once and settled once", c)
			}
			if r.CallsPerSecond <= 0 || r.P50 <= 0 || r.P99 < r.P50 {
				t.Errorf("got %.1f calls/s, p50 %.3f ms, p99 %.3f ms, want figures above 0 in order", r.CallsPerSecond, r.P50, r.P99)
			}
			if left, err := os.ReadDir(cfg.Dir); err != nil || len(left) != 0 {
				t.Errorf("the folder holds %v (%v), want nothing left", left, err)
			}
		})
	}
}

func TestAnInterruptEndsAllProcesses(t *testing.T) {
	s, err := specOf("watermill")
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, s)
	cfg.Seconds = 600
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := measureAll(ctx, cfg)
		ended <- err
	}()
	var mine []int
	deadline := time.Now().Add(20 * time.Second)
	for len(mine) < 3 { // nats-server, redis-server, peer
		if time.Now().After(deadline) {
			t.Fatalf("processes %v run, want 3", mine)
		}
		mine = children(t)
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was cancelled", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("still running a minute after the interrupt")
	}
	if left := children(t); len(left) != 0 {
		t.Errorf("processes %v are left, want none", left)
	}
}

// children are the processes that this one has started and not yet waited for.
func children(t *testing.T) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		t.Fatalf("no list of children in /proc (%v): this test needs Linux", err)
	}
	var all []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(data)) {
			pid, err := callOf(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pid)
		}
	}
	return all
}

//go:build chaos && soak

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"runledger/internal/audit"
	"runledger/internal/demo/demotest"
	"runledger/internal/events"
	"runledger/internal/testenv"
)

const (
	soakMinutes = "SOAK_MINUTES"
	soakSeed    = "SOAK_SEED" // of the order of the faults; another one each time if it is not given

	// soakRunTime and soakTTL are how long keys of a run stay: its deadline,
	// and what comes on top.
	soakRunTime = 3 * time.Minute
	soakTTL     = 30 * time.Second

	// risingCycles is in how many of the first cycles fewer keys expire than are
	// made.
	risingCycles = 4

	// soakPlays is how long of each cycle is played and broken; in the rest the
	// levels come back.
	soakPlays = 35 * time.Second
)

// TestSoak plays random faults under load, cycle after cycle of about a minute,
// and wants every level to come back after each, and nothing to grow over all.
func TestSoak(t *testing.T) {
	minutes, err := strconv.Atoi(os.Getenv(soakMinutes))
	if err != nil || minutes < 2 {
		t.Fatalf("%s is %q, want a number of minutes, at least 2", soakMinutes, os.Getenv(soakMinutes))
	}
	s := newSoak(t)
	for time.Since(s.began) < time.Duration(minutes)*time.Minute && !t.Failed() {
		s.cycle()
	}
	s.verdict()
}

// soak is one long test. The first processor is never killed, so that what it
// leaks shows.
type soak struct {
	t           *testing.T
	w           *world
	nats, redis *testenv.Proxy
	random      *rand.Rand
	rounds      int64
	played      []time.Time // when each round ended
	perRound    int         // keys that a round leaves
	base        level       // after a first load, before any fault
	levels      []level     // at the end of each cycle
	began       time.Time
	faults      map[string]int
	slowest     time.Duration // until work went on
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	w, nats, redis := throughWith(t, "longest_run: 1h\nttl: "+soakTTL.String()+"\n")
	w.runTime, w.rest = soakRunTime, 500*time.Millisecond
	seed := rand.Uint64()
	if text := os.Getenv(soakSeed); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s is %q, want a number", soakSeed, text)
		}
		seed = given
	}
	t.Logf("soak: %s=%d plays the same faults in the same order", soakSeed, seed)
	s := &soak{t: t, w: w, nats: nats, redis: redis, random: rand.New(rand.NewPCG(seed, 0)), faults: map[string]int{}}
	s.rounds = w.begin(0).end(8)
	s.note(0)
	s.base = w.settledLevel(t)
	s.perRound = s.base.keys / int(s.rounds)
	s.began = time.Now()
	t.Logf("soak: minute  0.0, %d rounds before any fault: %v", s.rounds, s.base)
	return s
}

// note notes when rounds ended; those before the time are as good as there.
func (s *soak) note(before int64) {
	for range s.rounds - before {
		s.played = append(s.played, time.Now())
	}
}

// cycle plays and breaks, then measures.
func (s *soak) cycle() {
	s.t.Helper()
	w, before := s.w, s.rounds
	w.load, w.spans = w.begin(s.rounds), nil
	w.load.awaitCalls(30)
	var made []string
	for began := time.Now(); time.Since(began) < soakPlays && !s.t.Failed(); {
		trouble := s.pick()
		s.faults[trouble.name]++
		made = append(made, trouble.name)
		at := time.Now()
		w.during(trouble.lasts, trouble.breaks, trouble.mends)
		s.slowest = max(s.slowest, time.Since(at)-trouble.lasts)
		w.pass(2 * time.Second)
	}
	s.rounds = w.load.end(1)
	s.note(before)
	var now level
	within(s.t, 2*time.Minute, "everything is back at its level", func() (err error) {
		if now, err = w.measure(); err != nil {
			return err
		}
		return now.wantAsLow(s.allowed(), 1)
	})
	s.levels = append(s.levels, now)
	s.t.Logf("soak: minute %4.1f, %3d rounds, %s: %v", time.Since(s.began).Minutes(), s.rounds, strings.Join(made, ", "), now)
}

// allowed is the level before the faults, with the keys of the runs that cannot
// have expired yet.
func (s *soak) allowed() level {
	alive := 0
	for _, at := range s.played {
		if time.Since(at) < soakRunTime+soakTTL+10*time.Second { // and what Redis takes to notice
			alive++
		}
	}
	allowed := s.base
	allowed.keys, allowed.rounds = alive*s.perRound, 1
	return allowed
}

// trouble is one cheap fault.
type trouble struct {
	name          string
	lasts         time.Duration
	breaks, mends func()
}

func (s *soak) pick() trouble {
	w := s.w
	set := func(p *testenv.Proxy, n testenv.Network) func() { return func() { p.Set(n) } }
	whole := testenv.Network{}
	all := []trouble{
		{"processor killed", 0, func() { w.kill(1) }, func() { w.again(1) }},
		{"processor paused", 4 * time.Second, func() { w.pause(0) }, func() { w.resume(0) }},
		{"redis killed", time.Second, w.redis[0].Kill, w.redis[0].Restart},
		{"redis flushed", 0, w.redis[0].FlushAll, func() {}},
		{"redis out of memory", 2 * time.Second, func() { w.redis[0].SetMaxMemory(1) }, func() { w.redis[0].SetMaxMemory(0) }},
		{"nats killed", time.Second, w.nats.Kill, w.nats.Restart},
		{"nats cut", 3 * time.Second, set(s.nats, testenv.Network{Cut: true}), set(s.nats, whole)},
		{"nats silent", 3 * time.Second, set(s.nats, testenv.Network{Silent: true}), set(s.nats, whole)},
		{"nats breaks", 3 * time.Second, set(s.nats, testenv.Network{CutReplies: 20_011}), set(s.nats, whole)},
		{"redis cut", 3 * time.Second, set(s.redis, testenv.Network{Cut: true}), set(s.redis, whole)},
		{"redis silent", 3 * time.Second, set(s.redis, testenv.Network{Silent: true}), set(s.redis, whole)},
		{"redis breaks", 3 * time.Second, set(s.redis, testenv.Network{CutReplies: 20_011}), set(s.redis, whole)},
	}
	return all[s.random.IntN(len(all))]
}

// verdict looks at what only a long time shows, and counts.
func (s *soak) verdict() {
	s.t.Helper()
	lasted := time.Since(s.began)
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	report, err := audit.Count(ctx, s.w.js, events.DefaultPrefix)
	if err != nil {
		s.t.Fatal(err)
	}
	demotest.Want(s.t, report, s.rounds)
	memorySlack := 24 << 20 // a young process still grows into its heap
	if len(s.levels) >= 9 {
		memorySlack = 8 << 20
	}
	s.wantFlat("bytes of the processor that was never killed", memorySlack, s.levels, func(l level) int { return l.firstResident })
	s.wantFlat("bytes of Redis", 8<<20, s.levels[min(risingCycles, len(s.levels)):], func(l level) int { return l.redisBytes })
	s.wantFlat("goroutines of the processor that was never killed", 5, s.levels, func(l level) int { return l.firstGoroutines })
	s.wantFlat("Redis connections", 6, s.levels, func(l level) int { return l.redisConns })
	s.wantFlat("NATS connections", 0, s.levels, func(l level) int { return l.natsConns })
	s.wantFlat("consumers", 0, s.levels, func(l level) int { return l.consumers })
	kinds := 0
	for _, times := range s.faults {
		kinds += times
	}
	result := "nothing grew"
	if s.t.Failed() {
		result = "FAILED"
	}
	s.t.Logf("soak: %s: %.0f minutes, %d faults of %d kinds, work went on within %.1f s of each; %d runs, %d calls, %d facts, %d violations",
		result, lasted.Minutes(), kinds, len(s.faults), s.slowest.Seconds(), report.Runs, report.Calls, report.Facts, report.ViolationCount)
}

// wantFlat wants the median of the last third of the cycles to be no more than
// an eighth, and the slack, above that of the first third.
func (s *soak) wantFlat(what string, slack int, levels []level, of func(level) int) {
	s.t.Helper()
	third := len(levels) / 3
	if third == 0 {
		s.t.Logf("soak: %s: too few cycles to be judged", what)
		return
	}
	median := func(levels []level) int {
		var values []int
		for _, l := range levels {
			values = append(values, of(l))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	first, last := median(levels[:third]), median(levels[len(levels)-third:])
	verdict := fmt.Sprintf("%s: %d at first, %d at last", what, first, last)
	if last > first+first/8+slack {
		s.t.Errorf("grew: %s", verdict)
		return
	}
	s.t.Logf("soak: %s", verdict)
}

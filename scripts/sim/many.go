package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"runledger/internal/processor/sim"
)

// playMany plays seeds side by side, in order, and stops after the first that
// fails. Those that were begun before are played to their end, so that the
// lowest seed that fails is told, whatever the machine does.
func playMany(s *sim.Simulator, o options, out io.Writer) error {
	p := &play{next: o.base, end: o.base + o.seeds}
	began := time.Now()
	var group sync.WaitGroup
	for range o.side {
		group.Go(func() { p.work(s) })
	}
	group.Wait()
	took := time.Since(began)
	if p.failed != nil {
		tellFailure(out, *p.failed)
	}
	fmt.Fprintf(out, "%v in %.1f s\n", p.counts, took.Seconds())
	if p.failed != nil {
		return fmt.Errorf("seed %d: %w", p.failed.Seed, errViolated)
	}
	return nil
}

// play is what the goroutines share.
type play struct {
	mu     sync.Mutex
	next   uint64
	end    uint64
	failed *sim.Result // the lowest seed that failed
	counts sim.Counts
}

func (p *play) work(s *sim.Simulator) {
	for {
		seed, ok := p.take()
		if !ok {
			return
		}
		p.done(s.Play(seed, sim.Everything(), nil))
	}
}

func (p *play) take() (seed uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil || p.next == p.end {
		return 0, false
	}
	seed = p.next
	p.next++
	return seed, true
}

func (p *play) done(r sim.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Add(r.Counts)
	if len(r.Violations) > 0 && (p.failed == nil || r.Seed < p.failed.Seed) {
		p.failed = &r
	}
}

package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// playing is an order under way. All instants are the load's own.
type playing struct {
	order playOrder
	load  *load

	began, ends time.Time // of the measured time
	early       chan struct{}
	total       atomic.Int64 // settled; the watching goroutine reads it

	sent, under int // calls, and those under way
	measured    map[*call]struct{}

	idle   []int // runs without a call, in a closed loop
	active []int // runs in turn, in an open loop
	counts []int // calls of each
	spare  int   // the next run that takes a place

	toDispatch, toSettled, whole, late recorder
}

func newPlaying(o playOrder, l *load) *playing {
	p := &playing{
		order: o, load: l, early: make(chan struct{}), measured: make(map[*call]struct{}),
		spare: o.FirstRun + o.ActiveRuns, counts: make([]int, o.ActiveRuns),
		toDispatch: newRecorder(), toSettled: newRecorder(), whole: newRecorder(), late: newRecorder(),
	}
	for i := range o.ActiveRuns {
		p.idle, p.active = append(p.idle, o.FirstRun+i), append(p.active, o.FirstRun+i)
	}
	return p
}

// run plays to the end, and tells what came of it.
func (p *playing) run(ctx context.Context) (play, error) {
	start := time.Now()
	p.began = start.Add(time.Duration(p.order.WarmupMS) * time.Millisecond)
	p.ends = p.began.Add(time.Duration(p.order.MeasuredMS) * time.Millisecond)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan watched, 1)
	go func() { watched <- p.watch(ctx) }()
	arrive := p.closed
	if p.order.Rate > 0 {
		arrive = p.open
	}
	if err := arrive(ctx, start); err != nil {
		return play{}, err
	}
	w := <-watched
	if w.err != nil {
		return play{}, w.err
	}
	if err := p.drain(ctx); err != nil {
		return play{}, err
	}
	result := play{Seconds: w.seconds, Calls: w.calls, Cost: w.cost, Late: p.late.latency(), Unfinished: int64(len(p.measured))}
	p.giveUp(time.Now())
	result.Latencies = Latencies{
		IntentToDispatch: p.toDispatch.latency(), ResultToSettled: p.toSettled.latency(), Whole: p.whole.latency(),
	}
	return result, nil
}

// watched is what the measured time came to.
type watched struct {
	seconds float64
	calls   int64
	cost    cost
	err     error
}

// watch looks at the processes when the measured time begins and ends, and
// counts calls and time between the very same instants.
func (p *playing) watch(ctx context.Context) watched {
	if err := p.wait(ctx, p.began); err != nil {
		return watched{err: err}
	}
	begin, err := p.order.Watch.look(ctx, true)
	if err != nil {
		return watched{err: err}
	}
	from, before := time.Now(), p.total.Load()
	if err := p.wait(ctx, p.ends); err != nil {
		return watched{err: err}
	}
	until, after := time.Now(), p.total.Load()
	end, err := p.order.Watch.look(ctx, false)
	if err != nil {
		return watched{err: err}
	}
	calls := after - before
	if !p.order.Unmeasured && (calls == 0 || until.Sub(from) < time.Duration(p.order.MeasuredMS)*time.Millisecond/10) {
		return watched{err: fmt.Errorf("%s settled in %v: want a longer measured time, or a machine with less else to do", plural(int(calls), "call"), until.Sub(from))}
	}
	return watched{seconds: until.Sub(from).Seconds(), calls: calls, cost: begin.cost(end, calls)}
}

// wait waits for an instant, or for the early end.
func (p *playing) wait(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.early:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closed keeps a number of calls under way until the time is over, or as many
// calls were sent as there may be.
func (p *playing) closed(ctx context.Context, _ time.Time) error {
	over := time.NewTimer(time.Until(p.ends))
	defer over.Stop()
	for {
		for p.under < p.order.Window && len(p.idle) > 0 {
			if p.order.MaxCalls > 0 && p.sent == p.order.MaxCalls {
				close(p.early)
				return nil
			}
			run := p.idle[0]
			p.idle = p.idle[1:]
			if err := p.send(run, time.Now()); err != nil {
				return err
			}
		}
		select {
		case m := <-p.load.in:
			if err := p.load.take(m); err != nil {
				return err
			}
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open sends calls by schedule, whatever became of the ones before.
func (p *playing) open(ctx context.Context, start time.Time) error {
	s := schedule{start: start, rate: p.order.Rate}
	total := s.count(p.ends)
	due := make(chan struct{}, 1)
	go pace(ctx, s, total, due)
	for p.sent < total {
		select {
		case <-due:
			if err := p.sendDue(s, total); err != nil {
				return err
			}
		case m := <-p.load.in:
			if err := p.load.take(m); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// pace says when an arrival is due. Who takes its sign looks for itself how many
// are: signs that nobody took are lost.
func pace(ctx context.Context, s schedule, total int, due chan<- struct{}) {
	for n := 0; n < total && ctx.Err() == nil; n++ {
		sleepUntil(s.at(n))
		select {
		case due <- struct{}{}:
		default:
		}
	}
	select { // the last sign must not be lost
	case due <- struct{}{}:
	case <-ctx.Done():
	}
}

func (p *playing) sendDue(s schedule, total int) error {
	for p.sent < total {
		at := s.at(p.sent)
		behind := time.Since(at)
		if behind < 0 {
			return nil
		}
		if !at.Before(p.began) {
			p.late.record(behind)
		}
		run, err := p.inTurn()
		if err != nil {
			return err
		}
		if err := p.send(run, at); err != nil {
			return err
		}
	}
	return nil
}

// inTurn gives the run of the next arrival.
func (p *playing) inTurn() (int, error) {
	place := p.sent % len(p.active)
	if p.order.CallsPerRun > 0 && p.counts[place] == p.order.CallsPerRun {
		if p.spare == p.load.runs {
			return 0, fmt.Errorf("play: all of %s have had %s each", plural(p.load.runs, "open run"), plural(p.order.CallsPerRun, "call"))
		}
		p.active[place], p.counts[place] = p.spare, 0
		p.spare++
	}
	p.counts[place]++
	return p.active[place], nil
}

func (p *playing) send(run int, scheduled time.Time) error {
	c, err := p.load.send(run, scheduled)
	if err != nil {
		return err
	}
	c.play = p
	if !scheduled.Before(p.began) && scheduled.Before(p.ends) {
		c.measured = true
		p.measured[c] = struct{}{}
	}
	p.sent++
	p.under++
	return nil
}

// settled takes a call that has ended.
func (p *playing) settled(c *call, now time.Time) {
	if c.measured {
		p.toSettled.record(now.Sub(c.resulted))
		p.whole.record(now.Sub(c.scheduled))
		delete(p.measured, c)
	}
	p.total.Add(1)
	p.under--
	p.idle = append(p.idle, c.run)
}

// drain waits for what is under way.
func (p *playing) drain(ctx context.Context) error {
	patience := time.NewTimer(time.Duration(p.order.DrainMS) * time.Millisecond)
	defer patience.Stop()
	for p.under > 0 {
		select {
		case m := <-p.load.in:
			if err := p.load.take(m); err != nil {
				return err
			}
		case <-patience.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// giveUp counts what has not settled as having taken as long as it has been
// under way, in whole and in the stretch in which it hangs: that is the least
// that these take. A call whose claim is not answered hangs in neither.
func (p *playing) giveUp(now time.Time) {
	for c := range p.measured {
		p.whole.record(now.Sub(c.scheduled))
		switch {
		case c.dispatch == "":
			p.toDispatch.record(now.Sub(c.scheduled))
		case !c.resulted.IsZero():
			p.toSettled.record(now.Sub(c.resulted))
		}
		c.measured = false
	}
}

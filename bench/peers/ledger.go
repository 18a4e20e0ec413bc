package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// ledger is what became of each call, by its number: when its intent left, how
// often it was executed, and when it was settled. It lies in the memory of the
// measuring process, beside the tool that is measured, and costs it less than a
// microsecond a call. Any goroutine may use it.
type ledger struct {
	mu    sync.Mutex
	calls []entry
}

type entry struct {
	intended, settled  time.Time
	executions, ending int
	done               chan struct{} // closed when it is settled
}

// intend opens a call whose intent leaves now. done is closed when the call is
// settled.
func (l *ledger) intend() (call int, done <-chan struct{}) {
	e := entry{done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.intended = time.Now()
	l.calls = append(l.calls, e)
	return len(l.calls) - 1, e.done
}

// reserve opens calls whose intents leave later, and gives the first of their
// numbers.
func (l *ledger) reserve(calls int) (first int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = len(l.calls)
	for range calls {
		l.calls = append(l.calls, entry{done: make(chan struct{})})
	}
	return first
}

// leave notes that the intent of a reserved call leaves now.
func (l *ledger) leave(call int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.entry(call)
	if err == nil {
		e.intended = time.Now()
	}
	return err
}

// execute notes that the call's tool runs.
func (l *ledger) execute(call int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.entry(call)
	if err == nil {
		e.executions++
	}
	return err
}

// settle notes that whoever asked for the call has its result.
func (l *ledger) settle(call int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.entry(call)
	if err != nil {
		return err
	}
	if e.ending++; e.ending == 1 {
		e.settled = time.Now()
		close(e.done)
	}
	return nil
}

func (l *ledger) entry(call int) (*entry, error) {
	if call < 0 || call >= len(l.calls) {
		return nil, fmt.Errorf("call %d was never intended, there are %d", call, len(l.calls))
	}
	return &l.calls[call], nil
}

// tally is what all calls of a measurement came to.
type tally struct {
	Intended     int `json:"intended"`
	Executed     int `json:"executed"`      // at least once
	ExecutedMore int `json:"executed_more"` // more than once
	Settled      int `json:"settled"`       // at least once
	SettledMore  int `json:"settled_more"`  // more than once
}

func (l *ledger) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := tally{Intended: len(l.calls)}
	for _, e := range l.calls {
		t.Executed += min(e.executions, 1)
		t.ExecutedMore += min(max(e.executions-1, 0), 1)
		t.Settled += min(e.ending, 1)
		t.SettledMore += min(max(e.ending-1, 0), 1)
	}
	return t
}

func (t tally) plus(other tally) tally {
	return tally{
		Intended: t.Intended + other.Intended,
		Executed: t.Executed + other.Executed, ExecutedMore: t.ExecutedMore + other.ExecutedMore,
		Settled: t.Settled + other.Settled, SettledMore: t.SettledMore + other.SettledMore,
	}
}

// check says what is not as it is where nothing fails: each call executed once
// and settled once.
func (t tally) check() error {
	if want := (tally{Intended: t.Intended, Executed: t.Intended, Settled: t.Intended}); t != want || t.Intended == 0 {
		return fmt.Errorf("calls came to %+v, want some, each executed once and settled once", t)
	}
	return nil
}

// latencies are those of the calls that were settled from one instant until
// before another, shortest first, from intent to settled.
func (l *ledger) latencies(from, until time.Time) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []time.Duration
	for _, e := range l.calls {
		if e.ending > 0 && !e.settled.Before(from) && e.settled.Before(until) {
			all = append(all, e.settled.Sub(e.intended))
		}
	}
	slices.Sort(all)
	return all
}

// percentile is the shortest of the sorted durations that at least p percent
// do not exceed; 0 of none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

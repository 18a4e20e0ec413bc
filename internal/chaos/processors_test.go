//go:build chaos

package chaos

import (
	"fmt"
	"testing"
	"time"
)

// beyondLease is longer than a partition stays with a processor that gives no
// sign (3 s).
const beyondLease = 5 * time.Second

func TestShortProcessorIsKilledEverySecond(t *testing.T) {
	w := newWorld(t, servers{})
	playUnder(t, w, fault{
		name: "a processor of 2 killed", what: "SIGKILL every second, each in turn, started again at once",
		strike: func(w *world) {
			for i := range times(8, 4) {
				w.broken(func() { w.kill(i % 2) }, func() { w.again(i % 2) })
				w.pass(time.Second)
			}
		},
	})
}

func TestProcessorsOfThreeAreKilled(t *testing.T) {
	w := newWorld(t, servers{processes: 3})
	playUnder(t, w, fault{
		name: "processors of 3 killed", what: "SIGKILL to one, to two at once, to all three, each time started again after 5 s",
		strike: func(w *world) {
			for _, victims := range [][]int{{2}, {0, 1}, {0, 1, 2}} {
				w.during(beyondLease, func() { w.kill(victims...) }, func() { w.again(victims...) })
				w.awaitShares()
			}
		},
	})
}

func TestShortProcessorIsPausedLongerThanItsLease(t *testing.T) {
	w := newWorld(t, servers{})
	playUnder(t, w, fault{
		name: "a processor of 2 paused", what: "SIGSTOP for 5 s (the lease is 3 s), each in turn",
		strike: func(w *world) {
			for i := range times(2, 1) {
				w.during(beyondLease, func() { w.pause(i) }, func() { w.resume(i) })
			}
		},
	})
}

func TestProcessorsOfThreeArePaused(t *testing.T) {
	w := newWorld(t, servers{processes: 3})
	playUnder(t, w, fault{
		name: "processors of 3 paused", what: "SIGSTOP for 5 s to two, then to all three",
		strike: func(w *world) {
			for _, victims := range [][]int{{0, 1}, {0, 1, 2}} {
				w.during(beyondLease, func() { w.pause(victims...) }, func() { w.resume(victims...) })
				w.awaitShares()
			}
		},
	})
}

func TestProcessorsAreReplacedOneAfterTheOther(t *testing.T) {
	w := newWorld(t, servers{processes: 3})
	playUnder(t, w, fault{
		name: "rolling restart of 3 processors", what: "SIGTERM and a new one of its name, one after the other, 3 times round",
		again: time.Second, last: 5 * time.Second, // nothing breaks here
		strike: func(w *world) {
			for i := range 9 {
				w.broken(func() {
					if err := w.processors[i%3].Terminate(10 * time.Second); err != nil {
						w.t.Error(err)
					}
				}, func() { w.again(i % 3) })
				w.awaitShares()
			}
		},
	})
}

func TestProcessorThatIsAddedTakesItsShare(t *testing.T) {
	const limit = 10 * time.Second
	w := newWorld(t, servers{})
	var took time.Duration
	playUnder(t, w, fault{
		name: "a third processor added", what: "started under load",
		strike: func(w *world) {
			w.broken(func() { w.processors = append(w.processors, w.serve("added")) }, func() { took = w.awaitShares() })
			if took > limit {
				w.t.Errorf("the added processor had its share after %v, want at most %v", took, limit)
			}
		},
		note: func(*world) string { return fmt.Sprintf("its share after %.2f s", took.Seconds()) },
		more: 1,
	})
}

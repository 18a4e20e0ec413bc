//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"runledger/internal/audit"
	"runledger/internal/demo/demotest"
	"runledger/internal/events"
)

// fault is what happens to a world while the recorded runs are played.
type fault struct {
	name string
	what string // for the table
	// strike makes the fault and mends it, by world.broken, once or more.
	strike func(w *world)
	// again is how long after the mending the next fact may take at most, last
	// the last of the runs that were open; 0 is 10 s and 20 s.
	again, last time.Duration
	// besides takes what the fault itself brought about, exactly, from the
	// report; what remains is the recorded runs. May be nil.
	besides func(w *world, r *audit.Report)
	note    func(w *world) string // what else was seen; may be nil
	keys    int                   // that the fault leaves beside those of the recorded runs
	more    int                   // processors that run afterwards and did not before
}

// broken breaks something, mends it, and waits until work goes on.
func (w *world) broken(breaks, mends func()) {
	w.t.Helper()
	s := span{broken: time.Now()}
	breaks()
	mends()
	s.mended = time.Now()
	w.spans = append(w.spans, s)
	w.load.awaitCalls(40)
}

// during is a break that lasts so long.
func (w *world) during(lasts time.Duration, breaks, mends func()) {
	w.t.Helper()
	w.broken(func() { breaks(); w.pass(lasts) }, mends)
}

// playUnder plays the recorded runs through a fault and requires that they come
// out as ever, that work goes on, and that nothing is left behind.
func playUnder(t *testing.T, w *world, f fault) {
	t.Helper()
	played := w.begin(0).end(1)
	before := w.settledLevel(t)
	before.rounds, before.besideKeys = played, f.keys
	before.allowProcessors(w, f.more)

	w.load = w.begin(played)
	w.load.awaitCalls(100)
	f.strike(w)
	played = w.load.end(2) // the one at hand, and a whole one
	if t.Failed() {
		t.FailNow()
	}

	after := w.awaitLevel(t, before, played) // before our own reading leaves consumers behind
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	report, err := audit.Count(ctx, w.js, events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	whole := *report
	if f.besides != nil {
		f.besides(w, report)
	}
	demotest.Want(t, report, played)
	pace, err := paceOf(ctx, w.js, w.spans)
	if err != nil {
		t.Fatal(err)
	}
	if err := pace.wantWithin(orDefault(f.again, 10*time.Second), orDefault(f.last, 20*time.Second)); err != nil {
		t.Error(err)
	}
	t.Logf("last run that went on: %s", pace.lastRun)
	t.Logf("level before: %v", before)
	t.Logf("level after:  %v", after)
	extra := w.healed()
	if f.note != nil {
		extra = f.note(w) + "; " + extra
	}
	table.add(row{fault: f.name, what: f.what, pace: pace, report: &whole, note: extra, failed: t.Failed()})
}

// times is how often a fault is made, in the long form and in the short one.
func times(long, brief int) int {
	if short() {
		return brief
	}
	return long
}

func orDefault(value, otherwise time.Duration) time.Duration {
	if value == 0 {
		return otherwise
	}
	return value
}

// settledLevel is the level once it does not fall any more.
func (w *world) settledLevel(t *testing.T) level {
	t.Helper()
	var last level
	within(t, time.Minute, "the level is steady", func() error {
		now, err := w.measure()
		if err != nil {
			return err
		}
		if now.goroutines != last.goroutines || now.natsConns != last.natsConns || now.consumers != last.consumers {
			last = now
			return errors.New("it moves")
		}
		last = now
		return nil
	})
	return last
}

// healed sums what the processors that run now say of their healing.
func (w *world) healed() string {
	sums := map[string]float64{}
	for _, p := range w.processors {
		metrics, err := w.metricsOf(p)
		if err != nil {
			return err.Error()
		}
		for name, value := range metrics {
			sums[name] += value
		}
	}
	return fmt.Sprintf("held %.0f, rebuilt %.0f, caught up %.0f, reloaded %.0f", sums["runledger_batches_held_total"],
		sums["runledger_run_rebuilds_total"], sums["runledger_run_catch_ups_total"], sums["runledger_run_reloads_total"])
}

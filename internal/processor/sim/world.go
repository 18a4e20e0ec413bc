package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"runledger/internal/processor"
	"runledger/internal/processor/sim/judge"
)

// world is everything outside the processes of one seed, and the processes.
type world struct {
	simulator *Simulator
	random    *rand.Rand
	faults    Faults
	judge     *judge.Judge
	trace     io.Writer // nil for none
	told      int       // violations that the trace has
	counts    Counts
	began     time.Time
	clock     time.Time // of the servers

	in                      log
	runs, dispatch, invalid log
	adrift                  []func() // publishes that land later
	timers                  []timer

	records   *records
	snapshots []*records
	storeDown bool

	partitions []*partition
	processes  []*process
	rulebooks  []*processor.Rulebook
	named      int // processes so far
	depth      int // of stalls within stalls

	agents    *agents
	executors *executors
}

func newWorld(s *Simulator, random *rand.Rand, faults Faults, trace io.Writer) *world {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{
		simulator: s, random: random, faults: faults, judge: judge.New(s.judged), trace: trace, began: began, clock: began,
		records: newRecords(),
	}
	w.in, w.runs, w.dispatch, w.invalid = newLog(), newLog(), newLog(), newLog()
	w.agents, w.executors = newAgents(w), newExecutors(w)
	policies := s.policies[:1]
	if w.chance(faults.TwoPolicies) {
		policies = s.policies
	}
	for _, p := range policies {
		w.rulebooks = append(w.rulebooks, processor.NewRulebook(p, s))
	}
	for n := range 1 + w.random.IntN(3) {
		w.partitions = append(w.partitions, &partition{number: n})
	}
	for range 1 + w.random.IntN(3) {
		w.processes = append(w.processes, w.start())
	}
	return w
}

func (w *world) chance(p float64) bool { return p > 0 && w.random.Float64() < p }

// between gives a random duration, in whole milliseconds.
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64((high-low)/time.Millisecond)))*time.Millisecond
}

// tell writes a line of the trace, and before it what the judge has found.
func (w *world) tell(format string, args ...any) {
	if w.trace == nil {
		return
	}
	w.tellViolations()
	fmt.Fprintf(w.trace, "%9.3f %*s%s\n", w.clock.Sub(w.began).Seconds(), 2*w.depth, "", fmt.Sprintf(format, args...))
}

func (w *world) tellViolations() {
	for _, v := range w.judge.Violations()[w.told:] {
		fmt.Fprintf(w.trace, "%9.3f *** %s\n", w.clock.Sub(w.began).Seconds(), v)
		w.told++
	}
}

// play plays the seed to its end, or to the step of the first violation.
func (w *world) play() {
	for range 100 + w.random.IntN(200) {
		w.clock = w.clock.Add(w.between(0, 300*time.Millisecond))
		w.step()
		if len(w.judge.Violations()) > 0 {
			break
		}
	}
	if len(w.judge.Violations()) == 0 {
		w.tell("no more faults, and nothing new from the agents")
		w.settle()
	}
	if w.trace != nil {
		w.tellViolations()
	}
}

// step lets one thing happen.
func (w *world) step() {
	w.counts[Steps]++
	w.tick()
	w.trouble()
	switch n := w.random.IntN(20); {
	case n < 6:
		w.agents.act()
	case n < 10:
		w.executors.act()
	default:
		w.work()
	}
}

// trouble is what befalls the servers and the clocks of processes.
func (w *world) trouble() {
	w.troubleStore()
	if w.chance(w.faults.Jump) {
		p := w.processes[w.random.IntN(len(w.processes))]
		p.skew = w.between(-2*time.Second, 2*time.Second)
		if w.chance(0.1) {
			p.skew *= 10
		}
		w.counts[Jumps]++
		w.tell("the clock of %s jumps, and is off by %v", p.name, p.skew)
	}
	if len(w.adrift) > 0 && w.chance(0.3) {
		land := w.adrift[0]
		w.adrift = w.adrift[1:]
		land()
	}
}

func (w *world) troubleStore() {
	was := w.storeDown
	if w.storeDown = w.chance(w.faults.StoreDown); was {
		w.storeDown = w.faults.StoreDown > 0 && !w.chance(0.1)
	}
	if w.storeDown && !was {
		w.counts[Outages]++
		w.tell("the store goes down")
	}
	if w.chance(0.03) {
		w.snapshots = append(w.snapshots, w.records.clone())
	}
	switch {
	case w.chance(w.faults.Flush):
		w.counts[StoreLosses]++
		w.records = newRecords()
		w.tell("the store forgets everything")
	case len(w.snapshots) > 0 && w.chance(w.faults.LostWrites):
		w.counts[StoreLosses]++
		n := w.random.IntN(len(w.snapshots))
		w.records = w.snapshots[n].clone()
		w.tell("the store falls back to its snapshot %d of %d", n+1, len(w.snapshots))
	}
	if w.chance(w.faults.LostKey) {
		w.loseKey()
	}
}

// settle stops all faults and goes on until every event is carried and every
// run has had time to end.
func (w *world) settle() {
	w.faults, w.storeDown = Faults{}, false
	for _, land := range w.adrift {
		land()
	}
	w.adrift = nil
	for range maxSettle {
		w.tick()
		w.executors.act()
		w.work()
		if len(w.judge.Violations()) > 0 {
			return
		}
		if !w.idle() {
			continue
		}
		next, ok := w.next()
		if !ok {
			w.judgeStore()
			w.judge.End()
			return
		}
		w.clock = next
	}
	w.judge.End() // says what is still open
	if len(w.judge.Violations()) == 0 {
		panic(fmt.Sprintf("sim: %d steps without faults did not come to an end", maxSettle))
	}
}

const maxSettle = 20_000

// idle reports whether nothing happens until the clock moves on.
func (w *world) idle() bool {
	for _, p := range w.partitions {
		if p.read() < len(p.events) || p.owner == nil {
			return false
		}
	}
	return true
}

// next gives the next instant at which something happens by itself.
func (w *world) next() (at time.Time, ok bool) {
	earlier := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	for _, t := range w.timers {
		earlier(t.fires)
	}
	for _, d := range w.executors.deliveries {
		earlier(d.at)
	}
	if ok && at.Before(w.clock) {
		at = w.clock
	}
	return at, ok
}

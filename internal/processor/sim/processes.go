package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"runledger/internal/processor"
	"runledger/internal/processor/sim/judge"
	"runledger/internal/stream"

	"github.com/rs/zerolog"
)

// partition is the events of some runs, in the order in which they are read, and
// the lease on them.
type partition struct {
	number   int
	events   []stream.Message
	position uint64   // inbound sequence up to which all is done, as the lease says
	owner    *process // nil where the lease has run out
	epoch    int      // which tenure the lease is of
}

// read gives how many events the position has passed.
func (p *partition) read() int {
	n, found := slices.BinarySearchFunc(p.events, p.position, func(m stream.Message, position uint64) int {
		return int(m.Sequence) - int(position)
	})
	if found {
		n++
	}
	return n
}

// process is one simulated processor.
type process struct {
	name     string
	skew     time.Duration // of its clock, against that of the servers
	crashed  bool
	batch    int // events that it takes at once, at most
	rulebook *processor.Rulebook
	tenures  []*tenure
}

// tenure is a process at work on a partition, for as long as it takes itself for
// the owner.
type tenure struct {
	w         *world
	process   *process
	partition *partition
	epoch     int
	worker    *processor.Worker
	next      int              // index of the event that it reads next
	pending   []stream.Message // the batch that failed, and is tried again
	busy      bool             // it is in the middle of a batch, stalled
	deaf      int              // moves that go unanswered before it learns that it was overtaken
	batch     judge.Batch      // at hand
	calls     int              // to the outside, in this batch
}

// start begins a process.
func (w *world) start() *process {
	w.named++
	p := &process{
		name: fmt.Sprintf("p%d", w.named), batch: []int{2, 8, 32}[w.random.IntN(3)],
		rulebook: w.rulebooks[w.random.IntN(len(w.rulebooks))],
	}
	if w.chance(w.faults.Skew) {
		p.skew = w.between(-time.Second, time.Second)
	}
	w.tell("%s starts, its clock off by %v, new runs under policy %.14s", p.name, p.skew, p.rulebook.Current().Policy.Digest)
	return p
}

// take lets a process take a partition, from wherever it stands.
func (w *world) take(part *partition, p *process) {
	part.epoch++
	part.owner = p
	t := &tenure{w: w, process: p, partition: part, epoch: part.epoch, next: part.read()}
	cfg := processor.DefaultConfig()
	cfg.Subjects, cfg.Publisher, cfg.History, cfg.Store = w.simulator.subjects, t, t, t
	cfg.Rulebook, cfg.Metrics, cfg.Log = p.rulebook, w.simulator.metrics, zerolog.Nop()
	cfg.BatchSize, cfg.HotRuns, cfg.Reads = p.batch, p.batch, 1
	cfg.Clock = t.now
	worker, err := processor.NewWorker(cfg)
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
	t.worker = worker
	p.tenures = append(p.tenures, t)
	w.tell("%s takes partition %d from position %d", p.name, part.number, part.position)
}

// now reads the clock of the process, for its worker.
func (t *tenure) now() time.Time {
	now := t.w.clock.Add(t.process.skew)
	if t.batch.Earliest.IsZero() || now.Before(t.batch.Earliest) {
		t.batch.Earliest = now
	}
	if now.After(t.batch.Latest) {
		t.batch.Latest = now
	}
	return now
}

// leases lets partitions find owners, and sometimes a second one.
func (w *world) leases() {
	for _, part := range w.partitions {
		if part.owner != nil && !w.chance(w.faults.Takeover) || part.owner == nil && !w.chance(0.5) {
			continue
		}
		p := w.processes[w.random.IntN(len(w.processes))]
		if slices.ContainsFunc(p.tenures, func(t *tenure) bool { return t.partition == part }) {
			continue // it thinks that it has it
		}
		if part.owner != nil {
			w.counts[Takeovers]++
			for _, t := range part.owner.tenures {
				if t.partition == part {
					t.deaf = w.random.IntN(4)
				}
			}
		}
		w.take(part, p)
	}
}

// work lets one process that is not in the middle of something take a batch.
func (w *world) work() {
	w.leases()
	var free []*tenure
	for _, p := range w.processes {
		for _, t := range p.tenures {
			if !t.busy {
				free = append(free, t)
			}
		}
	}
	if len(free) > 0 {
		w.carry(free[w.random.IntN(len(free))])
	}
}

// carry takes one batch through, or tries the one that failed again.
func (w *world) carry(t *tenure) {
	if len(t.pending) == 0 {
		to := min(t.next+1+w.random.IntN(t.process.batch), len(t.partition.events))
		t.pending = t.partition.events[t.next:to:to]
	}
	t.busy, t.calls = true, 0
	t.batch.Process, t.batch.Earliest = t.process.name, time.Time{}
	defer func() { t.busy = false }()
	if n := len(t.pending); n > 0 {
		w.tell("%s (%+v) carries events %d to %d of partition %d", t.process.name, t.process.skew, t.pending[0].Sequence, t.pending[n-1].Sequence, t.partition.number)
		if err := t.worker.Step(context.Background(), t.pending); err != nil {
			w.tell("%s holds its batch: %v", t.process.name, err)
			w.clock = w.clock.Add(50 * time.Millisecond) // it waits before it tries again
			return
		}
		t.next += n
		t.pending = nil
	}
	w.move(t)
}

// move is the compare-and-set of the position. Whoever was overtaken learns it
// here, at the latest.
func (w *world) move(t *tenure) {
	if t.next == 0 || t.partition.epoch == t.epoch && t.next == t.partition.read() {
		return
	}
	if t.enter() != nil {
		return
	}
	position, part := t.partition.events[t.next-1].Sequence, t.partition
	switch {
	case part.epoch != t.epoch && t.deaf > 0:
		t.deaf--
		w.tell("%s has no answer for its move to %d", t.process.name, position)
	case part.epoch != t.epoch:
		w.tell("%s learns that partition %d is another's", t.process.name, part.number)
		t.process.tenures = slices.DeleteFunc(t.process.tenures, func(other *tenure) bool { return other == t })
	case w.chance(w.faults.LostRequest):
		w.tell("%s has no answer for its move to %d", t.process.name, position)
	default:
		part.position = position
		w.tell("%s moves partition %d to %d", t.process.name, part.number, position)
		w.judge.Moved(part.number, position, w.clock, t.batch)
		t.batch.Latest = time.Time{}
	}
}

// crash ends a process; another one starts in its place, and the leases of the
// dead one run out.
func (w *world) crash(p *process) {
	p.crashed = true
	w.counts[Crashes]++
	w.tell("%s crashes", p.name)
	for _, part := range w.partitions {
		if part.owner == p {
			part.owner = nil
		}
	}
	w.processes[slices.Index(w.processes, p)] = w.start()
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/processor"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// Faults are the chances, per step or call, of what goes wrong.
type Faults struct {
	Crash          float64 // a process dies before a call to the outside
	Stall          float64 // a process halts before a call, and another one works meanwhile
	LostRequest    float64 // a publish is lost, or lands later
	LostReply      float64 // a publish is stored and its answer lost
	StoreError     float64 // a call to the store fails and does nothing
	StoreLostReply float64 // a projection is made and its answer lost
	StoreDown      float64 // the store goes away for a while
	LostWrites     float64 // the store falls back to an earlier state
	Flush          float64 // the store forgets everything
	LostRecord     float64 // somebody removes one record
	LostTick       float64 // a tick is lost, and comes again later
	Duplicate      float64 // an event is published twice
	ExecutorDies   float64 // an executor dies after its claim
	Skew           float64 // a process's clock is off by up to a second
}

// Everything is the faults that a run of many seeds plays.
func Everything() Faults {
	return Faults{
		Crash: 0.01, Stall: 0.02, LostRequest: 0.01, LostReply: 0.01, StoreError: 0.01, StoreLostReply: 0.01,
		StoreDown: 0.02, LostWrites: 0.02, Flush: 0.01, LostRecord: 0.01, LostTick: 0.2, Duplicate: 0.1, ExecutorDies: 0.05, Skew: 0.2,
	}
}

var errCrashed = errors.New("simulated process has crashed")

const prefix = "sim"

// world is everything outside the processes of one seed.
type world struct {
	random   *rand.Rand
	faults   Faults
	subjects events.Subjects
	rulebook *processor.Rulebook
	metrics  *processor.Metrics
	clock    time.Time

	in, runs, dispatch, invalid log

	records   *records
	snapshots []*records
	storeDown bool
	position  uint64
	timers    map[string]timer
	adrift    []func() // publishes that land later
	processes []*process
	depth     int // of stalls within stalls

	agents    *agents
	executors *executors
}

type timer struct {
	run string
	at  time.Time
}

func newWorld(seed uint64, faults Faults) (*world, error) {
	subjects, err := events.NewSubjects(prefix)
	if err != nil {
		return nil, err
	}
	w := &world{
		random: rand.New(rand.NewPCG(seed, 0x5eed)), faults: faults, subjects: subjects,
		rulebook: processor.NewRulebook(simPolicy(), nil), metrics: processor.NewMetrics(prometheus.NewRegistry()),
		clock:   time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
		records: newRecords(), timers: make(map[string]timer),
	}
	w.agents, w.executors = newAgents(w), newExecutors(w)
	return w, nil
}

// simPolicy has a tool that may be called, one that may not, and short times.
func simPolicy() *harness.Policy {
	tool := func(name string, readOnly bool) harness.Tool {
		return harness.Tool{Name: name, Executor: "exec", ReadOnly: readOnly, Timeout: 5 * time.Second, Projector: projector{}}
	}
	return &harness.Policy{
		Digest: "sim",
		Tools:  map[string]harness.Tool{"read": tool("read", true), "look": tool("look", true), "write": tool("write", false)},
		Grants: map[string][]string{"*": {"*"}},
		Ceilings: events.Limits{ModelCalls: 100, ToolCalls: 100, CallsPerTool: 100, InputTokens: 100, OutputTokens: 100,
			TotalTokens: 100, RunBytes: 1 << 20},
		Bytes:      harness.ByteLimits{Request: 4096, RawResponse: 4096, Record: 8192, AgentResult: 1024},
		LongestRun: time.Hour, TTL: time.Hour, Observed: 10,
		Progress: harness.ProgressLimits{MaxRepairs: 2, MaxRepeats: 3, Grace: 4 * time.Second},
	}
}

// projector passes a response on; an empty one is no evidence.
type projector struct{}

func (projector) Project(raw []byte) (harness.Projection, error) {
	if string(raw) == "null" {
		return harness.Projection{Result: []byte("null"), Evidence: events.EvidenceNone}, nil
	}
	return harness.Projection{Result: []byte(`"ok"`), Evidence: events.EvidenceFound}, nil
}

func (w *world) chance(p float64) bool { return p > 0 && w.random.Float64() < p }

// publish is the simulated server: it stores a message if the expectation holds.
func (w *world) publish(msg *nats.Msg, expect stream.Expect) (uint64, error) {
	l := w.stream(msg.Subject)
	if filter, sequence, fenced := expect.Fence(msg.Subject); fenced {
		last := uint64(0)
		if m := l.last(filter); m != nil {
			last = m.Sequence
		}
		if last != sequence {
			return 0, stream.ErrStale
		}
	}
	if at, err := time.Parse("@at "+time.RFC3339Nano, msg.Header.Get("Nats-Schedule")); err == nil {
		w.timers[msg.Subject] = timer{run: tokenOf(msg.Subject, 2), at: at}
		return 1, nil
	}
	return l.append(msg.Subject, msg.Header, msg.Data, w.clock), nil
}

func (w *world) stream(subject string) *log {
	switch tokenOf(subject, 1) {
	case "fact", "outside":
		return &w.runs
	case "dispatch":
		return &w.dispatch
	case "invalid":
		return &w.invalid
	}
	return &log{} // timers are kept apart
}

// process is one simulated processor.
type process struct {
	ports  *ports
	worker *processor.Worker
	next   uint64 // the event that it takes next
	busy   bool   // it is in the middle of a batch, stalled
}

// start begins a process where the position stands.
func (w *world) start() *process {
	p := &ports{w: w}
	cfg := processor.DefaultConfig()
	cfg.Subjects, cfg.Publisher, cfg.History, cfg.Store = w.subjects, p, p, p
	cfg.Rulebook, cfg.Metrics, cfg.Reads = w.rulebook, w.metrics, 1
	skew := time.Duration(0)
	if w.chance(w.faults.Skew) {
		skew = time.Duration(w.random.IntN(2000)-1000) * time.Millisecond
	}
	cfg.Clock = func() time.Time { return w.clock.Add(skew) }
	worker, err := processor.NewWorker(cfg)
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
	return &process{ports: p, worker: worker, next: w.position + 1}
}

// enter is called before everything that a process does outside itself.
func (p *ports) enter() error {
	if p.crashed {
		return errCrashed
	}
	w := p.w
	if w.chance(w.faults.Crash) {
		p.crashed = true
		return errCrashed
	}
	if w.depth < 2 && w.chance(w.faults.Stall) {
		w.depth++
		for range 1 + w.random.IntN(5) {
			w.step()
		}
		w.depth--
	}
	return nil
}

// work lets one process that is not in the middle of something take a batch.
func (w *world) work() {
	i := w.random.IntN(len(w.processes))
	p := w.processes[i]
	if p.busy || p.next > uint64(len(w.in.messages)) {
		return
	}
	to := min(p.next-1+1+uint64(w.random.IntN(8)), uint64(len(w.in.messages)))
	messages := w.in.messages[p.next-1 : to : to]
	p.busy = true
	err := p.worker.Step(context.Background(), messages)
	p.busy = false
	switch {
	case p.ports.crashed:
		w.replace(p)
	case err == nil:
		p.next = to + 1
		w.move(p, to)
	}
}

// move is the compare-and-set of the position: whoever comes late finds that
// another one owns the partition now, and begins where the position stands.
func (w *world) move(p *process, to uint64) {
	if to < w.position {
		w.replace(p)
		return
	}
	w.position = to
}

func (w *world) replace(p *process) {
	for i := range w.processes {
		if w.processes[i] == p {
			w.processes[i] = w.start()
		}
	}
}

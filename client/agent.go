package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"runledger/internal/events"
)

// AgentConfig says who the agent is. Only Name is required.
type AgentConfig struct {
	// Name of the agent, 1 to 128 of A-Z a-z 0-9 _ -; NATS permissions tie it to
	// the connection's credentials.
	Name string
	// Prefix of all subjects; "" is harness.v1.
	Prefix string
	// Source is the CloudEvents source of what the agent publishes; "" is
	// /agents/ and the name.
	Source string
	// AckTimeout after which an unanswered publish is repeated; 0 is 2 s.
	AckTimeout time.Duration
	// Publishes of one event at most; 0 is as many as there is time for, until
	// the run's deadline and AnswerGrace.
	Publishes int
	// AnswerGrace is how long past a run's deadline its answers are waited for;
	// 0 is 30 s. It also covers clocks that differ.
	AnswerGrace time.Duration
	// Log takes repeated publishes and missed facts; the zero value is silent.
	Log zerolog.Logger
}

// Validate names the field that is wrong, what it got and what it wants.
func (c AgentConfig) Validate() error {
	if !events.ValidName(c.Name) {
		return fmt.Errorf("Name: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", c.Name)
	}
	if _, err := events.NewSubjects(orDefault(c.Prefix, events.DefaultPrefix)); err != nil {
		return fmt.Errorf("Prefix: %w", err)
	}
	if c.AckTimeout < 0 {
		return fmt.Errorf("AckTimeout: want a positive duration, or 0 for %v, got %v", defaultAckTimeout, c.AckTimeout)
	}
	if c.Publishes < 0 {
		return fmt.Errorf("Publishes: want 1 or more, or 0 for the default, got %d", c.Publishes)
	}
	if c.AnswerGrace < 0 {
		return fmt.Errorf("AnswerGrace: want a positive duration, or 0 for 30s, got %v", c.AnswerGrace)
	}
	return nil
}

// Stats counts what was published.
type Stats struct {
	Published   int64 // events that the stream acknowledged
	Republished int64 // times that an event was published again, unanswered before
}

// Agent speaks for one agent on one connection, in any number of runs at once.
// It may be used by many goroutines.
type Agent struct {
	cfg      AgentConfig
	subjects events.Subjects
	facts    string // what the subject of each of this agent's facts begins with
	pub      *publisher
	sub      *nats.Subscription

	// What the subscription missed is read from the stream while open lives.
	history atomic.Pointer[jetstream.Stream]
	open    context.Context
	shut    context.CancelFunc
	reading sync.WaitGroup

	mu     sync.Mutex
	closed bool
	runs   map[string]*Run
}

// NewAgent follows the facts of the agent on the connection and is ready when
// it returns. Close it when it is no longer needed.
func NewAgent(nc *nats.Conn, cfg AgentConfig) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("agent configuration: %w", err)
	}
	cfg.Prefix = orDefault(cfg.Prefix, events.DefaultPrefix)
	cfg.Source = orDefault(cfg.Source, "/agents/"+cfg.Name)
	cfg.AckTimeout = orDefault(cfg.AckTimeout, defaultAckTimeout)
	cfg.AnswerGrace = orDefault(cfg.AnswerGrace, 30*time.Second)
	subjects, err := events.NewSubjects(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", cfg.Name, err)
	}
	a := &Agent{
		cfg: cfg, subjects: subjects, runs: make(map[string]*Run),
		facts: strings.TrimSuffix(subjects.Republished(cfg.Name), ">"),
		pub:   &publisher{js: js, log: cfg.Log, ackTimeout: cfg.AckTimeout, attempts: cfg.Publishes},
	}
	a.open, a.shut = context.WithCancel(context.Background())
	if a.sub, err = nc.Subscribe(subjects.Republished(cfg.Name), a.onFact); err != nil {
		a.shut()
		return nil, fmt.Errorf("agent %s: follow its facts: %w", cfg.Name, err)
	}
	// A subscription that the server does not have yet misses the first facts;
	// where the server does not answer, they are read when it does.
	if err := nc.FlushTimeout(cfg.AckTimeout); err != nil && !isUnanswered(err) {
		a.Close()
		return nil, fmt.Errorf("agent %s: follow its facts: %w", cfg.Name, err)
	}
	return a, nil
}

// Stats counts what this Agent has published so far.
func (a *Agent) Stats() Stats {
	return Stats{Published: a.pub.published.Load(), Republished: a.pub.republished.Load()}
}

// Close stops following facts. Whoever waits gets ErrClosed. Its runs go on
// until they are finished, cancelled or reach their deadline.
func (a *Agent) Close() {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return
	}
	a.closed = true
	runs := a.runs
	a.runs = nil
	a.mu.Unlock()
	_ = a.sub.Unsubscribe() // fails on a closed connection only
	for _, run := range runs {
		run.close(ErrClosed)
	}
	a.shut()
	a.reading.Wait()
}

// Start starts a run and returns when the processor has accepted it. A refusal
// is a *[RejectedError].
func (a *Agent) Start(ctx context.Context, spec RunSpec) (*Run, error) {
	if !events.ValidName(spec.RunID) {
		return nil, fmt.Errorf("RunSpec.RunID: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", spec.RunID)
	}
	if spec.Deadline.IsZero() {
		return nil, fmt.Errorf("RunSpec.Deadline of run %s: want an instant in the future, got none", spec.RunID)
	}
	data, err := json.Marshal(&events.RunStart{
		RunID: spec.RunID, SessionID: spec.SessionID, Deadline: spec.Deadline, Limits: events.Limits(spec.Limits),
	})
	if err != nil {
		return nil, fmt.Errorf("start run %s: %w", spec.RunID, err)
	}
	run := newRun(a, spec)
	if err := a.add(run); err != nil {
		return nil, err
	}
	if err := run.start(ctx, data); err != nil {
		a.forget(run)
		return nil, err
	}
	return run, nil
}

func (a *Agent) add(run *Run) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	if a.runs[run.id] != nil {
		return fmt.Errorf("start run %s: this Agent has the run open already; finish it, or choose another id", run.id)
	}
	a.runs[run.id] = run
	return nil
}

// forget ends the delivery of facts to a run.
func (a *Agent) forget(run *Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs[run.id] == run {
		delete(a.runs, run.id)
	}
}

// onFact hands a republished fact to its run. It runs on the subscription's one
// goroutine, so facts stay in order, and never blocks.
func (a *Agent) onFact(msg *nats.Msg) {
	tail := strings.TrimPrefix(msg.Subject, a.facts)
	name, _, _ := strings.Cut(tail, ".")
	a.mu.Lock()
	run := a.runs[name]
	a.mu.Unlock()
	if run == nil {
		return // of another process of this agent, or of a run that has ended
	}
	fact, _, err := events.DecodeFact(a.subjects, a.storedSubject(tail), msg.Header, msg.Data)
	if err == nil {
		stored, _ := strconv.ParseUint(msg.Header.Get(nats.JSSequence), 10, 64)
		run.take(fact, stored)
		return
	}
	// A newer processor may tell of what this version does not know; the history
	// is whole all the same.
	a.cfg.Log.Warn().Err(err).Str("subject", msg.Subject).Msg("fact passed over")
	if sequence, err := strconv.ParseUint(msg.Header.Get("ce-sequence"), 10, 64); err == nil {
		run.mu.Lock()
		defer run.mu.Unlock()
		run.passOver(sequence)
	}
}

// storedSubject gives the subject under which the stream keeps a fact that it
// republished as <run>.<fact> or, outside a history, <run>.<fact>.<key>.
func (a *Agent) storedSubject(tail string) string {
	branch := ".fact."
	if strings.Count(tail, ".") == 3 {
		branch = ".outside."
	}
	return a.cfg.Prefix + branch + a.cfg.Name + "." + tail
}

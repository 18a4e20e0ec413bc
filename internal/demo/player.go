package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"runledger/client"
	"runledger/internal/events"
)

// PlayConfig says what is played, and as whom. Conn and Transcripts are
// required.
type PlayConfig struct {
	Conn        *nats.Conn
	Transcripts []Transcript
	Prefix      string // of all subjects; "" is harness.v1
	Agent       string // "" is demo
	Executor    string // as the policy names it; "" is airline
	Suffix      string // is added to each run id, so that transcripts can be played again

	Parallel int           // runs at once, and calls that the executor runs at once; 0 is 16
	Limits   client.Limits // of each run; the zero value is GenerousLimits
	RunTime  time.Duration // from a run's start to its deadline; 0 is 10 min
	Step     time.Duration // how long one step may take, for processors may be down; 0 is 60 s

	Progress func(Progress) // called after each step, by one goroutine at a time; may be nil
	Log      zerolog.Logger
}

// GenerousLimits are limits that no transcript reaches.
func GenerousLimits() client.Limits {
	return client.Limits{
		ModelCalls: 100, ToolCalls: 200, CallsPerTool: 200,
		InputTokens: 1_000_000, OutputTokens: 1_000_000, TotalTokens: 1_000_000,
		RunBytes: 16 << 20,
	}
}

// Progress says how far the playing is.
type Progress struct {
	Runs, RunsDone   int
	Calls, CallsDone int
}

// Played says what was done. What came of it stands in the streams.
type Played struct {
	RunIDs   []string // in the order of the transcripts
	Results  int      // calls that gave a result
	Failed   int      // calls that ended as ERROR
	Rejected int      // calls that were refused, and skipped
	Attempts int      // of model operations
	Repairs  int      // of progress reports that did not hold
	Agent    client.Stats
	Executor client.ExecutorStats
}

// Validate names the field that is wrong, what it got and what it wants.
func (c PlayConfig) Validate() error {
	switch {
	case c.Conn == nil:
		return errors.New("Conn: want a connection, got none")
	case len(c.Transcripts) == 0:
		return errors.New("Transcripts: want one at least, got none")
	case c.Suffix != "" && (!events.ValidName(c.Suffix) || len(c.Suffix) > maxSuffix):
		return fmt.Errorf("Suffix: want at most %d of A-Z a-z 0-9 _ -, got %.80q", maxSuffix, c.Suffix)
	case c.Parallel < 0 || c.Parallel > client.MaxConcurrency:
		return fmt.Errorf("Parallel: want 1 to %d, or 0 for 16, got %d", client.MaxConcurrency, c.Parallel)
	case c.RunTime < 0 || c.Step < 0:
		return fmt.Errorf("RunTime and Step: want positive durations, or 0 for the default, got %v and %v", c.RunTime, c.Step)
	}
	return nil
}

func (c PlayConfig) withDefaults() PlayConfig {
	if c.Agent == "" {
		c.Agent = "demo"
	}
	if c.Executor == "" {
		c.Executor = "airline"
	}
	if c.Parallel == 0 {
		c.Parallel = 16
	}
	if c.Limits == (client.Limits{}) {
		c.Limits = GenerousLimits()
	}
	if c.RunTime == 0 {
		c.RunTime = 10 * time.Minute
	}
	if c.Step == 0 {
		c.Step = time.Minute
	}
	return c
}

// Play plays each transcript as a run of its own, through the Go client, with an
// executor that answers what was recorded: a routing, the agent's messages and
// the calls that each makes, a report, and the end. It returns when every run has ended;
// the error joins those of the runs that could not be played to their end.
func Play(ctx context.Context, cfg PlayConfig) (*Played, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("play: %w", err)
	}
	p, err := newPlayer(cfg.withDefaults())
	if err != nil {
		return nil, err
	}
	defer p.agent.Close()

	serving, stop := context.WithCancel(ctx)
	var served errgroup.Group
	served.Go(func() error {
		defer stop() // without an executor no call ends
		return p.executor.Run(serving)
	})
	errs := p.playAll(serving)
	stop()
	errs = append(errs, served.Wait())
	p.played.Agent, p.played.Executor = p.agent.Stats(), p.executor.Stats()
	return &p.played, errors.Join(errs...)
}

type player struct {
	cfg      PlayConfig
	agent    *client.Agent
	executor *client.Executor
	recorded *recorded

	mu       sync.Mutex
	played   Played
	progress Progress
}

func newPlayer(cfg PlayConfig) (*player, error) {
	p := &player{cfg: cfg, recorded: newRecorded()}
	p.played.RunIDs = runIDs(cfg.Transcripts, cfg.Suffix)
	p.progress.Runs = len(cfg.Transcripts)
	var err error
	p.executor, err = client.NewExecutor(cfg.Conn, client.ExecutorConfig{
		Name: cfg.Executor, Prefix: cfg.Prefix, Concurrency: cfg.Parallel, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	handled := map[string]bool{}
	for _, t := range cfg.Transcripts {
		p.progress.Calls += len(t.Calls)
		for _, call := range t.Calls {
			if !handled[call.Tool] {
				handled[call.Tool] = true
				p.executor.Handle(call.Tool, p.recorded.run)
			}
		}
	}
	p.agent, err = client.NewAgent(cfg.Conn, client.AgentConfig{Name: cfg.Agent, Prefix: cfg.Prefix, Log: cfg.Log})
	return p, err
}

func (p *player) playAll(ctx context.Context) []error {
	var runs errgroup.Group
	runs.SetLimit(p.cfg.Parallel)
	errs := make([]error, len(p.cfg.Transcripts))
	for i, t := range p.cfg.Transcripts {
		runs.Go(func() error {
			if err := p.playRun(ctx, i, t); err != nil {
				errs[i] = fmt.Errorf("transcript %s: %w", t.Name, err)
			}
			return nil // the other runs go on
		})
	}
	_ = runs.Wait()
	return errs
}

// playRun plays the run of the transcript with that index.
func (p *player) playRun(ctx context.Context, index int, t Transcript) error {
	run, err := p.start(ctx, p.played.RunIDs[index])
	if err != nil {
		return err
	}
	if err := p.route(ctx, run, index, t); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	results, err := p.converse(ctx, run, index, t)
	if err != nil {
		return err
	}
	if err := p.report(ctx, run, results); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Step)
	defer cancel()
	if _, err := run.Finish(ctx, client.OutcomeSuccess); err != nil {
		return err
	}
	p.step(func() { p.progress.RunsDone++ })
	return nil
}

// converse plays the agent's messages, each with the calls that it makes, in
// order. Calls that no message makes come last. It gives the results.
func (p *player) converse(ctx context.Context, run *client.Run, index int, t Transcript) ([]*client.Result, error) {
	var results []*client.Result
	next := 0
	play := func(upTo int) error {
		for ; next < upTo; next++ {
			result, err := p.call(ctx, run, t.Calls[next])
			if err != nil {
				return fmt.Errorf("call %d of %d: %w", next+1, len(t.Calls), err)
			}
			if result != nil {
				results = append(results, result)
			}
		}
		return nil
	}
	for i, turn := range t.Turns {
		if err := p.think(ctx, run, index, i, turn); err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", i+1, len(t.Turns), err)
		}
		if err := play(min(next+turn.Calls, len(t.Calls))); err != nil {
			return nil, err
		}
	}
	return results, play(len(t.Calls))
}

func (p *player) start(ctx context.Context, id string) (*client.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Step)
	defer cancel()
	return p.agent.Start(ctx, client.RunSpec{
		RunID: id, SessionID: "demo " + id, Deadline: time.Now().Add(p.cfg.RunTime), Limits: p.cfg.Limits,
	})
}

// call makes one call. A refused or failed one is part of the play, and has no
// result.
func (p *player) call(ctx context.Context, run *client.Run, call RecordedCall) (*client.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Step)
	defer cancel()
	p.recorded.offer(run.ID(), call)
	result, err := run.Call(ctx, client.Call{ID: call.ID, Tool: call.Tool, Arguments: call.Arguments})
	count := &p.played.Results
	switch refused, failed, ended := new(client.RejectedError), new(client.FailedError), new(client.EndedError); {
	case errors.As(err, &ended):
		return nil, err
	case errors.As(err, &refused):
		count = &p.played.Rejected
	case errors.As(err, &failed):
		count = &p.played.Failed
	case err != nil:
		return nil, err
	}
	if count != &p.played.Rejected {
		p.recorded.accepted(run.ID(), call.ID)
	}
	p.step(func() { *count++; p.progress.CallsDone++ })
	return result, nil
}

// count counts something that is no progress.
func (p *player) count(something func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	something()
}

// step counts something and tells of the progress.
func (p *player) step(count func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count()
	if p.cfg.Progress != nil {
		p.cfg.Progress(p.progress)
	}
}

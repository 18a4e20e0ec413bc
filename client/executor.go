package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"runledger/internal/events"
)

const (
	streamDispatch = "DISPATCH"

	// Short enough that a server that lost a pull request is noticed soon.
	pullExpiry    = 5 * time.Second
	pullHeartbeat = time.Second

	askAgain = 5 * time.Millisecond
)

// Handler runs one call of a tool. The result is one JSON value, the raw
// response, at most what the server's largest message holds (1 MiB by default);
// nil is null. An error ends the call as ERROR/TOOL_EXECUTION_FAILED; its text,
// or the result if there is one, is kept for operators and not shown to agents.
// The context ends at the call's deadline.
type Handler func(ctx context.Context, d Dispatch) (result []byte, err error)

// ExecutorConfig says who the executor is. Only Name is required.
type ExecutorConfig struct {
	// Name of the executor, as the policy names it for its tools.
	Name string
	// Prefix of all subjects; "" is harness.v1.
	Prefix string
	// Source is the CloudEvents source of results; "" is /executors/ and the
	// name.
	Source string
	// Concurrency is how many calls this process runs at once; 0 is 8. All
	// processes of one executor together can wait for 512.
	Concurrency int
	// AckTimeout after which an unanswered publish is repeated; 0 is 2 s.
	AckTimeout time.Duration
	// Log takes what goes wrong; the zero value is silent.
	Log zerolog.Logger
}

// MaxConcurrency bounds ExecutorConfig.Concurrency.
const MaxConcurrency = 256

// Validate names the field that is wrong, what it got and what it wants.
func (c ExecutorConfig) Validate() error {
	if !events.ValidName(c.Name) {
		return fmt.Errorf("Name: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", c.Name)
	}
	if _, err := events.NewSubjects(orDefault(c.Prefix, events.DefaultPrefix)); err != nil {
		return fmt.Errorf("Prefix: %w", err)
	}
	if c.Concurrency < 0 || c.Concurrency > MaxConcurrency {
		return fmt.Errorf("Concurrency: want 1 to %d, or 0 for 8, got %d", MaxConcurrency, c.Concurrency)
	}
	if c.AckTimeout < 0 {
		return fmt.Errorf("AckTimeout: want a positive duration, or 0 for %v, got %v", defaultAckTimeout, c.AckTimeout)
	}
	return nil
}

// ExecutorStats counts what became of the dispatches that a process was given.
type ExecutorStats struct {
	Ran         int64 // claimed and run
	Elsewhere   int64 // claimed before, by whomever
	Expired     int64 // delivered past the call's deadline, and not run
	Unanswered  int64 // run, but the result could not be published in time
	Republished int64 // times that a result was published again, unanswered before
}

// Executor runs the tools of one executor. Several processes may run the same
// executor and share its calls; each call is run by one of them, once. A process
// that is lost after it claimed a call leaves that call to its timeout.
type Executor struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	cfg      ExecutorConfig
	subjects events.Subjects
	handlers map[string]Handler
	pub      *publisher
	claims   *claims
	stats    struct{ ran, elsewhere, expired, unanswered atomic.Int64 }
	running  atomic.Bool
}

// NewExecutor returns an executor without handlers.
func NewExecutor(nc *nats.Conn, cfg ExecutorConfig) (*Executor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("executor configuration: %w", err)
	}
	cfg.Prefix = orDefault(cfg.Prefix, events.DefaultPrefix)
	cfg.Source = orDefault(cfg.Source, "/executors/"+cfg.Name)
	cfg.Concurrency = orDefault(cfg.Concurrency, 8)
	cfg.AckTimeout = orDefault(cfg.AckTimeout, defaultAckTimeout)
	subjects, err := events.NewSubjects(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("executor %s: %w", cfg.Name, err)
	}
	return &Executor{
		nc: nc, js: js, cfg: cfg, subjects: subjects, handlers: make(map[string]Handler),
		pub: &publisher{js: js, log: cfg.Log, ackTimeout: cfg.AckTimeout},
	}, nil
}

// Handle registers the handler of a tool, before Run. It panics if the tool has
// one already or the handler is nil. A call of a tool without a handler fails.
func (e *Executor) Handle(tool string, handler Handler) {
	if handler == nil || e.handlers[tool] != nil {
		panic(fmt.Sprintf("client: Handle(%q): want one handler for a tool", tool))
	}
	e.handlers[tool] = handler
}

// Stats counts what this process has done so far.
func (e *Executor) Stats() ExecutorStats {
	return ExecutorStats{
		Ran: e.stats.ran.Load(), Elsewhere: e.stats.elsewhere.Load(), Expired: e.stats.expired.Load(),
		Unanswered: e.stats.unanswered.Load(), Republished: e.pub.republished.Load(),
	}
}

// Run takes calls and runs them until the context ends; then it finishes what
// it has claimed and returns nil. That takes as long as the handlers do: their
// contexts end at their calls' deadlines. An error says that the executor's
// consumer or the claims are missing, or that the connection was closed. It may
// be called once.
func (e *Executor) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return fmt.Errorf("executor %s: Run was called before; make another Executor", e.cfg.Name)
	}
	consumer, err := e.open(ctx)
	if err == nil {
		e.serveAll(ctx, consumer)
		err = nats.ErrConnectionClosed // nothing else ends the serving before the context
	}
	if ctx.Err() == nil {
		return fmt.Errorf("executor %s: %w", e.cfg.Name, err)
	}
	return nil
}

// serveAll runs the slots until the context ends or the connection is closed.
func (e *Executor) serveAll(ctx context.Context, consumer jetstream.Consumer) {
	var slots sync.WaitGroup
	for range e.cfg.Concurrency {
		slots.Go(func() { e.slot(ctx, consumer) })
	}
	slots.Wait()
}

// open finds the consumer and the claims. Servers that do not answer are waited
// for, as they are later on.
func (e *Executor) open(ctx context.Context) (jetstream.Consumer, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		consumer, err := e.tryOpen(ctx)
		if err == nil || !isUnanswered(err) || e.nc.IsClosed() {
			return consumer, err
		}
		e.cfg.Log.Warn().Err(err).Msg("the executor's consumer is not known yet; trying again")
		if !rest(ctx, pause) {
			return nil, err
		}
	}
}

func (e *Executor) tryOpen(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*e.cfg.AckTimeout)
	defer cancel()
	name := "executor-" + e.cfg.Name
	consumer, err := e.js.Consumer(ctx, streamDispatch, name)
	if err != nil {
		return nil, fmt.Errorf("consumer %s of stream %s: %w; `processor streams apply` makes it from the policy", name, streamDispatch, err)
	}
	e.claims, err = openClaims(ctx, e.js, e.cfg.Name, e.cfg.AckTimeout, e.cfg.Log)
	return consumer, err
}

// slot runs one call after the other. Each slot asks for one dispatch when it is
// free, so that no dispatch waits here while another process could run it.
func (e *Executor) slot(ctx context.Context, consumer jetstream.Consumer) {
	pause := firstPause
	for ctx.Err() == nil && !e.nc.IsClosed() {
		served, err := e.pull(ctx, consumer)
		if ctx.Err() != nil {
			return
		}
		e.cfg.Log.Warn().Err(err).Msg("dispatches cannot be read; trying again")
		if served {
			pause = firstPause
		}
		if !rest(ctx, pause) {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// pull serves dispatches until it fails or the context ends.
func (e *Executor) pull(ctx context.Context, consumer jetstream.Consumer) (served bool, err error) {
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1),
		jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat))
	if err != nil {
		return false, err
	}
	defer e.giveBack(messages)
	for ctx.Err() == nil {
		msg, err := next(ctx, messages)
		if err != nil {
			return served, err
		}
		if ctx.Err() != nil {
			e.settle(msg.Nak(), msg) // another process takes it at once
			return served, ctx.Err()
		}
		served = true
		e.serve(ctx, msg)
	}
	return served, ctx.Err()
}

// next waits for a dispatch. Measured with nats.go 1.55: where a message comes
// back before the library has taken note of its own pull request, the next one
// is not sent until the iterator is asked again, which stalled some one in 200
// calls until the missing heartbeat was noticed. So it is asked again, soon.
func next(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	msg, err := messages.Next(jetstream.NextMaxWait(askAgain))
	if errors.Is(err, nats.ErrTimeout) {
		return messages.Next(jetstream.NextContext(ctx))
	}
	return msg, err
}

// giveBack hands a dispatch that was delivered but not claimed to others at
// once, instead of after the consumer's ack wait.
func (e *Executor) giveBack(messages jetstream.MessagesContext) {
	messages.Drain()
	for {
		msg, err := messages.Next(jetstream.NextMaxWait(time.Second))
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			return
		}
		if err != nil {
			messages.Stop()
			return
		}
		e.settle(msg.Nak(), msg)
	}
}

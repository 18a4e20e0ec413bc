package bench

import (
	"context"
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/store"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// recordedCalls is how many calls a run has had when the last of them is
// recorded: more than what a run remembers of its calls, which each settlement
// may write, so that what is recorded is how it stays.
const recordedCalls = 80

// record sends one run with some calls through a processor, with nobody else on
// the servers, and records what it stored for the last of them.
func record(ctx context.Context, natsURL, redisAddr string, setup Setup) (r recipe, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p, err := newProbe(ctx, natsURL, redisAddr, setup)
	if err != nil {
		return recipe{}, err
	}
	defer p.close()
	r.Run = runName(maxRuns - 1) // no other run has this name
	if r.Start, err = p.start(ctx, r.Run); err != nil {
		return recipe{}, fmt.Errorf("record the start of a run: %w", err)
	}
	for n := range uint64(recordedCalls) {
		r.Call = callName(9_000_000_000 + n)
		if err := p.call(ctx, &r); err != nil {
			return recipe{}, fmt.Errorf("record a call: %w", err)
		}
	}
	r.Lease, err = p.lastOf(ctx, "KV_"+stream.BucketPartitions, leaseSubjects+"*")
	if err != nil {
		return recipe{}, fmt.Errorf("record a position: %w", err)
	}
	return r, r.validate()
}

// probe is agent, executor and observer of the run that is recorded.
type probe struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	subjects events.Subjects
	records  *store.Store
	monitor  *monitor
	facts    chan *nats.Msg
	consumer jetstream.Consumer
	setup    Setup
}

func newProbe(ctx context.Context, natsURL, redisAddr string, setup Setup) (*probe, error) {
	p := &probe{setup: setup, facts: make(chan *nats.Msg, 100)}
	var err error
	if p.subjects, err = events.NewSubjects(events.DefaultPrefix); err != nil {
		return nil, err
	}
	if p.records, err = store.Open(store.Config{Addrs: []string{redisAddr}}); err != nil {
		return nil, err
	}
	if p.nc, err = nats.Connect(natsURL, nats.Name("bench probe")); err != nil {
		p.close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if p.js, err = jetstream.New(p.nc); err == nil {
		_, err = p.nc.ChanSubscribe(p.subjects.Republished(agentName), p.facts)
	}
	if err == nil {
		p.consumer, err = p.js.Consumer(ctx, stream.StreamDispatch, "executor-"+executorName)
	}
	if err == nil {
		p.monitor, err = startMonitor(ctx, redisAddr)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *probe) close() {
	if p.monitor != nil {
		p.monitor.close()
	}
	if p.nc != nil {
		p.nc.Close()
	}
	_ = p.records.Close()
}

// start starts the run.
func (p *probe) start(ctx context.Context, run string) (s step, err error) {
	msg := intentMsg(p.subjects.Agent(agentName, run, events.VerbRunStart), events.VerbRunStart, run, "/agents/"+agentName)
	msg.Data = runStartData(run, time.Now())
	if s.Fact, err = p.exchange(ctx, msg, events.KindRunStarted, run); err != nil {
		return step{}, err
	}
	// Its projection follows the fact, and what comes next waits for it.
	if err := p.until(ctx, func() (bool, error) {
		runs, errs := p.records.LoadRuns(ctx, []string{run})
		return runs[0] != nil, errs[0]
	}); err != nil {
		return step{}, err
	}
	s.Writes, err = p.monitor.commands(ctx)
	return s, err
}

// call takes one call through, and puts what is stored of it into the recipe.
func (p *probe) call(ctx context.Context, r *recipe) error {
	msg := intentMsg(p.subjects.Agent(agentName, r.Run, events.VerbToolCall), events.VerbToolCall, r.Call, "/agents/"+agentName)
	msg.Data = newPatch(requestData(p.setup.ArgumentBytes)).with(r.Run, r.Call)
	var err error
	if r.Reserve.Fact, err = p.exchange(ctx, msg, events.KindToolReserved, r.Run); err != nil {
		return err
	}
	dispatch, err := p.consumer.Next(jetstream.FetchMaxWait(20 * time.Second))
	if err != nil {
		return fmt.Errorf("no dispatch: %w", err)
	}
	if err := dispatch.Ack(); err != nil {
		return err
	}
	r.Reserve.Dispatch = &message{Subject: dispatch.Subject(), Header: dispatch.Headers(), Data: dispatch.Data()}
	if r.Reserve.Writes, err = p.monitor.commands(ctx); err != nil {
		return err
	}
	if r.Sequence, err = p.sequence(ctx, r.Run, r.Call); err != nil {
		return err
	}
	head, tail := resultData(p.setup.ResultBytes)
	msg = intentMsg(p.subjects.Executor(executorName, r.Run), events.VerbToolResult, "r-"+r.Call, "/executors/"+executorName)
	msg.Data = append(append(newPatch(head).with(r.Run, r.Call), events.DispatchID(r.Run, r.Sequence)...), tail...)
	if r.Settle.Fact, err = p.exchange(ctx, msg, events.KindToolSettled, r.Run); err != nil {
		return err
	}
	if !ready(r.Settle.Fact.Data) {
		return fmt.Errorf("it ended otherwise than READY: %.500s", r.Settle.Fact.Data)
	}
	if err := p.until(ctx, func() (bool, error) {
		record, err := p.records.Record(ctx, r.Run, r.Call)
		return record != nil && record.Status == events.StatusReady, err
	}); err != nil {
		return err
	}
	r.Settle.Writes, err = p.monitor.commands(ctx)
	return err
}

// sequence gives that of the call's tool.reserved within the run, from its record.
func (p *probe) sequence(ctx context.Context, run, call string) (uint64, error) {
	record, err := p.records.Record(ctx, run, call)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read the record of the dispatched call %s: %w", call, err)
	case record == nil:
		return 0, fmt.Errorf("call %s of run %s was dispatched, and the store has no record of it", call, run)
	}
	return record.Call, nil
}

// exchange publishes an event, waits for the fact that answers it, and reads it
// from the stream, with all that was published.
func (p *probe) exchange(ctx context.Context, msg *nats.Msg, want events.Kind, run string) (message, error) {
	if _, err := p.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0)); err != nil {
		return message{}, err
	}
	select {
	case m := <-p.facts:
		if kind := kindOf(m.Subject); kind != want {
			return message{}, fmt.Errorf("want fact %s, got %s: %.500s", want, kind, m.Data)
		}
	case <-ctx.Done():
		return message{}, fmt.Errorf("no fact %s: %w", want, ctx.Err())
	}
	return p.lastOf(ctx, stream.StreamRuns, p.subjects.Fact(agentName, run, want))
}

func (p *probe) lastOf(ctx context.Context, name, subject string) (message, error) {
	s, err := p.js.Stream(ctx, name)
	if err != nil {
		return message{}, err
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return message{}, fmt.Errorf("last message of %s: %w", subject, err)
	}
	return message{Subject: m.Subject, Header: m.Header, Data: m.Data}, nil
}

// until asks until the answer is yes.
func (p *probe) until(ctx context.Context, ask func() (bool, error)) error {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		yes, err := ask()
		if yes || err != nil {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

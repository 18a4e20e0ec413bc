package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

const (
	asynqQueue = "default"
	asynqTask  = "tool:call"

	// asynqServers share the queue. One takes its tasks one round trip after
	// the other, so more of them overlap, as its documentation scales out.
	asynqServers = 8
	// asynqConcurrency is how many tasks one server runs at once. Completing a
	// task searches the list of those that run, so more of them cost more.
	asynqConcurrency = 16
	// asynqConnections is how many connections the client may open, and each
	// server.
	asynqConnections = 64
	// asynqPoll is how often an agent asks again whether its task is completed.
	asynqPoll = 2 * time.Millisecond
	// asynqCheck is how long a server waits that has found the queue empty.
	// asynq's default is a second.
	asynqCheck = 20 * time.Millisecond
)

// asynqPeer is a queue of asynq: a call is one task, its id is the call's and
// stays taken for as long as the completed task is kept, so it is unique; the
// result is kept with the task. Whoever asked is not told, so there are two
// forms. In the lean one nobody asks, and a call counts as settled when its
// result is stored, before the write that completes the task. In the other one
// the agent asks for the task until it is completed and has its result; it is
// spared the asking in vain, since here, unlike anywhere else, it shares the
// process with the worker and hears of the handler's end.
type asynqPeer struct {
	ledger    *ledger
	readBack  bool
	client    *asynq.Client
	servers   []*asynq.Server
	inspector *asynq.Inspector
	handled   sync.Map // call → channel, closed at the handler's end; for readBack
}

func openAsynq(redisAddr string, l *ledger, readBack bool) (peer, error) {
	redis := asynq.RedisClientOpt{Addr: redisAddr, PoolSize: asynqConnections}
	a := &asynqPeer{ledger: l, readBack: readBack, client: asynq.NewClient(redis), inspector: asynq.NewInspector(redis)}
	mux := asynq.NewServeMux()
	mux.HandleFunc(asynqTask, a.handle)
	for range asynqServers {
		server := asynq.NewServer(redis, asynq.Config{
			Concurrency: asynqConcurrency, TaskCheckInterval: asynqCheck, Queues: map[string]int{asynqQueue: 1},
			Logger: silent{}, LogLevel: asynq.FatalLevel, ShutdownTimeout: 10 * time.Second,
		})
		if err := server.Start(mux); err != nil {
			return nil, errors.Join(fmt.Errorf("asynq: start a server: %w", err), a.close(context.Background()))
		}
		a.servers = append(a.servers, server)
	}
	return a, nil
}

func (a *asynqPeer) handle(_ context.Context, task *asynq.Task) error {
	i, err := decide(task.Payload())
	if err != nil {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	if err := a.ledger.execute(i.Call); err != nil {
		return err
	}
	if _, err := task.ResultWriter().Write(runTool()); err != nil {
		return err
	}
	if done, ok := a.handled.Load(i.Call); ok {
		close(done.(chan struct{}))
		return nil
	}
	return a.ledger.settle(i.Call)
}

func (a *asynqPeer) take(ctx context.Context) error {
	call, done := a.ledger.intend()
	if !a.readBack {
		if err := a.enqueue(ctx, call); err != nil {
			return err
		}
		return settled(ctx, done)
	}
	handled := make(chan struct{})
	a.handled.Store(call, handled)
	defer a.handled.Delete(call)
	if err := a.enqueue(ctx, call); err != nil {
		return err
	}
	if err := settled(ctx, handled); err != nil {
		return err
	}
	if err := a.read(ctx, call); err != nil {
		return err
	}
	return a.ledger.settle(call)
}

// read asks for the task until it is completed, and for its result.
func (a *asynqPeer) read(ctx context.Context, call int) error {
	poll := time.NewTicker(asynqPoll)
	defer poll.Stop()
	for {
		info, err := a.inspector.GetTaskInfo(asynqQueue, callID(call))
		if err != nil {
			return err
		}
		if info.State == asynq.TaskStateCompleted {
			if len(info.Result) != resultBytes {
				return fmt.Errorf("asynq: the result of call %d has %d bytes, want %d", call, len(info.Result), resultBytes)
			}
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *asynqPeer) enqueue(ctx context.Context, call int) error {
	// No retry, so that a tool runs at most once where its worker is lost.
	_, err := a.client.EnqueueContext(ctx, asynq.NewTask(asynqTask, encodeIntent(call)),
		asynq.TaskID(callID(call)), asynq.Retention(recordAge), asynq.MaxRetry(0), asynq.Timeout(callTimeout))
	return err
}

func (a *asynqPeer) completed(context.Context) (int, error) {
	info, err := a.inspector.GetQueueInfo(asynqQueue)
	if err != nil {
		return 0, err
	}
	if info.Archived > 0 || info.Retry > 0 {
		return 0, fmt.Errorf("%d tasks have failed, want none", info.Archived+info.Retry)
	}
	return info.Completed, nil
}

func (a *asynqPeer) close(context.Context) error {
	for _, s := range a.servers {
		s.Shutdown()
	}
	return errors.Join(a.client.Close(), a.inspector.Close())
}

// silent is a logger of asynq's. What goes wrong shows in the calls.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}

// Package client is what a Go program imports to work with runledger: as an
// agent, whose tool calls are governed, or as an executor, which runs them.
//
// An [Agent] starts runs, calls tools in them and gets bounded results or typed
// errors back:
//
//	run, err := agent.Start(ctx, client.RunSpec{RunID: "trip-1", SessionID: "s-1", Deadline: deadline, Limits: limits})
//	result, err := run.Call(ctx, client.Call{ID: "call_1", Tool: "search", Arguments: []byte(`{"q":"x"}`)})
//	end, err := run.Finish(ctx, client.OutcomeSuccess)
//
// An [Executor] runs the tools, each call at most once in all its processes:
//
//	executor.Handle("search", func(ctx context.Context, d client.Dispatch) ([]byte, error) { … })
//	err := executor.Run(ctx)
//
// Both publish with JetStream acknowledgements. A publish that is not answered
// is repeated a bounded number of times, as the same event with the same id,
// which the processor treats as one; every repetition is logged and counted.
// Nothing else is repeated, and no library below does so by itself.
//
// Both work on a connection of the caller's, best made with [ConnectOptions],
// and leave it open.
package client

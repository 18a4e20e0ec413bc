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
// Model calls go through the run too: each attempt is granted, made by the
// agent's own function, and recorded with what it used. Retries are those of the
// operation's policy, and no others:
//
//	attempts, err := run.Model(ctx, client.ModelCall{Operation: client.OperationIntentRouter, ID: "route-1"},
//		func(ctx context.Context, attempt int) (*client.TokenUsage, error) {
//			answer, err := model.Ask(ctx, question)
//			if errors.Is(err, syscall.ECONNRESET) {
//				return nil, client.Classify(client.FailureTransport, err)
//			}
//			…
//		})
//
// What the agent makes of its results it says in reports, which are checked
// against the calls that they name, and repaired where they do not hold:
//
//	err = run.Report(ctx, client.Report{Step: 1, Final: true, Claims: []client.Claim{
//		{Text: "A seat is free.", Supports: []string{"call_1"}},
//	}})
//
// A run whose reports are wrong too often, or that repeats itself, is released:
// [Run.Released] tells, and all that is left is to finish.
//
// An [Executor] runs the tools, each call at most once in all its processes:
//
//	executor.Handle("search", func(ctx context.Context, d client.Dispatch) ([]byte, error) { … })
//	err := executor.Run(ctx)
//
// Both publish with JetStream acknowledgements. A publish that is not answered
// is repeated a bounded number of times, as the same event with the same id,
// which the processor treats as one; every repetition is logged and counted.
// Nothing else is repeated but what [Run.Model] says, and no library below does
// so by itself.
//
// Both work on a connection of the caller's, best made with [ConnectOptions],
// and leave it open.
package client

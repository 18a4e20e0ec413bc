//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runledger/client"
	"runledger/internal/events"
)

// This file is an executor that is a process of its own, so that it can be
// killed: the test binary, started with these two set.
const (
	executorMode = "RUNLEDGER_CHAOS_EXECUTOR" // one of the modes below
	executorNATS = "RUNLEDGER_CHAOS_NATS"     // where it reaches NATS
)

// What an executor does with the first call that it is given, before it says so
// and stands still.
const (
	takes    = "takes"    // takes the dispatch and does not claim it
	claims   = "claims"   // claims it, too, and begins to run the tool
	answers2 = "answers2" // runs it and publishes two results, each an event of its own
	answers  = "answers"  // runs every call, and says so; it does not stand still
)

// beExecutor is the main of such a process.
func beExecutor(mode string) int {
	if err := execute(context.Background(), mode); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func execute(ctx context.Context, mode string) error {
	nc, err := nats.Connect(os.Getenv(executorNATS), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	if mode == claims || mode == answers {
		executor, err := client.NewExecutor(nc, client.ExecutorConfig{Name: "desk", Concurrency: 1})
		if err != nil {
			return err
		}
		handler := func(ctx context.Context, d client.Dispatch) ([]byte, error) {
			say(mode, d.DispatchID)
			if mode == claims {
				<-ctx.Done()
			}
			return []byte(`{"found":1}`), nil
		}
		executor.Handle("desk", handler)
		executor.Handle("desk_briefly", handler)
		say("ready", "")
		return executor.Run(ctx)
	}
	return executeByHand(ctx, nc, mode)
}

// executeByHand does what no executor made with the client package does.
func executeByHand(ctx context.Context, nc *nats.Conn, mode string) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.Consumer(ctx, "DISPATCH", "executor-desk")
	if err != nil {
		return err
	}
	say("ready", "")
	msg, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
	if err != nil {
		return err
	}
	var d events.Dispatch
	if err := json.Unmarshal(msg.Data(), &d); err != nil {
		return err
	}
	if mode == answers2 {
		if err := answerTwice(ctx, js, msg, d); err != nil {
			return err
		}
	}
	say(mode, d.DispatchID)
	<-ctx.Done() // until somebody kills us
	return nil
}

func answerTwice(ctx context.Context, js jetstream.JetStream, msg jetstream.Msg, d events.Dispatch) error {
	_, err := js.Publish(ctx, "$KV.CLAIMS."+d.DispatchID, []byte("by hand"), jetstream.WithExpectLastSequencePerSubject(0))
	if err := errors.Join(err, msg.DoubleAck(ctx)); err != nil {
		return err
	}
	subjects, err := events.NewSubjects(events.DefaultPrefix)
	if err != nil {
		return err
	}
	for n := range 2 {
		data := fmt.Appendf(nil, `{"run_id":%q,"tool_call_id":%q,"dispatch_id":%q,"outcome":"SUCCEEDED","result":{"found":%d}}`,
			d.RunID, d.ToolCallID, d.DispatchID, n+1)
		header, data, err := events.EncodeBinary(events.NewIntent(events.VerbToolResult, fmt.Sprintf("%s-%d", d.DispatchID, n), "/desk", time.Now(), data))
		if err != nil {
			return err
		}
		if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: subjects.Executor("desk", d.RunID), Header: header, Data: data}); err != nil {
			return err
		}
	}
	return nil
}

// say tells the test, on a line of its own.
func say(what, dispatch string) { fmt.Fprintf(os.Stdout, "executor %s %s\n", what, dispatch) }

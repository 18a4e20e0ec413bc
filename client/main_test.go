package client

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"runledger/internal/events"
	"runledger/internal/stream"
	"runledger/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The embedded server now and then leaves this one behind when it stops
		// while a stream with a source is being set up (2.15.3).
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
}

// withStreams is a server on which the real streams stand, with a consumer for
// the executor "desk".
func withStreams(t *testing.T, config ...testenv.NATSConfig) (*testenv.NATS, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	server := testenv.StartNATS(t, config...)
	nc := server.Conn(t)
	js := jetStream(t, nc)
	options := stream.DefaultOptions()
	options.Executors = []string{"desk"}
	topology, err := stream.LoadTopology(options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Apply(testContext(t), js); err != nil {
		t.Fatal(err)
	}
	return server, nc, js
}

func jetStream(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func testSubjects(t *testing.T) events.Subjects {
	t.Helper()
	subjects, err := events.NewSubjects(events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return subjects
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 15s: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func logTo(w io.Writer) zerolog.Logger { return zerolog.New(zerolog.SyncWriter(w)) }

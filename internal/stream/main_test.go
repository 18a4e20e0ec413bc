package stream

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"runledger/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The embedded server's own, up to 30 s after its stop: a stream with
		// sources that waits for an answer.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
}

// connect makes a connection as the program makes it.
func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	closed := make(chan struct{})
	options := append(ConnectionOptions(t.Name()), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

// withTopology is a connection to a fresh server on which the streams stand.
func withTopology(t testing.TB, options Options) (*testenv.NATS, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	server := testenv.StartNATS(t)
	nc := connect(t, server.URL)
	js := jetStream(t, nc)
	topology, err := LoadTopology(options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Apply(testContext(t), js); err != nil {
		t.Fatal(err)
	}
	return server, nc, js
}

// emptyServer is a client of a server without any stream.
func emptyServer(t testing.TB) jetstream.JetStream {
	t.Helper()
	return jetStream(t, connect(t, testenv.StartNATS(t).URL))
}

func jetStream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// testContext bounds whatever a test waits for.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until the condition holds, and fails the test after limit.
func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func mustJSON(t testing.TB, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func testPublisher(t testing.TB, nc *nats.Conn, cfg PublisherConfig) *Publisher {
	t.Helper()
	publisher, err := NewPublisher(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(publisher.Close)
	return publisher
}

// Package processortest serves on real servers within a test.
package processortest

import (
	"context"
	"testing"
	"time"

	"runledger/internal/policy"
	"runledger/internal/processor"
	"runledger/internal/store"
	"runledger/internal/stream"
	"runledger/internal/testenv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Installation is real servers with the streams made, and a processor that
// serves until the test ends.
type Installation struct {
	NATS      *testenv.NATS
	Redis     *testenv.Redis
	JetStream jetstream.JetStream // of the processor's own connection
	Store     *store.Store
}

// Install serves by the policy, with the default prefix and partitions.
func Install(t *testing.T, rules []byte) *Installation {
	t.Helper()
	i := &Installation{NATS: testenv.StartNATS(t), Redis: testenv.StartRedis(t)}
	nc, err := nats.Connect(i.NATS.URL, stream.ConnectionOptions("test")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if i.JetStream, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	parsed, err := policy.Parse("policy.yaml", rules)
	if err != nil {
		t.Fatal(err)
	}
	options := stream.DefaultOptions()
	options.Executors = policy.Executors(parsed)
	topology, err := stream.LoadTopology(options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Apply(t.Context(), i.JetStream); err != nil {
		t.Fatal(err)
	}
	if i.Store, err = store.Open(store.Config{Addrs: []string{i.Redis.Addr}, AllowColon: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Store.Close() })
	p, err := processor.New(t.Context(), processor.Settings{
		Name: "one", JetStream: i.JetStream, Store: i.Store, Policy: rules, PolicyName: "policy.yaml",
		Prefix: options.Prefix, Partitions: options.Partitions, LeaseTTL: time.Second,
		Registerer: prometheus.NewRegistry(), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("processor: %v", err)
		}
	})
	return i
}

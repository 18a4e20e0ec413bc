package stream

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runledger/internal/testenv"
)

func leaderOf(t *testing.T, cluster *testenv.NATSCluster, js jetstream.JetStream, stream string) string {
	t.Helper()
	leader, err := cluster.Leader(testContext(t), js, stream)
	if err != nil {
		t.Fatal(err)
	}
	return leader
}

func TestReaderLosesAndReordersNothingWhenLeadersAreKilled(t *testing.T) {
	cluster := testenv.StartNATSCluster(t)
	nc := connect(t, cluster.URLs())
	js := jetStream(t, nc)
	options := onePartition()
	options.Replicas = 3
	topology, err := LoadTopology(options)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the cluster takes the streams", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err = topology.Apply(ctx, js)
		return err == nil
	})
	if differences, err := topology.Check(testContext(t), js); err != nil || len(differences) != 0 {
		t.Fatalf("streams with three replicas: %q, %v, want no difference", lines(differences), err)
	}
	leaderOf(t, cluster, js, StreamIn)
	for range 2 { // an id used before suppresses nothing, with replicas neither
		if ack, err := js.Publish(testContext(t), "harness.v1.in.agent.a1.r1.tool.call", nil, jetstream.WithMsgID("same")); err != nil || ack.Duplicate {
			t.Errorf("message with a used id: %+v, %v", ack, err)
		}
	}
	reader := openReader(t, js, 0, ReaderConfig{})

	var stored atomic.Int64
	stop := make(chan struct{})
	published := make(chan map[uint64]string)
	go func() { published <- publishUntil(stop, &stored, testPublisher(t, nc, PublisherConfig{})) }()

	read := map[uint64]string{}
	var last uint64
	readTo := func(count int) {
		for len(read) < count {
			batch, err := reader.Next(testContext(t), 256)
			if err != nil {
				t.Fatalf("after message %d: %v", last, err)
			}
			for _, m := range batch {
				// The partition is all of the stream, so its sequences have no holes.
				if m.Sequence != last+1 {
					t.Fatalf("got message %d after %d", m.Sequence, last)
				}
				last = m.Sequence
				read[m.Sequence] = string(m.Data)
			}
		}
	}
	readTo(200)
	for range 2 {
		leader := leaderOf(t, cluster, js, StreamIn)
		start := time.Now()
		cluster.Nodes[leader].Kill()
		readTo(len(read) + 500)
		t.Logf("leader %s killed: 500 more messages read after %v", leader, time.Since(start))
		cluster.Nodes[leader].Restart()
	}
	close(stop)
	acknowledged := <-published
	readTo(int(stored.Load()))
	for sequence, data := range acknowledged {
		if read[sequence] != data {
			t.Errorf("message %d: read %q, acknowledged %q", sequence, read[sequence], data)
		}
	}
	t.Logf("read %d messages, %d acknowledged", len(read), len(acknowledged))
}

// publishUntil publishes in batches and keeps what was acknowledged, by
// sequence. stored is the last sequence that it knows of.
func publishUntil(stop <-chan struct{}, stored *atomic.Int64, publisher *Publisher) map[uint64]string {
	acknowledged := map[uint64]string{}
	for n := 0; ; {
		select {
		case <-stop:
			return acknowledged
		case <-time.After(5 * time.Millisecond): // leaves the machine some room
		}
		pending := map[string]*Pending{}
		for range 20 {
			n++
			data := fmt.Sprint(n)
			pending[data] = publisher.Publish(&nats.Msg{Subject: "harness.v1.in.agent.a1.r1.tool.call", Data: []byte(data)}, ExpectNone())
		}
		for data, p := range pending {
			if sequence, err := p.Wait(context.Background()); err == nil {
				acknowledged[sequence] = data
				stored.Store(max(stored.Load(), int64(sequence)))
			}
		}
	}
}

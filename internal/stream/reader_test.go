package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// onePartition lets every message of a test fall into partition 0.
func onePartition() Options {
	options := DefaultOptions()
	options.Partitions = 1
	return options
}

const partitionZero = "harness.v1.part.0.>"

// fill publishes messages numbered from first to last, one behind the other.
func fill(t testing.TB, publisher *Publisher, first, last int, data func(i int) []byte) {
	t.Helper()
	pending := make([]*Pending, 0, last-first+1)
	for i := first; i <= last; i++ {
		msg := &nats.Msg{Subject: "harness.v1.in.agent.a1.r1.tool.call", Data: data(i), Header: nats.Header{"n": {fmt.Sprint(i)}}}
		pending = append(pending, publisher.Publish(msg, ExpectNone()))
	}
	for _, p := range pending {
		if _, err := p.Wait(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func number(i int) []byte { return fmt.Appendf(nil, "%d", i) }

func openReader(t testing.TB, js jetstream.JetStream, after uint64, cfg ReaderConfig) *Reader {
	t.Helper()
	reader, err := OpenReader(testContext(t), js, partitionZero, after, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	return reader
}

// readNumbers reads until message last and requires each of first … last once
// and in order.
func readNumbers(t testing.TB, reader *Reader, first, last int) {
	t.Helper()
	ctx := testContext(t)
	for want := first; want <= last; {
		batch, err := reader.Next(ctx, min(100, last-want+1))
		if err != nil {
			t.Fatalf("waiting for message %d: %v", want, err)
		}
		for _, m := range batch {
			if string(m.Data) != fmt.Sprint(want) {
				t.Fatalf("got message %s (sequence %d), want %d", m.Data, m.Sequence, want)
			}
			want++
		}
	}
}

func TestReaderHandsOutWholeMessagesInOrderAfterThePosition(t *testing.T) {
	_, nc, js := withTopology(t, onePartition())
	publisher := testPublisher(t, nc, PublisherConfig{})
	before := time.Now()
	fill(t, publisher, 1, 5, number)
	reader := openReader(t, js, 2, ReaderConfig{})
	var got []Message
	for len(got) < 3 {
		batch, err := reader.Next(testContext(t), 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) > 2 {
			t.Fatalf("got %d messages, want at most 2", len(batch))
		}
		got = append(got, batch...)
	}
	for i, m := range got {
		n := i + 3
		if m.Subject != "harness.v1.part.0.in.agent.a1.r1.tool.call" || m.Sequence != uint64(n) ||
			string(m.Data) != fmt.Sprint(n) || m.Header.Get("n") != fmt.Sprint(n) ||
			m.Time.Before(before.Add(-time.Second)) || m.Time.After(time.Now().Add(time.Second)) {
			t.Errorf("message %d: got %+v", n, m)
		}
	}
}

func TestReaderWaitsForTheNextMessageAndLosesNoneWhenTheContextEnds(t *testing.T) {
	_, nc, js := withTopology(t, onePartition())
	publisher := testPublisher(t, nc, PublisherConfig{})
	reader := openReader(t, js, 0, ReaderConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if batch, err := reader.Next(ctx, 10); !errors.Is(err, context.DeadlineExceeded) || len(batch) != 0 {
		t.Fatalf("got %d messages, %v, want the context's error", len(batch), err)
	}
	fill(t, publisher, 1, 3, number)
	readNumbers(t, reader, 1, 3)
}

func TestReaderKeepsWithinItsLimitsAndStillDeliversTheLargestMessages(t *testing.T) {
	_, nc, js := withTopology(t, onePartition())
	publisher := testPublisher(t, nc, PublisherConfig{})
	large := []byte(strings.Repeat("x", 1<<20-500))
	const count = 12
	fill(t, publisher, 1, count, func(int) []byte { return large })
	reader := openReader(t, js, 0, ReaderConfig{MaxMessages: 5, MaxBytes: 1})
	limit := 2*(int(nc.MaxPayload())+maxEnvelope) + 1000
	seen := 0
	for seen < count {
		batch, err := reader.Next(testContext(t), 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) > 5 || len(batch)*len(large) > limit {
			t.Fatalf("handed out %d messages of 1 MiB, want at most 5 and %d bytes", len(batch), limit)
		}
		seen += len(batch)
	}
}

func TestReaderGoesOnAcrossServerRestartsWithoutLossOrRepetition(t *testing.T) {
	server, nc, js := withTopology(t, onePartition())
	publisher := testPublisher(t, nc, PublisherConfig{})
	reader := openReader(t, js, 0, ReaderConfig{MaxMessages: 64})
	fill(t, publisher, 1, 500, number)
	readNumbers(t, reader, 1, 100)
	server.Restart() // with messages read ahead, and others not yet pulled
	readNumbers(t, reader, 101, 500)
	server.Restart() // with a pull that waits
	eventually(t, 10*time.Second, "connection is back", nc.IsConnected)
	fill(t, publisher, 501, 900, number)
	readNumbers(t, reader, 501, 900)
}

func TestReaderReopensWhenItsConsumerIsTakenAway(t *testing.T) {
	_, nc, js := withTopology(t, onePartition())
	publisher := testPublisher(t, nc, PublisherConfig{})
	reader := openReader(t, js, 0, ReaderConfig{})
	fill(t, publisher, 1, 10, number)
	readNumbers(t, reader, 1, 10)
	s, err := js.Stream(testContext(t), StreamIn)
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.ConsumerNames(testContext(t)).Name() {
		if err := js.DeleteConsumer(testContext(t), StreamIn, name); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, publisher, 11, 20, number)
	readNumbers(t, reader, 11, 20)
}

func TestReaderGoesOnWhenItsConsumerWentWhileTheBufferWasFull(t *testing.T) {
	_, nc, js := withTopology(t, onePartition())
	publisher := testPublisher(t, nc, PublisherConfig{})
	reader := openReader(t, js, 0, ReaderConfig{MaxMessages: 4})
	fill(t, publisher, 1, 20, number)
	eventually(t, 5*time.Second, "the buffer is full and no pull waits", func() bool {
		messages, _ := reader.room()
		return messages == 0
	})
	s, err := js.Stream(testContext(t), StreamIn)
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.ConsumerNames(testContext(t)).Name() {
		if err := js.DeleteConsumer(testContext(t), StreamIn, name); err != nil {
			t.Fatal(err)
		}
	}
	readNumbers(t, reader, 1, 20)
}

func TestReaderEndsWithItsConnection(t *testing.T) {
	_, nc, js := withTopology(t, onePartition())
	reader := openReader(t, js, 0, ReaderConfig{})
	nc.Close()
	if _, err := reader.Next(testContext(t), 1); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("got %v, want nats.ErrConnectionClosed", err)
	}
}

func TestReaderThatIsClosedLeavesNoConsumer(t *testing.T) {
	_, _, js := withTopology(t, onePartition())
	reader := openReader(t, js, 0, ReaderConfig{})
	reader.Close()
	if _, err := reader.Next(testContext(t), 1); !errors.Is(err, ErrReaderClosed) {
		t.Errorf("after Close: got %v, want ErrReaderClosed", err)
	}
	eventually(t, 5*time.Second, "no consumer on IN", func() bool {
		s, err := js.Stream(testContext(t), StreamIn)
		return err == nil && s.CachedInfo().State.Consumers == 0
	})
}

func TestReaderRefusesAStreamThatEndsBeforeThePosition(t *testing.T) {
	_, nc, js := withTopology(t, onePartition())
	fill(t, testPublisher(t, nc, PublisherConfig{}), 1, 3, number)
	_, err := OpenReader(testContext(t), js, partitionZero, 4, ReaderConfig{RewindGrace: 200 * time.Millisecond})
	if !errors.Is(err, ErrRewound) {
		t.Errorf("got %v, want ErrRewound", err)
	}
}

func TestReaderDoesNotTakeAHoleOfItsConsumerForOrder(t *testing.T) {
	_, nc, js := withTopology(t, onePartition())
	publisher := testPublisher(t, nc, PublisherConfig{})
	reader := openReader(t, js, 0, ReaderConfig{})
	fill(t, publisher, 1, 5, number)
	readNumbers(t, reader, 1, 5)
	// Somebody else pulls from its consumer: to the reader, deliveries are
	// missing in between.
	s, err := js.Stream(testContext(t), StreamIn)
	if err != nil {
		t.Fatal(err)
	}
	stolen, err := nc.SubscribeSync("stolen")
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.ConsumerNames(testContext(t)).Name() {
		if err := nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.IN."+name, "stolen", []byte(`{"batch":5,"expires":5000000000}`)); err != nil {
			t.Fatal(err)
		}
		eventually(t, 5*time.Second, "two pulls wait on the consumer", func() bool {
			consumer, err := js.Consumer(testContext(t), StreamIn, name)
			return err == nil && consumer.CachedInfo().NumWaiting == 2
		})
	}
	fill(t, publisher, 6, 20, number)
	if _, err := stolen.NextMsg(5 * time.Second); err != nil {
		t.Fatalf("nothing was stolen: %v", err)
	}
	readNumbers(t, reader, 6, 20)
}

// BenchmarkReader reads messages of 1 KiB; one operation is one message.
func BenchmarkReader(b *testing.B) {
	_, nc, js := withTopology(b, onePartition())
	publisher := testPublisher(b, nc, PublisherConfig{})
	data := []byte(strings.Repeat("x", 1024))
	for stored := 0; stored < b.N; stored += 10_000 {
		fill(b, publisher, 1, min(10_000, b.N-stored), func(int) []byte { return data })
	}
	reader := openReader(b, js, 0, ReaderConfig{})
	b.ReportAllocs()
	b.ResetTimer()
	for read := 0; read < b.N; {
		batch, err := reader.Next(context.Background(), 256)
		if err != nil {
			b.Fatal(err)
		}
		read += len(batch)
	}
}

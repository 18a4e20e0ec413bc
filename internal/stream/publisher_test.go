package stream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func message(subject string) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: []byte("x")}
}

func wait(t testing.TB, p *Pending) (uint64, error) {
	t.Helper()
	return p.Wait(testContext(t))
}

func TestPublishUnderAFenceIsStoredOrStale(t *testing.T) {
	_, nc, _ := withTopology(t, DefaultOptions())
	publisher := testPublisher(t, nc, PublisherConfig{})
	const filter = "harness.v1.fact.a1.r1.>"
	if seq, err := wait(t, publisher.Publish(message("harness.v1.fact.a1.r1.run.started"), ExpectLast(filter, 0))); seq != 1 || err != nil {
		t.Fatalf("first: got %d, %v, want sequence 1", seq, err)
	}
	if seq, err := wait(t, publisher.Publish(message("harness.v1.fact.a1.r2.run.started"), ExpectNone())); seq != 2 || err != nil {
		t.Fatalf("another run: got %d, %v, want sequence 2", seq, err)
	}
	if seq, err := wait(t, publisher.Publish(message("harness.v1.fact.a1.r1.tool.reserved"), ExpectLast(filter, 1))); seq != 3 || err != nil {
		t.Fatalf("next: got %d, %v, want sequence 3", seq, err)
	}
	if seq, err := wait(t, publisher.Publish(message("harness.v1.fact.a1.r1.tool.reserved"), ExpectLast(filter, 1))); seq != 0 || !errors.Is(err, ErrStale) {
		t.Errorf("on stale state: got %d, %v, want ErrStale", seq, err)
	}
	if seq, err := wait(t, publisher.Publish(message("harness.v1.dispatch.e1.r1.2"), ExpectNew())); seq != 1 || err != nil {
		t.Errorf("create: got %d, %v, want sequence 1", seq, err)
	}
	if _, err := wait(t, publisher.Publish(message("harness.v1.dispatch.e1.r1.2"), ExpectNew())); !errors.Is(err, ErrStale) {
		t.Errorf("create again: got %v, want ErrStale", err)
	}
}

func TestPublishTellsARefusalFromAnAnswerThatDidNotCome(t *testing.T) {
	_, nc, js := withTopology(t, DefaultOptions())
	publisher := testPublisher(t, nc, PublisherConfig{AckTimeout: 200 * time.Millisecond})
	var refused *jetstream.APIError
	schedule := ScheduleMsg("harness.v1.timer.r1.1", "harness.v1.elsewhere", time.Now())
	if _, err := wait(t, publisher.Publish(schedule, ExpectNone())); !errors.As(err, &refused) || errors.Is(err, ErrUnanswered) {
		t.Errorf("schedule to a foreign subject: got %v, want the server's refusal", err)
	}
	large := &nats.Msg{Subject: "harness.v1.dispatch.e1.r1.1", Data: make([]byte, nc.MaxPayload()+1)}
	if _, err := wait(t, publisher.Publish(large, ExpectNone())); !errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, ErrUnanswered) {
		t.Errorf("too large: got %v, want nats.ErrMaxPayload", err)
	}
	if _, err := wait(t, publisher.Publish(message("nobody.listens"), ExpectNone())); !errors.Is(err, ErrUnanswered) {
		t.Errorf("no stream: got %v, want ErrUnanswered", err)
	}
	// Somebody listens and does not answer.
	if _, err := nc.SubscribeSync("silence"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := wait(t, publisher.Publish(message("silence"), ExpectNone())); !errors.Is(err, ErrUnanswered) {
		t.Errorf("silence: got %v, want ErrUnanswered", err)
	}
	if took := time.Since(start); took < 200*time.Millisecond || took > 2*time.Second {
		t.Errorf("silence took %v, want some 200ms", took)
	}
	if n := streamCount(t, js, StreamTimers); n != 0 {
		t.Errorf("TIMERS holds %d messages, want none", n)
	}
}

func TestPublishIsUnansweredAtOnceWhenTheServerGoesAndWorksWhenItIsBack(t *testing.T) {
	server, nc, js := withTopology(t, DefaultOptions())
	publisher := testPublisher(t, nc, PublisherConfig{AckTimeout: 20 * time.Second})
	if _, err := nc.SubscribeSync("silence"); err != nil {
		t.Fatal(err)
	}
	inFlight := publisher.Publish(message("silence"), ExpectNone())
	server.Stop()
	start := time.Now()
	if _, err := wait(t, inFlight); !errors.Is(err, ErrUnanswered) {
		t.Errorf("in flight: got %v, want ErrUnanswered", err)
	}
	if _, err := wait(t, publisher.Publish(message("harness.v1.fact.a1.r1.run.started"), ExpectNone())); !errors.Is(err, ErrUnanswered) {
		t.Errorf("while disconnected: got %v, want ErrUnanswered", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v, want it to be noticed at once", took)
	}
	server.Restart()
	eventually(t, 10*time.Second, "a publish is stored again", func() bool {
		_, err := publisher.Publish(message("harness.v1.fact.a1.r2.run.started"), ExpectNone()).Wait(testContext(t))
		return err == nil
	})
	if got := storedSubjects(t, js, StreamRuns); len(got) != 1 || got[0] != "harness.v1.fact.a1.r2.run.started" {
		t.Errorf("stored: %q, want only what was published after the return", got)
	}
}

func TestWaitReturnsWhenTheContextEndsAndMayBeCalledAgain(t *testing.T) {
	_, nc, _ := withTopology(t, DefaultOptions())
	publisher := testPublisher(t, nc, PublisherConfig{})
	pending := publisher.Publish(message("harness.v1.fact.a1.r1.run.started"), ExpectNone())
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := wait(t, pending); err != nil {
		t.Fatal(err)
	}
	if seq, err := pending.Wait(done); seq != 1 || err != nil {
		t.Errorf("an answer that is there, with an ended context: got %d, %v, want 1", seq, err)
	}
	if _, err := nc.SubscribeSync("silence"); err != nil {
		t.Fatal(err)
	}
	if _, err := publisher.Publish(message("silence"), ExpectNone()).Wait(done); !errors.Is(err, ErrUnanswered) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want ErrUnanswered and the context's error", err)
	}
}

func TestPublisherThatIsClosedLeavesNothingPending(t *testing.T) {
	_, nc, _ := withTopology(t, DefaultOptions())
	publisher := testPublisher(t, nc, PublisherConfig{})
	if _, err := nc.SubscribeSync("silence"); err != nil {
		t.Fatal(err)
	}
	pending := publisher.Publish(message("silence"), ExpectNone())
	publisher.Close()
	publisher.Close()
	if _, err := wait(t, pending); !errors.Is(err, ErrUnanswered) {
		t.Errorf("in flight: got %v, want ErrUnanswered", err)
	}
	if _, err := wait(t, publisher.Publish(message("silence"), ExpectNone())); !errors.Is(err, ErrUnanswered) {
		t.Errorf("after Close: got %v, want ErrUnanswered", err)
	}
}

func TestPublisherRefusesAConnectionThatSendsLater(t *testing.T) {
	server, _, _ := withTopology(t, DefaultOptions())
	if _, err := NewPublisher(server.Conn(t), PublisherConfig{}); err == nil || !strings.Contains(err.Error(), "ReconnectBufSize") {
		t.Errorf("got %v, want an error that names ReconnectBufSize", err)
	}
}

func TestAnswersOfAStreamAreReadWithAndWithoutTheShortWay(t *testing.T) {
	for answer, want := range map[string]uint64{
		`{"stream":"RUNS","seq":12}`:                                  12,
		`{"stream":"RUNS", "seq":12}`:                                 12,
		`{"stream":"RUNS","seq": 12}`:                                 12,
		`{"stream":"RUNS","domain":"hub","seq":18446744073709551615}`: 18446744073709551615,
		`{"stream":"RUNS","seq":18446744073709551615}`:                18446744073709551615,
		`{"stream":"IN","seq":7,"duplicate":true}`:                    7,
	} {
		if got, err := parseAck([]byte(answer)); got != want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", answer, got, err, want)
		}
	}
	for answer, want := range map[string]error{
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"RUNS","seq":0}`: ErrStale,
		`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"RUNS","seq":0}`:    ErrStale,
		`+ACK`:                       ErrUnanswered,
		``:                           ErrUnanswered,
		`{}`:                         ErrUnanswered,
		`{"stream":"RUNS","seq":0}`:  ErrUnanswered,
		`{"stream":"RUNS","seq":-1}`: ErrUnanswered,
	} {
		if got, err := parseAck([]byte(answer)); got != 0 || !errors.Is(err, want) {
			t.Errorf("%s: got %d, %v, want %v", answer, got, err, want)
		}
	}
}

// The two benchmarks make the same fenced publishes in batches of 256 over 256
// runs and wait for each batch; compare them with each other.
func BenchmarkPublisher(b *testing.B) {
	_, nc, _ := withTopology(b, DefaultOptions())
	publisher := testPublisher(b, nc, PublisherConfig{})
	fence := newFences()
	pending := make([]*Pending, 0, len(fence))
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += len(pending) {
		pending = pending[:0]
		for i := range min(len(fence), b.N-done) {
			f := &fence[i]
			pending = append(pending, publisher.Publish(&nats.Msg{Subject: f.subject, Data: f.data}, ExpectLast(f.filter, f.last)))
		}
		for i, p := range pending {
			seq, err := p.Wait(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			fence[i].last = seq
		}
	}
}

func BenchmarkPublishMsgAsync(b *testing.B) {
	_, nc, _ := withTopology(b, DefaultOptions())
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(5*time.Second), jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		b.Fatal(err)
	}
	fence := newFences()
	pending := make([]jetstream.PubAckFuture, 0, len(fence))
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += len(pending) {
		pending = pending[:0]
		for i := range min(len(fence), b.N-done) {
			f := &fence[i]
			future, err := js.PublishMsgAsync(&nats.Msg{Subject: f.subject, Data: f.data}, jetstream.WithExpectLastSequenceForSubject(f.last, f.filter))
			if err != nil {
				b.Fatal(err)
			}
			pending = append(pending, future)
		}
		for i, p := range pending {
			select {
			case ack := <-p.Ok():
				fence[i].last = ack.Sequence
			case err := <-p.Err():
				b.Fatal(err)
			}
		}
	}
}

type fenced struct {
	subject, filter string
	last            uint64
	data            []byte
}

func newFences() []fenced {
	fences := make([]fenced, 256)
	for i := range fences {
		run := string(rune('a'+i/16)) + string(rune('a'+i%16))
		fences[i] = fenced{subject: "harness.v1.fact.a1." + run + ".tool.settled", filter: "harness.v1.fact.a1." + run + ".>", data: make([]byte, 512)}
	}
	return fences
}

package stream

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

func TestHistoryReadsTheLastFactByWildcard(t *testing.T) {
	_, nc, js := withTopology(t, DefaultOptions())
	publisher := testPublisher(t, nc, PublisherConfig{})
	history := NewHistory(js, zerolog.Nop())
	if got, err := history.Last(testContext(t), "harness.v1.fact.*.r1.>"); got != nil || err != nil {
		t.Fatalf("before any fact: got %v, %v, want nil", got, err)
	}
	for i, subject := range []string{"fact.a1.r1.run.started", "fact.a1.r1.tool.reserved", "fact.a2.r2.run.started"} {
		msg := &nats.Msg{Subject: "harness.v1." + subject, Data: fmt.Appendf(nil, "body %d", i), Header: nats.Header{"ce-id": {subject}}}
		if _, err := wait(t, publisher.Publish(msg, ExpectNone())); err != nil {
			t.Fatal(err)
		}
	}
	for _, filter := range []string{"harness.v1.fact.*.r1.>", "harness.v1.fact.a1.r1.>"} {
		got, err := history.Last(testContext(t), filter)
		if err != nil || got == nil {
			t.Fatalf("%s: got %v, %v", filter, got, err)
		}
		if got.Sequence != 2 || string(got.Data) != "body 1" || got.Subject != "harness.v1.fact.a1.r1.tool.reserved" ||
			got.Header["ce-id"][0] != "fact.a1.r1.tool.reserved" || got.Time.IsZero() {
			t.Errorf("%s: got %+v", filter, got)
		}
	}
}

func TestHistoryFromReadsEveryMessageOfTheFilterUpToTheLast(t *testing.T) {
	_, nc, js := withTopology(t, DefaultOptions())
	publisher := testPublisher(t, nc, PublisherConfig{})
	history := NewHistory(js, zerolog.Nop())
	const facts = 60
	var pending []*Pending
	for i := 1; i <= facts; i++ { // odd sequences are r1's, even ones r2's
		run := "r1"
		if i%2 == 0 {
			run = "r2"
		}
		pending = append(pending, publisher.Publish(message("harness.v1.fact.a1."+run+".tool.settled"), ExpectNone()))
	}
	for _, p := range pending {
		if _, err := wait(t, p); err != nil {
			t.Fatal(err)
		}
	}
	for from, want := range map[uint64][]uint64{
		0:  odd(1, 59),
		1:  odd(1, 59),
		40: odd(41, 59),
		52: odd(53, 59),
		59: {59},
		60: nil,
		99: nil,
	} {
		var got []uint64
		err := history.From(testContext(t), "harness.v1.fact.*.r1.>", from, func(m Message) error {
			got = append(got, m.Sequence)
			if len(got) == 1 { // what is stored meanwhile does not belong to it
				_, err := wait(t, publisher.Publish(message("harness.v1.fact.a1.r2.tool.settled"), ExpectNone()))
				return err
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("from %d: got %v, %v, want %v", from, got, err, want)
		}
	}
	stop := errors.New("enough")
	for _, from := range []uint64{1, 55} {
		calls := 0
		err := history.From(testContext(t), "harness.v1.fact.*.r1.>", from, func(Message) error { calls++; return stop })
		if !errors.Is(err, stop) || calls != 1 {
			t.Errorf("from %d: got %v after %d calls, want the callback's error after 1", from, err, calls)
		}
	}
}

func odd(first, last uint64) []uint64 {
	var all []uint64
	for n := first; n <= last; n += 2 {
		all = append(all, n)
	}
	return all
}

func TestHistoryInboundReadsOneMessageOrSaysThatThereIsNone(t *testing.T) {
	_, nc, js := withTopology(t, onePartition())
	fill(t, testPublisher(t, nc, PublisherConfig{}), 1, 3, number)
	history := NewHistory(js, zerolog.Nop())
	got, err := history.Inbound(testContext(t), 2)
	if err != nil || string(got.Data) != "2" || got.Sequence != 2 || got.Subject != "harness.v1.part.0.in.agent.a1.r1.tool.call" {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, seq := range []uint64{0, 4} {
		if _, err := history.Inbound(testContext(t), seq); !errors.Is(err, ErrNotFound) {
			t.Errorf("sequence %d: got %v, want ErrNotFound", seq, err)
		}
	}
}

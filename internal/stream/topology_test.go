package stream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func storedSubjects(t *testing.T, js jetstream.JetStream, stream string) []string {
	t.Helper()
	s, err := js.Stream(testContext(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		msg, err := s.GetMsg(testContext(t), seq)
		if err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, msg.Subject)
	}
	return subjects
}

func TestTickLandsInThePartitionOfItsRunsIntents(t *testing.T) {
	_, _, js := withTopology(t, DefaultOptions())
	const runs = 60
	for i := range runs {
		run := fmt.Sprintf("run-%d", i)
		if _, err := js.Publish(testContext(t), "harness.v1.in.agent.a1."+run+".tool.call", nil); err != nil {
			t.Fatal(err)
		}
		msg := ScheduleMsg("harness.v1.timer."+run+".1", "harness.v1.tick."+run, time.Now())
		if _, err := js.PublishMsg(testContext(t), msg); err != nil {
			t.Fatal(err)
		}
	}
	partition := map[string]string{}
	used := map[string]bool{}
	eventually(t, 10*time.Second, "an intent and a tick for each run in IN", func() bool {
		return streamCount(t, js, StreamIn) == 2*runs
	})
	ticks := 0
	for _, subject := range storedSubjects(t, js, StreamIn) {
		rest, ok := strings.CutPrefix(subject, "harness.v1.part.")
		if !ok {
			t.Fatalf("stored subject %q is not below harness.v1.part.", subject)
		}
		p, rest, _ := strings.Cut(rest, ".")
		used[p] = true
		tokens := strings.Split(rest, ".")
		switch tokens[0] {
		case "in":
			if rest != "in.agent.a1."+tokens[3]+".tool.call" {
				t.Errorf("intent stored as %q", subject)
			}
			partition[tokens[3]] = p
		case "tick":
			ticks++
			if partition[tokens[1]] != p {
				t.Errorf("tick of %s in partition %s, its intents in %s", tokens[1], p, partition[tokens[1]])
			}
		}
	}
	if ticks != runs {
		t.Errorf("ticks: got %d, want %d", ticks, runs)
	}
	if len(used) < 12 {
		t.Errorf("%d runs fell into %d of 16 partitions; want them spread", runs, len(used))
	}
}

func streamCount(t testing.TB, js jetstream.JetStream, name string) uint64 {
	t.Helper()
	s, err := js.Stream(testContext(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestSchedulesFireOnceEachAndNotEarly(t *testing.T) {
	_, _, js := withTopology(t, DefaultOptions())
	start := time.Now()
	instants := []time.Time{start.Add(300 * time.Millisecond), start.Add(1200 * time.Millisecond)}
	for generation, at := range instants {
		msg := ScheduleMsg(fmt.Sprintf("harness.v1.timer.r1.%d", generation), "harness.v1.tick.r1", at)
		if _, err := js.PublishMsg(testContext(t), msg); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 5*time.Second, "two ticks", func() bool { return streamCount(t, js, StreamIn) == 2 })
	s, err := js.Stream(testContext(t), StreamIn)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range instants {
		tick, err := s.GetMsg(testContext(t), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if late := tick.Time.Sub(at); late < 0 || late > time.Second {
			t.Errorf("tick %d came %v after its instant, want 0 to 1 s", i, late)
		}
		if len(tick.Data) != 0 {
			t.Errorf("tick carries %q, want nothing", tick.Data)
		}
	}
	if n := streamCount(t, js, StreamTimers); n != 1 {
		t.Errorf("TIMERS holds %d messages, want only the last tick: a schedule goes when it fires", n)
	}
}

func TestRunsRepublishesWhatItStoredAndNotWhatItRefused(t *testing.T) {
	_, nc, js := withTopology(t, DefaultOptions())
	sub, err := nc.SubscribeSync("harness.v1.run.a1.>")
	if err != nil {
		t.Fatal(err)
	}
	publish := func(subject string, expect ...jetstream.PublishOpt) error {
		_, err := js.Publish(testContext(t), subject, []byte("x"), expect...)
		return err
	}
	if err := publish("harness.v1.fact.a1.r1.run.started"); err != nil {
		t.Fatal(err)
	}
	if err := publish("harness.v1.fact.a1.r1.tool.settled", jetstream.WithExpectLastSequenceForSubject(9, "harness.v1.fact.a1.r1.>")); err == nil {
		t.Fatal("a stale fact was stored")
	}
	if err := publish("harness.v1.outside.a1.r1.run.rejected.k7"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"harness.v1.run.a1.r1.run.started", "harness.v1.run.a1.r1.run.rejected.k7"} {
		msg, err := sub.NextMsg(5 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if msg.Subject != want {
			t.Errorf("republished as %q, want %q", msg.Subject, want)
		}
	}
	if msg, err := sub.NextMsg(200 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("republished a third message: %v, %v", msg, err)
	}
}

func TestFenceHoldsOverWildcardFilters(t *testing.T) {
	_, _, js := withTopology(t, DefaultOptions())
	for run, filter := range map[string]string{
		"ra": "harness.v1.fact.a1.ra.>",
		"rb": "harness.v1.fact.*.rb.>",
	} {
		fact := func(kind string, last uint64) (uint64, error) {
			ack, err := js.Publish(testContext(t), "harness.v1.fact.a1."+run+"."+kind, nil,
				jetstream.WithExpectLastSequenceForSubject(last, filter))
			if err != nil {
				return 0, err
			}
			return ack.Sequence, nil
		}
		first, err := fact("run.started", 0)
		if err != nil {
			t.Fatalf("first fact under %s: %v", filter, err)
		}
		second, err := fact("tool.reserved", first)
		if err != nil {
			t.Fatalf("second fact under %s: %v", filter, err)
		}
		var refused *jetstream.APIError
		if _, err = fact("tool.settled", first); !errors.As(err, &refused) || refused.ErrorCode != 10071 {
			t.Errorf("stale fact under %s: got %v, want refused with 10071", filter, err)
		}
		if _, err := fact("tool.settled", second); err != nil {
			t.Errorf("third fact under %s: %v", filter, err)
		}
	}
}

func TestDispatchIsCreatedOnce(t *testing.T) {
	_, _, js := withTopology(t, DefaultOptions())
	create := func() error {
		_, err := js.Publish(testContext(t), "harness.v1.dispatch.e1.r1.3", nil, jetstream.WithExpectLastSequencePerSubject(0))
		return err
	}
	if err := create(); err != nil {
		t.Fatal(err)
	}
	var refused *jetstream.APIError
	if err := create(); !errors.As(err, &refused) || refused.ErrorCode != 10071 {
		t.Errorf("second create: got %v, want refused with 10071", err)
	}
}

func TestInTakesNothingThatCouldChangeWhatIsStored(t *testing.T) {
	_, nc, js := withTopology(t, DefaultOptions())
	const subject = "harness.v1.in.agent.a1.r1.tool.call"
	if _, err := js.Publish(testContext(t), subject, nil); err != nil {
		t.Fatal(err)
	}
	for header, value := range map[string]string{
		"Nats-Rollup":        "all",
		"Nats-TTL":           "1s",
		"Nats-Schedule":      "@at 2030-01-01T00:00:00Z",
		"Nats-Schedule-Next": "purge",
		"Nats-Stream-Source": "TIMERS 1",
		"Nats-Batch-Id":      "b1",
		"Nats-Incr":          "1",
		"Nats-Scheduler":     "harness.v1.timer.r1.1",
	} {
		msg := &nats.Msg{Subject: subject, Header: nats.Header{header: []string{value}}}
		if header == "Nats-Schedule" {
			msg.Header.Set("Nats-Schedule-Target", "harness.v1.in.agent.a2.r1.tool.call")
		}
		if _, err := js.PublishMsg(testContext(t), msg); err == nil {
			t.Errorf("a message with %s was accepted", header)
		}
		if n := streamCount(t, js, StreamIn); n != 1 {
			t.Fatalf("after a message with %s: IN holds %d messages, want 1", header, n)
		}
	}
	// An id that another used before suppresses nothing.
	for range 2 {
		before := streamCount(t, js, StreamIn)
		ack, err := js.Publish(testContext(t), subject, nil, jetstream.WithMsgID("same"))
		if err != nil || ack.Duplicate || streamCount(t, js, StreamIn) != before+1 {
			t.Errorf("message with a used id: %+v, %v", ack, err)
		}
	}
	for request, body := range map[string]string{
		"$JS.API.STREAM.PURGE.IN":      "",
		"$JS.API.STREAM.MSG.DELETE.IN": `{"seq":1}`,
	} {
		reply, err := nc.Request(request, []byte(body), 5*time.Second)
		if err != nil || !strings.Contains(string(reply.Data), `"error"`) {
			t.Errorf("%s: got %s, %v, want refused", request, reply.Data, err)
		}
	}
}

package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"runledger/internal/events"
	"runledger/internal/testenv"
)

// silentStream stands where IN would: it notes what is published, and
// acknowledges only from the given publish on.
func silentStream(t *testing.T, nc *nats.Conn, acknowledgeFrom int, then func(*nats.Msg)) *[]*nats.Msg {
	t.Helper()
	var mu sync.Mutex
	seen := new([]*nats.Msg)
	sub, err := nc.Subscribe("harness.v1.in.>", func(msg *nats.Msg) {
		mu.Lock()
		*seen = append(*seen, msg)
		n := len(*seen)
		mu.Unlock()
		if n >= acknowledgeFrom {
			_ = msg.Respond([]byte(`{"stream":"IN","seq":1}`))
		}
		then(msg)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return seen
}

func TestUnansweredPublishIsRepeatedAsTheSameEvent(t *testing.T) {
	nc := testenv.StartNATS(t).Conn(t)
	seen := silentStream(t, nc, 3, func(*nats.Msg) {})
	agent := newTestAgent(t, nc, AgentConfig{AckTimeout: 20 * time.Millisecond})
	ctx := testContext(t)
	event := events.NewIntent(events.VerbRunStart, "e1", "/agents/a", time.Unix(1, 0), []byte(`{}`))
	if err := agent.pub.publish(ctx, "harness.v1.in.agent.a.r.run.start", event); err != nil {
		t.Fatal(err)
	}
	if len(*seen) != 3 {
		t.Fatalf("published %d times, want 3", len(*seen))
	}
	for _, msg := range *seen {
		if msg.Header["ce-id"][0] != "e1" || msg.Header["ce-time"][0] != "1970-01-01T00:00:01Z" || string(msg.Data) != "{}" {
			t.Errorf("repeated with other content: %v", msg.Header)
		}
	}
	if got, want := agent.Stats(), (Stats{Published: 1, Republished: 2}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

func TestPublishThatIsNeverAnsweredGivesUp(t *testing.T) {
	nc := testenv.StartNATS(t).Conn(t)
	agent := newTestAgent(t, nc, AgentConfig{AckTimeout: 20 * time.Millisecond, Publishes: 2})
	_, err := agent.Start(testContext(t), spec("r1")) // nobody listens at all
	if !errors.Is(err, ErrUnanswered) {
		t.Errorf("got %v, want ErrUnanswered", err)
	}
	if got, want := agent.Stats(), (Stats{Published: 0, Republished: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

func TestPublishIsRepeatedUntilTheRunsDeadlineAndItsGrace(t *testing.T) {
	nc := testenv.StartNATS(t).Conn(t)
	agent := newTestAgent(t, nc, AgentConfig{AckTimeout: 20 * time.Millisecond, AnswerGrace: 200 * time.Millisecond})
	began := time.Now()
	short := spec("r1")
	short.Deadline = began.Add(300 * time.Millisecond)
	_, err := agent.Start(testContext(t), short) // nobody listens at all
	if !errors.Is(err, ErrUnanswered) {
		t.Errorf("got %v, want ErrUnanswered", err)
	}
	if took := time.Since(began); took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("gave up after %v, want 500ms", took)
	}
}

func TestPublishStopsWithItsContext(t *testing.T) {
	nc := testenv.StartNATS(t).Conn(t)
	silentStream(t, nc, 1000, func(*nats.Msg) {})
	agent := newTestAgent(t, nc, AgentConfig{AckTimeout: time.Minute})
	ctx, cancel := context.WithTimeout(testContext(t), 30*time.Millisecond)
	defer cancel()
	if _, err := agent.Start(ctx, spec("r1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want context.DeadlineExceeded", err)
	}
}

func TestFactStandsForAnAcknowledgementThatIsLost(t *testing.T) {
	nc := testenv.StartNATS(t).Conn(t)
	silentStream(t, nc, 1000, func(msg *nats.Msg) {
		fact := &events.Fact{
			Agent: "a", Run: "r1", Sequence: 1, Time: time.Now(), Rules: events.RulesVersion,
			Cause:   events.Cause{ID: msg.Header["ce-id"][0], Decision: true},
			Payload: &events.RunStarted{RunID: "r1"},
		}
		encoded, err := fact.Encode()
		if err != nil {
			t.Errorf("encode: %v", err)
			return
		}
		_ = nc.PublishMsg(&nats.Msg{Subject: "harness.v1.run.a.r1.run.started", Header: nats.Header(encoded.Header), Data: encoded.Data})
	})
	agent := newTestAgent(t, nc, AgentConfig{AckTimeout: time.Minute})
	if _, err := agent.Start(testContext(t), spec("r1")); err != nil {
		t.Errorf("got %v, want a started run", err)
	}
}

func TestAgentConfigurationNamesTheWrongField(t *testing.T) {
	for field, cfg := range map[string]AgentConfig{
		"Name: ":        {Name: "a b"},
		"Prefix: ":      {Name: "a", Prefix: "x.*"},
		"AckTimeout: ":  {Name: "a", AckTimeout: -1},
		"Publishes: ":   {Name: "a", Publishes: -1},
		"AnswerGrace: ": {Name: "a", AnswerGrace: -1},
	} {
		if err := cfg.Validate(); err == nil || err.Error()[:len(field)] != field {
			t.Errorf("got %v, want an error that begins with %q", err, field)
		}
	}
}

func TestCodesAreThoseOfTheProtocol(t *testing.T) {
	ours := map[Code]bool{}
	for _, c := range []Code{
		CodeInvalidEnvelope, CodeInvalidToolCallID, CodeRunMismatch, CodeRunNotFound, CodeRunNotOwned, CodeInvalidInput,
		CodeRequestTooLarge, CodeToolNotFound, CodeUnauthorized, CodeNotReadOnly, CodeRunNotActive, CodeDeadlineExceeded,
		CodeRunReleased, CodeRetryNotAllowed, CodeAttemptNotOpen,
		CodeDuplicateToolCall, CodeBudgetExhausted, CodeRunExists, CodeInvalidIdentity, CodeInvalidLimits, CodeInvalidDeadline,
		CodeToolExecutionFailed, CodeToolTimeout, CodeResultTooLarge, CodeProjectionFailed, CodeRunTerminated, CodeInternal,
	} {
		ours[c] = true
	}
	for _, c := range events.Codes() {
		if !ours[Code(c)] {
			t.Errorf("the protocol has %s, and the client has no name for it", c)
		}
		delete(ours, Code(c))
	}
	for c := range ours {
		t.Errorf("the client names %s, which the protocol does not have", c)
	}
}

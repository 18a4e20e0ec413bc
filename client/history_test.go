package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"runledger/internal/events"
)

func TestGapFailsWhoeverWaitsAndTheRunGoesOn(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if p, ok := in.Payload.(*events.ToolCall); ok {
			switch p.ToolCallID {
			case "open":
				s.reserve(in)
				return
			case "undecided": // its decision is lost, or the settlement of the other
				s.lose(in.Run)
				return
			case "shows":
				s.decide(in, &events.ToolRejected{RunID: in.Run, ToolCallID: p.ToolCallID, Code: events.CodeUnauthorized})
				return
			}
		}
		ordinary(s, in)
	})
	ctx := testContext(t)
	var waiting []*Pending
	for _, id := range []string{"open", "undecided"} {
		p, err := run.StartCall(ctx, Call{ID: id, Tool: "t"})
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, p)
	}
	var rejected *RejectedError
	if _, err := run.Call(ctx, Call{ID: "shows", Tool: "t"}); !errors.As(err, &rejected) {
		t.Errorf("the call whose answer came after the gap: got %v, want that answer", err)
	}
	for _, p := range waiting {
		if _, err := p.Wait(ctx); !errors.Is(err, ErrHistoryGap) {
			t.Errorf("%s: got %v, want ErrHistoryGap", p.id, err)
		}
	}
	if result, err := run.Call(ctx, Call{ID: "later", Tool: "t"}); err != nil || result.ToolCallID != "later" {
		t.Errorf("a later call: got %v, %v, want its result", result, err)
	}
}

func TestFinishIsNotFailedByAGap(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if in.Verb == events.VerbRunFinish {
			s.lose(in.Run) // run.ending
			s.terminate(in, events.OutcomeSuccess, "FINISHED_BY_AGENT")
			return
		}
		ordinary(s, in)
	})
	end, err := run.Finish(testContext(t), OutcomeSuccess)
	if err != nil || end.Outcome != OutcomeSuccess {
		t.Errorf("got %+v, %v, want SUCCESS", end, err)
	}
}

func TestFactThatComesTwiceIsTakenOnce(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if _, ok := in.Payload.(*events.ToolCall); ok {
			call := s.reserve(in)
			s.mu.Lock()
			s.sequence[in.Run]--
			s.mu.Unlock()
			s.reserve(in)
			s.ready(in, call, `1`)
			return
		}
		ordinary(s, in)
	})
	if result, err := run.Call(testContext(t), Call{ID: "c", Tool: "t"}); err != nil || string(result.Data) != "1" {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestFactOfANewerVersionIsNoGap(t *testing.T) {
	_, nc, _ := withStreams(t)
	startScript(t, nc, func(s *script, in *events.Inbound) {
		if _, ok := in.Payload.(*events.ToolCall); ok {
			s.lose(in.Run)
			msg := nats.NewMsg("harness.v1.fact.a.r1.model.dreamt")
			msg.Header["ce-sequence"] = []string{"00000000000000000002"}
			msg.Header["ce-rulesversion"] = []string{"1"}
			if _, err := s.js.PublishMsg(context.Background(), msg); err != nil {
				t.Errorf("publish: %v", err)
			}
		}
		ordinary(s, in)
	})
	run, err := newTestAgent(t, nc, AgentConfig{}).Start(testContext(t), spec("r1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Call(testContext(t), Call{ID: "c", Tool: "t"}); err != nil {
		t.Errorf("got %v, want the result", err)
	}
}

func TestCloseEndsTheWaiting(t *testing.T) {
	_, nc, _ := withStreams(t)
	startScript(t, nc, func(s *script, in *events.Inbound) {
		if in.Verb == events.VerbRunStart {
			s.start(in)
		}
	})
	agent := newTestAgent(t, nc, AgentConfig{})
	run, err := agent.Start(testContext(t), spec("r1"))
	if err != nil {
		t.Fatal(err)
	}
	pending, err := run.StartCall(testContext(t), Call{ID: "c", Tool: "t"})
	if err != nil {
		t.Fatal(err)
	}
	agent.Close()
	if _, err := pending.Wait(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("waiting call: got %v, want ErrClosed", err)
	}
	if _, err := run.Finish(testContext(t), OutcomeSuccess); !errors.Is(err, ErrClosed) {
		t.Errorf("finish: got %v, want ErrClosed", err)
	}
	if _, err := agent.Start(testContext(t), spec("r2")); !errors.Is(err, ErrClosed) {
		t.Errorf("start: got %v, want ErrClosed", err)
	}
	select {
	case <-run.Done():
	case <-time.After(time.Second):
		t.Error("Done is open after Close")
	}
}

func TestAnswersThatTheSubscriptionMissedAreReadFromTheStream(t *testing.T) {
	_, nc, _ := withStreams(t)
	startScript(t, nc, ordinary)
	agent := newTestAgent(t, nc, AgentConfig{})
	if err := agent.sub.Unsubscribe(); err != nil { // nothing comes by itself any more
		t.Fatal(err)
	}
	run, err := agent.Start(testContext(t), spec("r1"))
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if result, err := run.Call(testContext(t), Call{ID: "c", Tool: "t"}); err != nil || string(result.Data) != `{"of":"c"}` {
		t.Errorf("call: got %+v, %v, want its result", result, err)
	}
	if end, err := run.Finish(testContext(t), OutcomeSuccess); err != nil || end.Usage.ToolCalls != 3 {
		t.Errorf("finish: got %+v, %v, want the end", end, err)
	}
}

func TestRefusalOutsideTheHistoryThatWasMissedIsRead(t *testing.T) {
	_, nc, _ := withStreams(t)
	startScript(t, nc, func(s *script, in *events.Inbound) {
		s.outside(in, &events.RunRejected{RunID: in.Run, Code: events.CodeInvalidLimits})
	})
	agent := newTestAgent(t, nc, AgentConfig{})
	if err := agent.sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	var rejected *RejectedError
	if _, err := agent.Start(testContext(t), spec("r1")); !errors.As(err, &rejected) || rejected.Code != Code(events.CodeInvalidLimits) {
		t.Errorf("got %v, want the refusal", err)
	}
}

// TestFactsBeforeTheOneThatComesAreReadFirst lets two facts be stored while the
// subscription is away.
func TestFactsBeforeTheOneThatComesAreReadFirst(t *testing.T) {
	_, nc, js := withStreams(t)
	var first *events.Inbound
	startScript(t, nc, func(s *script, in *events.Inbound) {
		if p, ok := in.Payload.(*events.ToolCall); ok && p.ToolCallID == "first" {
			first = in
			return
		}
		if first != nil {
			s.ready(first, s.reserve(first), `1`)
			first = nil
			return
		}
		ordinary(s, in)
	})
	agent := newTestAgent(t, nc, AgentConfig{})
	run, err := agent.Start(testContext(t), spec("r1"))
	if err != nil {
		t.Fatal(err)
	}
	pending, err := run.StartCall(testContext(t), Call{ID: "first", Tool: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if _, err := run.StartCall(testContext(t), Call{ID: "second", Tool: "t"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the facts that nobody follows are stored", func() bool {
		runs, err := js.Stream(testContext(t), "RUNS")
		return err == nil && runs.CachedInfo().State.LastSeq == 3 // with the start
	})
	if agent.sub, err = nc.Subscribe("harness.v1.run.a.>", agent.onFact); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Call(testContext(t), Call{ID: "third", Tool: "t"}); err != nil {
		t.Errorf("third: %v, want its result", err)
	}
	if result, err := pending.Wait(testContext(t)); err != nil || string(result.Data) != "1" {
		t.Errorf("first: got %+v, %v, want the result that was missed", result, err)
	}
}

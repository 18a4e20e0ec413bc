package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"runledger/internal/events"
)

func TestStartTellsTheProcessorIdentityDeadlineAndLimits(t *testing.T) {
	run, s := startRun(t, ordinary)
	if run.ID() != "r1" {
		t.Errorf("id %q, want r1", run.ID())
	}
	in := s.intents(events.VerbRunStart)[0]
	p := in.Payload.(*events.RunStart)
	want := events.Limits{ModelCalls: 1, ToolCalls: 2, CallsPerTool: 3, InputTokens: 4, OutputTokens: 5, TotalTokens: 6, RunBytes: 7}
	if p.RunID != "r1" || p.SessionID != "session of r1" || p.Limits != want || time.Until(p.Deadline) < 59*time.Minute {
		t.Errorf("published %+v", p)
	}
	if in.Source != "/agents/a" || len(in.ID) < 20 {
		t.Errorf("source %q and id %q, want /agents/a and a random id", in.Source, in.ID)
	}
}

func TestStartThatIsRefusedGivesCodeMessageAndLimit(t *testing.T) {
	_, nc, _ := withStreams(t)
	startScript(t, nc, func(s *script, in *events.Inbound) {
		s.outside(in, &events.RunRejected{RunID: in.Run, Intent: in.Verb, Code: events.CodeInvalidLimits, Message: "Too much.", Limit: "tool_calls"})
	})
	agent := newTestAgent(t, nc, AgentConfig{})
	_, err := agent.Start(testContext(t), spec("r1"))
	var rejected *RejectedError
	if !errors.As(err, &rejected) {
		t.Fatalf("got %v, want a RejectedError", err)
	}
	want := RejectedError{RunID: "r1", Intent: "run.start", Code: CodeInvalidLimits, Message: "Too much.", Limit: "tool_calls"}
	if *rejected != want {
		t.Errorf("got %+v, want %+v", *rejected, want)
	}
	if got, want := err.Error(), "run.start in run r1 was refused: INVALID_LIMITS: Too much. (limit tool_calls)"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	// Nothing of the refused run is left behind.
	if _, err := agent.Start(testContext(t), spec("r1")); !errors.As(err, &rejected) {
		t.Errorf("second start: got %v, want a RejectedError again", err)
	}
}

func TestStartIsNotMisledByAnotherRunOfTheSameID(t *testing.T) {
	_, nc, _ := withStreams(t)
	startScript(t, nc, func(s *script, in *events.Inbound) {
		s.publish(&events.Inbound{Address: in.Address, ID: "of another process"}, true, &events.RunStarted{RunID: in.Run})
		s.outside(in, &events.RunRejected{RunID: in.Run, Intent: in.Verb, Code: events.CodeRunExists, Message: "Exists."})
	})
	_, err := newTestAgent(t, nc, AgentConfig{}).Start(testContext(t), spec("r1"))
	var rejected *RejectedError
	if !errors.As(err, &rejected) || rejected.Code != CodeRunExists {
		t.Errorf("got %v, want RUN_ALREADY_EXISTS", err)
	}
}

func TestCallSendsIDAndArgumentsByteForByte(t *testing.T) {
	run, s := startRun(t, ordinary)
	id := "call_a.b|c/d+e=f~g@h"
	arguments := "{ \"big\" : 1" + "0000000000000000000000000.50, \"s\":\"\\u00e9\\/\" }"
	result, err := run.Call(testContext(t), Call{ID: id, Tool: "search/flights.v2", Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"run_id":"r1","tool_call_id":"` + id + `","tool":"search/flights.v2","arguments":` + arguments + `}`
	if got := string(s.intents(events.VerbToolCall)[0].Data); got != want {
		t.Errorf("sent\n%s, want\n%s", got, want)
	}
	if result.ToolCallID != id || result.Tool != "search/flights.v2" || result.Sequence != 2 ||
		result.Evidence != EvidenceFound || string(result.Data) != `{"of":"`+id+`"}` {
		t.Errorf("result %+v", result)
	}
}

func TestCallsAtOnceEachGetTheirOwnResult(t *testing.T) {
	var held []func()
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		p, ok := in.Payload.(*events.ToolCall)
		if !ok {
			ordinary(s, in)
			return
		}
		call := s.reserve(in)
		held = append(held, func() { s.ready(in, call, `"`+p.ToolCallID+`"`) })
		if len(held) == 20 { // settled in the opposite order
			for i := range held {
				held[len(held)-1-i]()
			}
		}
	})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			id := fmt.Sprintf("call-%d", i)
			result, err := run.Call(testContext(t), Call{ID: id, Tool: "t"})
			if err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			if string(result.Data) != `"`+id+`"` || result.ToolCallID != id {
				t.Errorf("%s got the result %s of %s", id, result.Data, result.ToolCallID)
			}
		})
	}
	all.Wait()
}

func TestStartedCallsReachTheProcessorInOrder(t *testing.T) {
	run, s := startRun(t, ordinary)
	var pending []*Pending
	for i := range 10 {
		p, err := run.StartCall(testContext(t), Call{ID: fmt.Sprint(i), Tool: "t"})
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	for i, p := range pending {
		result, err := p.Wait(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if result.ToolCallID != fmt.Sprint(i) {
			t.Errorf("call %d got the result of %s", i, result.ToolCallID)
		}
	}
	for i, in := range s.intents(events.VerbToolCall) {
		if id := in.Payload.(*events.ToolCall).ToolCallID; id != fmt.Sprint(i) {
			t.Errorf("at %d came call %s", i, id)
		}
	}
}

func TestCallThatIsRefusedIsARejectedError(t *testing.T) {
	same := true
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if p, ok := in.Payload.(*events.ToolCall); ok {
			s.decide(in, &events.ToolRejected{RunID: in.Run, ToolCallID: p.ToolCallID, Tool: p.Tool, Code: events.CodeDuplicateToolCall, Message: "Used.", SameArguments: &same})
			return
		}
		ordinary(s, in)
	})
	_, err := run.Call(testContext(t), Call{ID: "c", Tool: "t"})
	var rejected *RejectedError
	if !errors.As(err, &rejected) {
		t.Fatalf("got %v, want a RejectedError", err)
	}
	if rejected.Code != CodeDuplicateToolCall || rejected.ToolCallID != "c" || rejected.Tool != "t" ||
		rejected.Intent != "tool.call" || rejected.SameArguments == nil || !*rejected.SameArguments {
		t.Errorf("got %+v", rejected)
	}
}

func TestCallThatEndsAsErrorIsAFailedError(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if p, ok := in.Payload.(*events.ToolCall); ok {
			call := s.reserve(in)
			// Noticed with the very event of the call, and still not its decision.
			s.due(in, &events.ToolSettled{ToolCallID: p.ToolCallID, Tool: p.Tool, Call: call, Status: events.StatusError, Evidence: events.EvidenceError, Code: events.CodeToolTimeout, Message: "Too slow."})
			return
		}
		ordinary(s, in)
	})
	_, err := run.Call(testContext(t), Call{ID: "c", Tool: "t"})
	var failed *FailedError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a FailedError", err)
	}
	if want := (FailedError{RunID: "r1", ToolCallID: "c", Tool: "t", Code: CodeToolTimeout, Message: "Too slow."}); *failed != want {
		t.Errorf("got %+v, want %+v", *failed, want)
	}
}

func TestWhatWasDueWithACallIsNotItsAnswer(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if p, ok := in.Payload.(*events.ToolCall); ok && p.ToolCallID == "second" {
			s.due(in, &events.ToolRejected{RunID: in.Run, ToolCallID: "first", Code: events.CodeUnauthorized})
		}
		ordinary(s, in)
	})
	result, err := run.Call(testContext(t), Call{ID: "second", Tool: "t"})
	if err != nil || result.ToolCallID != "second" {
		t.Errorf("got %v, %v, want the call's own result", result, err)
	}
}

func TestCallInARunThatEndsIsAnEndedError(t *testing.T) {
	settle := false
	run, s := startRun(t, func(s *script, in *events.Inbound) {
		p, ok := in.Payload.(*events.ToolCall)
		if !ok {
			ordinary(s, in)
			return
		}
		call := s.reserve(in)
		s.due(in, &events.RunEnding{Outcome: events.OutcomeTimedOut, Reason: "DEADLINE_EXCEEDED"})
		if settle {
			s.due(in, &events.ToolSettled{ToolCallID: p.ToolCallID, Call: call, Status: events.StatusError, Code: events.CodeRunTerminated})
		}
		s.terminate(in, events.OutcomeTimedOut, "DEADLINE_EXCEEDED")
	})
	for i := range 2 { // the first is open at the end, the second comes after it
		_, err := run.Call(testContext(t), Call{ID: "c", Tool: "t"})
		var ended *EndedError
		if !errors.As(err, &ended) || ended.Outcome != OutcomeTimedOut || ended.Reason != "DEADLINE_EXCEEDED" {
			t.Errorf("call %d: got %v, want an EndedError of TIMED_OUT", i, err)
		}
	}
	if n := len(s.intents(events.VerbToolCall)); n != 1 {
		t.Errorf("%d calls were published, want 1: none after the end", n)
	}
	select {
	case <-run.Done():
	default:
		t.Error("Done is open after the end")
	}
	if end, ok := run.Termination(); !ok || end.Outcome != OutcomeTimedOut || end.Usage.ToolCalls != 3 || end.Calls["READY"] != 2 {
		t.Errorf("termination %+v, %v", end, ok)
	}
}

func TestCallSettledByTheEndWrapsItsFailure(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if p, ok := in.Payload.(*events.ToolCall); ok {
			call := s.reserve(in)
			s.due(in, &events.RunEnding{Outcome: events.OutcomeCancelled, Reason: "OPERATOR_REQUESTED"})
			s.due(in, &events.ToolSettled{ToolCallID: p.ToolCallID, Call: call, Status: events.StatusError, Code: events.CodeRunTerminated})
			return
		}
		ordinary(s, in)
	})
	_, err := run.Call(testContext(t), Call{ID: "c", Tool: "t"})
	var ended *EndedError
	var failed *FailedError
	if !errors.As(err, &ended) || ended.Outcome != OutcomeCancelled || !errors.As(err, &failed) || failed.Code != CodeRunTerminated {
		t.Errorf("got %v, want an EndedError that wraps RUN_TERMINATED", err)
	}
}

func TestFinishGivesTheTermination(t *testing.T) {
	run, s := startRun(t, ordinary)
	end, err := run.Finish(testContext(t), OutcomeSuccess)
	if err != nil {
		t.Fatal(err)
	}
	if end.Outcome != OutcomeSuccess || end.Reason != "FINISHED_BY_AGENT" || !end.EndedAt.Equal(time.Unix(100, 0)) {
		t.Errorf("got %+v", end)
	}
	if got := string(s.intents(events.VerbRunFinish)[0].Data); got != `{"run_id":"r1","outcome":"SUCCESS"}` {
		t.Errorf("sent %s", got)
	}
}

func TestCancelEndsTheRunWithItsReason(t *testing.T) {
	run, _ := startRun(t, ordinary)
	end, err := run.Cancel(testContext(t), CancelUserRequested)
	if err != nil || end.Outcome != OutcomeCancelled || end.Reason != "USER_REQUESTED" {
		t.Errorf("got %+v, %v", end, err)
	}
}

func TestFinishOfARunThatEndedOtherwiseSaysHow(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if in.Verb == events.VerbRunFinish {
			s.due(in, &events.RunEnding{Outcome: events.OutcomeTimedOut, Reason: "DEADLINE_EXCEEDED"})
			s.outside(in, &events.RunRejected{RunID: in.Run, Intent: in.Verb, Code: events.CodeRunNotActive, Message: "Ended."})
			s.terminate(in, events.OutcomeTimedOut, "DEADLINE_EXCEEDED")
			return
		}
		ordinary(s, in)
	})
	end, err := run.Finish(testContext(t), OutcomeSuccess)
	var ended *EndedError
	if !errors.As(err, &ended) || end == nil || end.Outcome != OutcomeTimedOut {
		t.Errorf("got %+v, %v, want TIMED_OUT with an EndedError", end, err)
	}
}

func TestCallThatNobodyAnswersGivesUpWithItsContext(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if in.Verb == events.VerbRunStart {
			s.start(in)
		}
	})
	ctx, cancel := context.WithCancel(testContext(t))
	pending, err := run.StartCall(ctx, Call{ID: "c", Tool: "t"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := pending.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestStartThatNobodyAnswersGivesUpAfterTheDeadline(t *testing.T) {
	_, nc, _ := withStreams(t)
	agent := newTestAgent(t, nc, AgentConfig{AnswerGrace: 50 * time.Millisecond})
	s := spec("r1")
	s.Deadline = time.Now().Add(50 * time.Millisecond)
	if _, err := agent.Start(testContext(t), s); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("got %v, want ErrNoAnswer", err)
	}
}

func TestCallsThatNoEventCouldCarryAreNotPublished(t *testing.T) {
	run, s := startRun(t, ordinary)
	for name, call := range map[string]Call{
		"no id":            {Tool: "t"},
		"id not UTF-8":     {ID: "\xff", Tool: "t"},
		"no tool":          {ID: "c"},
		"not JSON":         {ID: "c", Tool: "t", Arguments: json.RawMessage(`{`)},
		"a second member":  {ID: "c", Tool: "t", Arguments: json.RawMessage(`{},"authorized":true`)},
		"two values":       {ID: "c", Tool: "t", Arguments: json.RawMessage(`{} {}`)},
		"a duplicate name": {ID: "c", Tool: "t", Arguments: json.RawMessage(`{"a":1,"a":2}`)},
	} {
		if _, err := run.Call(testContext(t), call); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if n := len(s.intents(events.VerbToolCall)); n != 0 {
		t.Errorf("%d calls were published, want none", n)
	}
}

func TestRunGoesOnAfterTheServerRestarts(t *testing.T) {
	server, nc, _ := withStreams(t)
	startScript(t, nc, ordinary)
	run, err := newTestAgent(t, nc, AgentConfig{AckTimeout: 500 * time.Millisecond}).Start(testContext(t), spec("r1"))
	if err != nil {
		t.Fatal(err)
	}
	server.Restart()
	eventually(t, "the client is connected again", nc.IsConnected)
	if result, err := run.Call(testContext(t), Call{ID: "c", Tool: "t"}); err != nil || result.ToolCallID != "c" {
		t.Errorf("call: got %+v, %v", result, err)
	}
	if _, err := run.Finish(testContext(t), OutcomeSuccess); err != nil {
		t.Errorf("finish: %v", err)
	}
}

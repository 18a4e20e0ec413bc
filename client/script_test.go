package client

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runledger/internal/events"
)

// script is a processor that says what a test tells it to say: for each intent
// of agent "a" it publishes the facts that answer gives.
type script struct {
	t        *testing.T
	js       jetstream.JetStream
	subjects events.Subjects

	busy sync.Mutex // held while an intent is answered

	mu       sync.Mutex
	seen     []*events.Inbound
	sequence map[string]uint64 // last sequence by run
}

type reply func(s *script, in *events.Inbound)

func startScript(t *testing.T, nc *nats.Conn, answer reply) *script {
	t.Helper()
	s := &script{t: t, js: jetStream(t, nc), subjects: testSubjects(t), sequence: make(map[string]uint64)}
	sub, err := nc.Subscribe("harness.v1.in.agent.a.>", func(msg *nats.Msg) {
		s.busy.Lock()
		defer s.busy.Unlock()
		in, err := events.Decode(s.subjects, events.Message{
			Subject: "harness.v1.part.0." + strings.TrimPrefix(msg.Subject, "harness.v1."),
			Header:  msg.Header, Data: msg.Data, Sequence: 1, Time: time.Now(),
		})
		if err != nil {
			t.Errorf("the client published what cannot be decoded: %v", err)
			return
		}
		if in.Problem != nil {
			t.Errorf("the client published data that do not fit: %v", in.Problem)
		}
		s.mu.Lock()
		s.seen = append(s.seen, in)
		s.mu.Unlock()
		answer(s, in)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sub.Unsubscribe()
		s.busy.Lock() // let it say to the end what it began
	})
	return s
}

// intents gives what was published with the verb.
func (s *script) intents(verb events.Verb) []*events.Inbound {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*events.Inbound
	for _, in := range s.seen {
		if in.Verb == verb {
			found = append(found, in)
		}
	}
	return found
}

// decide publishes the decision of an intent in its run's history and gives its
// sequence.
func (s *script) decide(in *events.Inbound, payload events.Payload) uint64 {
	return s.publish(in, true, payload)
}

// due publishes a fact that follows by itself and was noticed with an intent.
func (s *script) due(in *events.Inbound, payload events.Payload) uint64 {
	return s.publish(in, false, payload)
}

func (s *script) publish(in *events.Inbound, decision bool, payload events.Payload) uint64 {
	s.mu.Lock()
	s.sequence[in.Run]++
	sequence := s.sequence[in.Run]
	s.mu.Unlock()
	s.store(&events.Fact{
		Agent: in.Principal, Run: in.Run, Sequence: sequence, Time: time.Now(), Rules: events.RulesVersion,
		Cause: events.Cause{ID: in.ID, Source: in.Source, Sequence: 1, Decision: decision}, Payload: payload,
	})
	return sequence
}

// outside publishes a decision that belongs to no history.
func (s *script) outside(in *events.Inbound, payload events.Payload) {
	s.store(&events.Fact{
		Agent: in.Principal, Run: in.Run, OutsideKey: in.ID, Time: time.Now(), Rules: events.RulesVersion,
		Cause: events.Cause{ID: in.ID, Source: in.Source, Sequence: 1, Decision: true}, Payload: payload,
	})
}

// lose lets a sequence of the run pass that nobody gets.
func (s *script) lose(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequence[run]++
}

func (s *script) store(f *events.Fact) {
	encoded, err := f.Encode()
	if err != nil {
		s.t.Errorf("encode: %v", err)
		return
	}
	msg := &nats.Msg{Subject: f.Subject(s.subjects), Header: nats.Header(encoded.Header), Data: encoded.Data}
	if _, err := s.js.PublishMsg(context.Background(), msg); err != nil {
		s.t.Errorf("publish a fact: %v", err)
	}
}

func (s *script) start(in *events.Inbound) {
	p := in.Payload.(*events.RunStart)
	s.decide(in, &events.RunStarted{RunID: p.RunID, SessionID: p.SessionID, Agent: in.Principal, Policy: "sha256:0", Deadline: p.Deadline, ExpiresAt: p.Deadline, Limits: p.Limits})
}

func (s *script) reserve(in *events.Inbound) uint64 {
	p := in.Payload.(*events.ToolCall)
	return s.decide(in, &events.ToolReserved{ToolCallID: p.ToolCallID, Tool: p.Tool, Executor: "desk"})
}

func (s *script) ready(in *events.Inbound, call uint64, result string) {
	p := in.Payload.(*events.ToolCall)
	s.due(&events.Inbound{Address: in.Address, ID: "of-the-result"}, &events.ToolSettled{
		ToolCallID: p.ToolCallID, Tool: p.Tool, Call: call,
		Status: events.StatusReady, Evidence: events.EvidenceFound, Result: []byte(result),
	})
}

// grant gives one more attempt, whatever the policy says.
func (s *script) grant(in *events.Inbound) {
	p := in.Payload.(*events.ModelCall)
	attempt := 0
	for _, before := range s.intents(events.VerbModelCall) {
		if before.Payload.(*events.ModelCall).OperationID == p.OperationID {
			attempt++
		}
	}
	s.decide(in, &events.ModelGranted{Operation: p.Operation, OperationID: p.OperationID, Attempt: attempt})
}

func (s *script) refuseModel(in *events.Inbound, code events.Code) {
	refusal := &events.ModelRejected{RunID: in.Run, Intent: in.Verb, Code: code, Message: code.Message()}
	switch p := in.Payload.(type) {
	case *events.ModelCall:
		refusal.Operation, refusal.OperationID = p.Operation, p.OperationID
	case *events.ModelReport:
		refusal.Operation, refusal.OperationID = p.Operation, p.OperationID
	}
	s.decide(in, refusal)
}

func (s *script) terminate(in *events.Inbound, outcome events.Outcome, reason string) {
	s.due(in, &events.RunTerminated{Outcome: outcome, Reason: reason, EndedAt: time.Unix(100, 0).UTC(), Usage: events.Usage{ToolCalls: 3}, Calls: map[string]int64{"READY": 2}})
}

// ordinary answers as a processor does that accepts everything.
func ordinary(s *script, in *events.Inbound) {
	switch p := in.Payload.(type) {
	case *events.RunStart:
		s.start(in)
	case *events.ToolCall:
		s.ready(in, s.reserve(in), `{"of":"`+p.ToolCallID+`"}`)
	case *events.ModelCall:
		s.grant(in)
	case *events.ModelReport:
		s.decide(in, &events.ModelRecorded{
			Operation: p.Operation, OperationID: p.OperationID, Attempt: p.Attempt,
			Outcome: p.Outcome, Failure: p.Failure, Usage: p.Usage,
		})
	case *events.ProgressReport:
		s.decide(in, &events.ProgressAccepted{Step: p.Step, Claims: len(p.Claims), Final: p.Final})
	case *events.RunFinish:
		s.decide(in, &events.RunEnding{Outcome: p.Outcome, Reason: "FINISHED_BY_AGENT"})
		s.terminate(in, p.Outcome, "FINISHED_BY_AGENT")
	case *events.RunCancel:
		s.decide(in, &events.RunEnding{Outcome: events.OutcomeCancelled, Reason: string(p.Reason)})
		s.terminate(in, events.OutcomeCancelled, string(p.Reason))
	}
}

var testLimits = Limits{ModelCalls: 1, ToolCalls: 2, CallsPerTool: 3, InputTokens: 4, OutputTokens: 5, TotalTokens: 6, RunBytes: 7}

func newTestAgent(t *testing.T, nc *nats.Conn, cfg AgentConfig) *Agent {
	t.Helper()
	cfg.Name = "a"
	agent, err := NewAgent(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	return agent
}

func spec(run string) RunSpec {
	return RunSpec{RunID: run, SessionID: "session of " + run, Deadline: time.Now().Add(time.Hour), Limits: testLimits}
}

// startRun starts a run against a script.
func startRun(t *testing.T, answer reply) (*Run, *script) {
	t.Helper()
	_, nc, _ := withStreams(t)
	s := startScript(t, nc, answer)
	run, err := newTestAgent(t, nc, AgentConfig{}).Start(testContext(t), spec("r1"))
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return run, s
}

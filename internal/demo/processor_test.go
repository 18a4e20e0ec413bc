package demo

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/progress"
	"runledger/internal/stream"
	"runledger/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The embedded server now and then leaves this one behind when it stops
		// while a stream with a source is being set up (2.15.3).
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
}

// processor decides by the real rules, in memory and one event at a time.
type processor struct {
	js       jetstream.JetStream
	subjects events.Subjects
	rules    harness.Rules
	runs     map[string]*harness.State
}

// emptyIsNothing is a projector that keeps everything.
type emptyIsNothing struct{}

func (emptyIsNothing) Project(raw []byte) (harness.Projection, error) {
	switch string(raw) {
	case `""`, `[]`, `{}`, `null`:
		return harness.Projection{Result: raw, Evidence: events.EvidenceNone}, nil
	}
	return harness.Projection{Result: raw, Evidence: events.EvidenceFound}, nil
}

func testPolicy() *harness.Policy {
	const many = 1 << 40
	policy := &harness.Policy{
		Digest: "sha256:5bd0c3d8f6b0", Tools: map[string]harness.Tool{}, Grants: map[string][]string{"*": {"*"}},
		Ceilings:   events.Limits{ModelCalls: many, ToolCalls: many, CallsPerTool: many, InputTokens: many, OutputTokens: many, TotalTokens: many, RunBytes: many},
		Bytes:      harness.ByteLimits{Request: 1 << 20, RawResponse: 1 << 20, Record: 1 << 21, AgentResult: 1 << 20},
		LongestRun: time.Hour, TTL: time.Hour, Observed: 100,
		Progress: harness.ProgressLimits{MaxRepairs: 3, MaxRepeats: 10, Grace: 30 * time.Second},
	}
	for tool, readOnly := range map[string]bool{
		"get_reservation_details": true, "get_user_details": true, "search_direct_flight": true, "search_onestop_flight": true,
		"list_all_airports": true, "calculate": true, "think": true,
		"book_reservation": false, "cancel_reservation": false, "update_reservation_flights": false, "update_reservation_baggages": false,
		"update_reservation_passengers": false, "send_certificate": false, "transfer_to_human_agents": false,
	} {
		policy.Tools[tool] = harness.Tool{Name: tool, Executor: "airline", ReadOnly: readOnly, Timeout: time.Minute, Projector: emptyIsNothing{}}
	}
	return policy
}

// withProcessor is a server with the real streams and a processor that works
// until the test ends.
func withProcessor(t *testing.T) (*nats.Conn, jetstream.JetStream, *processor) {
	t.Helper()
	nc := testenv.StartNATS(t).Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	options := stream.DefaultOptions()
	options.Executors = []string{"airline"}
	topology, err := stream.LoadTopology(options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Apply(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	p := &processor{js: js, runs: map[string]*harness.State{}, rules: harness.Rules{
		Policy: testPolicy(), Progress: progress.Rules{},
	}}
	if p.subjects, err = events.NewSubjects(events.DefaultPrefix); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.work(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("processor: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return nc, js, p
}

func (p *processor) work(ctx context.Context) error {
	consumer, err := p.js.OrderedConsumer(ctx, stream.StreamIn, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		if err := p.decide(msg); err != nil {
			return err
		}
	}
}

func (p *processor) decide(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	in, err := events.Decode(p.subjects, events.Message{
		Subject: msg.Subject(), Header: msg.Headers(), Data: msg.Data(), Sequence: meta.Sequence.Stream, Time: meta.Timestamp,
	})
	if err != nil {
		return err
	}
	state := p.runs[in.Run]
	if state == nil {
		state = &harness.State{}
		p.runs[in.Run] = state
	}
	now := harness.Now(time.Now(), state.Run, in)
	if err := p.due(state, in, now); err != nil {
		return err
	}
	if fact := p.rules.Decide(state, in, now).Fact; fact != nil {
		if err := p.commit(state, in, fact); err != nil {
			return err
		}
	}
	return p.due(state, in, now)
}

func (p *processor) due(state *harness.State, in *events.Inbound, now time.Time) error {
	for {
		state.Completed = completed(state)
		fact := p.rules.Due(state, in, now)
		if fact == nil {
			return nil
		}
		if err := p.commit(state, in, fact); err != nil {
			return err
		}
	}
}

// completed gives the settled calls of a run, which nothing forgets here.
func completed(state *harness.State) []harness.Record {
	var all []harness.Record
	for _, record := range state.Records {
		if record.Status != events.StatusProjecting {
			all = append(all, *record)
		}
	}
	return all
}

func (p *processor) commit(state *harness.State, in *events.Inbound, fact *events.Fact) error {
	encoded, err := fact.Encode()
	if err != nil {
		return err
	}
	ack, err := p.js.PublishMsg(context.Background(), &nats.Msg{Subject: fact.Subject(p.subjects), Header: encoded.Header, Data: encoded.Data})
	if err != nil {
		return err
	}
	if _, err := state.Apply(fact, harness.Stored{Sequence: ack.Sequence, Digest: encoded.Digest}); err != nil {
		return err
	}
	reserved, ok := fact.Payload.(*events.ToolReserved)
	if !ok {
		return nil
	}
	header, data := events.EncodeDispatch(fact.Agent, events.Dispatch{
		RunID: fact.Run, ToolCallID: reserved.ToolCallID, DispatchID: events.DispatchID(fact.Run, fact.Sequence), Tool: reserved.Tool,
		Arguments: in.Payload.(*events.ToolCall).Arguments, Deadline: reserved.Deadline,
	}, fact.Time, fact.Cause)
	_, err = p.js.PublishMsg(context.Background(), &nats.Msg{
		Subject: p.subjects.Dispatch(reserved.Executor, fact.Run, fact.Sequence), Header: header, Data: data,
	})
	return err
}

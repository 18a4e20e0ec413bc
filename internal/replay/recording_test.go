package replay_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"runledger/client"
	"runledger/internal/demo"
	"runledger/internal/events"
	"runledger/internal/policy"
	"runledger/internal/processor/processortest"
	"runledger/internal/replay"
	"runledger/internal/store"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// installation is real servers with a real processor.
type installation struct {
	js      jetstream.JetStream
	store   *store.Store
	redis   string // its address
	streams *replay.JetStream
	next    int
}

func install(t *testing.T, rules []byte) *installation {
	t.Helper()
	served := processortest.Install(t, rules)
	i := &installation{js: served.JetStream, store: served.Store, redis: served.Redis.Addr}
	var err error
	if i.streams, err = replay.NewJetStream(i.js, events.DefaultPrefix, "", zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	return i
}

// say publishes an event by hand, and waits until IN has it.
func (i *installation) say(t *testing.T, subject, eventType, data string) {
	t.Helper()
	i.next++
	i.again(t, fmt.Sprintf("e%d", i.next), subject, eventType, data)
}

func (i *installation) again(t *testing.T, id, subject, eventType, data string) {
	t.Helper()
	_, err := i.js.PublishMsg(t.Context(), &nats.Msg{
		Subject: events.DefaultPrefix + ".in." + subject, Data: []byte(data),
		Header: nats.Header{"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {"/hand"}, "ce-type": {eventType}, "ce-traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (i *installation) start(t *testing.T, run string, lasts time.Duration, toolCalls int) {
	t.Helper()
	i.say(t, "agent.me."+run+".run.start", "harness.run.start.v1", fmt.Sprintf(
		`{"run_id":%q,"session_id":"s","deadline":%q,"limits":{"model_calls":9,"tool_calls":%d,"calls_per_tool":9,"input_tokens":900,"output_tokens":900,"total_tokens":900,"run_bytes":99999}}`,
		run, time.Now().Add(lasts).UTC().Format(time.RFC3339Nano), toolCalls))
}

func (i *installation) call(t *testing.T, run, id string) {
	t.Helper()
	i.say(t, "agent.me."+run+".tool.call", "harness.tool.call.v1",
		fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"tool":"calculate","arguments":{"expression":"1 + 1"}}`, run, id))
}

func (i *installation) result(t *testing.T, run, id string, call int, text string) {
	t.Helper()
	i.say(t, "executor.airline."+run+".tool.result", "harness.tool.result.v1",
		fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"dispatch_id":"%s.%d","outcome":"SUCCEEDED","result":%q}`, run, id, run, call, text))
}

func (i *installation) finish(t *testing.T, run string) {
	t.Helper()
	i.say(t, "agent.me."+run+".run.finish", "harness.run.finish.v1", fmt.Sprintf(`{"run_id":%q,"outcome":"SUCCESS"}`, run))
}

// settle waits until every event is decided.
func (i *installation) settle(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s := i.survey(t)
		decided := uint64(0)
		for _, position := range s.Positions {
			decided = max(decided, position)
		}
		if decided == s.EventsTo {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("events are decided up to %d, and IN has %d", decided, s.EventsTo)
		}
		time.Sleep(20 * time.Millisecond) // asks again; nothing depends on how long it is
	}
}

func (i *installation) survey(t *testing.T) replay.Stretch {
	t.Helper()
	s, err := i.streams.Survey(t.Context(), replay.Since{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read takes everything into memory.
func (i *installation) read(t *testing.T) *memory {
	t.Helper()
	m := &memory{stretch: i.survey(t), policies: map[string][]byte{}}
	all := func(name string) []stream.Message {
		st, err := i.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if st.CachedInfo().State.Msgs == 0 {
			return nil
		}
		reader, err := stream.OpenReader(t.Context(), i.js, ">", 0, stream.ReaderConfig{Stream: name})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		var out []stream.Message
		for uint64(len(out)) < st.CachedInfo().State.Msgs {
			batch, err := reader.Next(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, batch...)
		}
		return out
	}
	m.runs, m.in, m.invalid, m.dispatch = all(stream.StreamRuns), all(stream.StreamIn), all(stream.StreamInvalid), all(stream.StreamDispatch)
	digests, err := i.streams.Digests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, digest := range digests {
		if m.policies[digest], err = i.streams.Get(t.Context(), digest); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

var recording struct {
	once sync.Once
	all  *memory
	book *replay.Book
}

// recorded gives what a real processor made of the recorded runs and of events
// of every kind that goes another way. It is recorded once.
func recorded(t *testing.T) *memory {
	t.Helper()
	recording.once.Do(func() {
		recording.all = record(t)
		recording.book = replay.NewBook(recording.all)
	})
	if recording.all == nil {
		t.Fatal("the recording failed before")
	}
	return recording.all.clone()
}

func record(t *testing.T) *memory {
	i := install(t, policy.Airline())
	transcripts, err := demo.BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := demo.Play(t.Context(), demo.PlayConfig{Conn: i.js.Conn(), Transcripts: transcripts, Limits: client.Limits{}}); err != nil {
		t.Fatal(err)
	}
	i.odd(t)
	i.settle(t)
	return i.read(t)
}

// odd is what does not go the straight way.
func (i *installation) odd(t *testing.T) {
	t.Helper()
	i.call(t, "early", "c1")                                                                                                                                                               // no such run yet
	i.start(t, "early", 40*time.Second, 0)                                                                                                                                                 // refused: a limit of 0
	i.start(t, "early", 40*time.Second, 3)                                                                                                                                                 // fact 1
	i.call(t, "early", "c1")                                                                                                                                                               // 2: reserved
	i.result(t, "early", "c1", 2, "2.0")                                                                                                                                                   // 3: settled
	i.result(t, "early", "c1", 2, "again")                                                                                                                                                 // late
	i.result(t, "early", "c1", 2, "and again")                                                                                                                                             // late again: a dead letter
	i.call(t, "early", "c1")                                                                                                                                                               // 4: duplicate
	i.again(t, "dup", "agent.me.early.tool.call", "harness.tool.call.v1", `{"run_id":"early","tool_call_id":"c2","tool":"calculate","arguments":{"expression":"2"}}`)                      // 5: reserved
	i.again(t, "dup", "agent.me.early.tool.call", "harness.tool.call.v1", `{"run_id":"early","tool_call_id":"c2","tool":"calculate","arguments":{"expression":"2"}}`)                      // nothing
	i.say(t, "agent.other.early.run.finish", "harness.run.finish.v1", `{"run_id":"early","outcome":"SUCCESS"}`)                                                                            // another's
	i.say(t, "executor.nobody.early.tool.result", "harness.tool.result.v1", `{"run_id":"early","tool_call_id":"c2","dispatch_id":"early.5","outcome":"FAILED"}`)                           // a dead letter
	i.say(t, "operator.op.nothing.run.cancel", "harness.run.cancel.v1", `{"run_id":"nothing","reason":"OPERATOR_REQUESTED"}`)                                                              // a dead letter
	i.say(t, "agent.me.early.tool.bla", "x", `{}`)                                                                                                                                         // undecodable
	i.say(t, "agent.me.early.model.call", "harness.model.call.v1", `{"run_id":"early","operation":"INTENT_ROUTER","operation_id":"o"}`)                                                    // 6: granted
	i.say(t, "agent.me.early.model.report", "harness.model.report.v1", `{"run_id":"early","operation":"INTENT_ROUTER","operation_id":"o","attempt":1,"outcome":"SUCCEEDED","usage":null}`) // 7
	i.finish(t, "early")                                                                                                                                                                   // 8 ending, 9 settled, 10 progress, 11 terminated
	i.finish(t, "early")                                                                                                                                                                   // refused
	i.result(t, "early", "c2", 5, "too late")                                                                                                                                              // late
	i.start(t, "short", 1500*time.Millisecond, 1)                                                                                                                                          // ends by its deadline
	i.call(t, "short", "c1")                                                                                                                                                               // in work when it does
	i.start(t, "poor", 40*time.Second, 1)                                                                                                                                                  // 1
	i.call(t, "poor", "c1")                                                                                                                                                                // 2
	i.call(t, "poor", "c2")                                                                                                                                                                // 3: budget; 4 ending, 5 settled, 6 progress, 7 terminated
	i.start(t, "open", 10*time.Minute, 9)                                                                                                                                                  // 1
	i.call(t, "open", "c1")                                                                                                                                                                // 2
	i.result(t, "open", "c1", 2, "4.0")                                                                                                                                                    // 3
	deadline := time.Now().Add(15 * time.Second)
	for ended := false; !ended; { // the deadline of "short" has to come
		if time.Now().After(deadline) {
			t.Fatal("the run short did not end")
		}
		m, err := stream.NewHistory(i.js, zerolog.Nop()).Last(t.Context(), events.DefaultPrefix+".fact.me.short.run.terminated")
		if err != nil {
			t.Fatal(err)
		}
		ended = m != nil
		time.Sleep(20 * time.Millisecond) // asks again
	}
}

func config(m *memory) replay.VerifyConfig {
	return replay.VerifyConfig{Prefix: events.DefaultPrefix, Streams: m, Policies: m, Stretch: m.stretch}
}

func verify(t *testing.T, m *memory) *replay.Report {
	t.Helper()
	try := replay.Verify
	if recording.all != nil && len(m.policies) == 1 && m.policies[policyOf(recording.all)] != nil { // compiling takes longer than the rest
		try = func(ctx context.Context, cfg replay.VerifyConfig) (*replay.Report, error) {
			return replay.VerifyBy(ctx, cfg, recording.book)
		}
	}
	report, err := try(t.Context(), config(m))
	if err != nil {
		t.Fatal(err)
	}
	if sum := report.Checked + report.State + report.FactsUnchecked + report.FactsDiffer; sum != report.Facts || report.FactsUnchecked < 0 || report.FactsDiffer < 0 {
		t.Errorf("of %d facts %d are checked, %d state, %d not checked, %d differ: that is %d", report.Facts, report.Checked, report.State, report.FactsUnchecked, report.FactsDiffer, sum)
	}
	return report
}

// policyOf gives the digest of the one policy.
func policyOf(m *memory) string {
	for digest := range m.policies {
		return digest
	}
	return ""
}

package replay_test

import (
	"fmt"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/replay"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

func newGenerator(t testing.TB) *generator {
	t.Helper()
	content := policy.Airline()
	parsed, err := policy.Parse("test", content)
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := events.NewSubjects(events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return &generator{
		t: t, m: &memory{policies: map[string][]byte{parsed.Digest: content}}, subjects: subjects, rules: replay.RulesOf(parsed),
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), states: map[string]*harness.State{},
	}
}

// generated makes streams of many runs with the rules alone, in turns, each with
// some calls: what a processor without any fault would write.
func generated(t testing.TB, runs, calls int) *memory {
	t.Helper()
	g := newGenerator(t)
	const atOnce = 16
	for first := 0; first < runs; first += atOnce {
		last := min(first+atOnce, runs)
		g.each(first, last, func(run string) { g.start(run, calls) })
		for call := range calls {
			g.each(first, last, func(run string) {
				g.in("agent.me."+run+".tool.call", fmt.Sprintf(`{"run_id":%q,"tool_call_id":"call_%d","tool":"calculate","arguments":{"expression":"%d + 1"}}`, run, call, call))
			})
			g.each(first, last, func(run string) {
				g.in("executor.airline."+run+".tool.result", fmt.Sprintf(
					`{"run_id":%q,"tool_call_id":"call_%d","dispatch_id":"%s.%d","outcome":"SUCCEEDED","result":{"sum":%d,"text":"%0200d"}}`, run, call, run, 2+2*call, call+1, call))
			})
		}
		g.each(first, last, func(run string) {
			g.in("agent.me."+run+".run.finish", fmt.Sprintf(`{"run_id":%q,"outcome":"SUCCESS"}`, run))
		})
	}
	return g.whole()
}

// whole gives the streams as far as they go, with everything decided.
func (g *generator) whole() *memory {
	last := uint64(len(g.m.in))
	g.m.stretch = replay.Stretch{
		FactsFrom: 1, FactsTo: uint64(len(g.m.runs)), FactsEnd: uint64(len(g.m.runs)), EventsTo: last, FactsKept: 1,
		Positions: map[int]uint64{0: last},
	}
	return g.m
}

// lag is how long after its event each fact is decided.
const lag = 5 * time.Millisecond

type generator struct {
	t        testing.TB
	m        *memory
	subjects events.Subjects
	rules    *harness.Rules
	now      time.Time
	states   map[string]*harness.State
}

func (g *generator) each(first, last int, do func(run string)) {
	for i := first; i < last; i++ {
		do(fmt.Sprintf("run-%06d", i))
	}
}

func (g *generator) start(run string, calls int) {
	g.in("agent.me."+run+".run.start", fmt.Sprintf(
		`{"run_id":%q,"session_id":"s","deadline":%q,"limits":{"model_calls":9,"tool_calls":%d,"calls_per_tool":%d,"input_tokens":900,"output_tokens":900,"total_tokens":900,"run_bytes":9999999}}`,
		run, g.now.Add(30*time.Minute).Format(time.RFC3339), calls, calls))
}

// in takes one event through, and gives it.
func (g *generator) in(subject, data string) *events.Inbound {
	g.now = g.now.Add(time.Millisecond)
	sequence := uint64(len(g.m.in) + 1)
	m := stream.Message{
		Subject: events.DefaultPrefix + ".part.0.in." + subject, Sequence: sequence, Time: g.now, Data: []byte(data),
		Header: nats.Header{"ce-specversion": {"1.0"}, "ce-id": {fmt.Sprintf("e%d", sequence)}, "ce-source": {"/generated"}},
	}
	address, err := g.subjects.ParseInbound(m.Subject)
	if err != nil {
		g.t.Fatal(err)
	}
	m.Header["ce-type"] = []string{address.Verb.Type()}
	g.m.in = append(g.m.in, m)
	in, err := events.Decode(g.subjects, events.Message{Subject: m.Subject, Header: m.Header, Data: m.Data, Sequence: m.Sequence, Time: m.Time})
	if err != nil {
		g.t.Fatal(err)
	}
	state := g.states[in.Run]
	if state == nil {
		state = &harness.State{}
		g.states[in.Run] = state
	}
	now := harness.Now(g.now.Add(lag), state.Run, in)
	g.take(state, g.rules.Decide(state, in, now).Fact)
	for {
		state.Completed = nil
		for _, record := range state.Records {
			if record.Status != events.StatusProjecting {
				state.Completed = append(state.Completed, *record)
			}
		}
		fact := g.rules.Due(state, in, now)
		if fact == nil {
			return in
		}
		g.take(state, fact)
	}
}

func (g *generator) take(state *harness.State, f *events.Fact) {
	at := g.write(f)
	if _, err := state.Apply(f, at); err != nil {
		g.t.Fatal(err)
	}
}

// write stores a fact, right or wrong.
func (g *generator) write(f *events.Fact) harness.Stored {
	encoded, err := f.Encode()
	if err != nil {
		g.t.Fatal(err)
	}
	sequence := uint64(len(g.m.runs) + 1)
	g.m.runs = append(g.m.runs, stream.Message{
		Subject: f.Subject(g.subjects), Header: encoded.Header, Data: encoded.Data, Sequence: sequence, Time: g.now.Add(lag),
	})
	return harness.Stored{Sequence: sequence, Digest: encoded.Digest}
}

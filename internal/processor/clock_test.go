package processor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/processor"
	"runledger/internal/store"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// clocked is a worker on servers that take everything, with a clock that a test
// moves, and what the worker gave to the servers.
type clocked struct {
	free
	t       *testing.T
	worker  *processor.Worker
	clock   time.Time
	inbound uint64
	facts   []*nats.Msg
	from    []uint64 // of each projection
	project func()   // called by each

	projected *harness.Run // as it was last given to the store
	cfg       processor.Config
}

// use gives the clock's worker other servers, and nothing that it held.
func (c *clocked) use(publisher processor.Publisher, history processor.History, records processor.Store) {
	c.t.Helper()
	c.cfg.Publisher, c.cfg.History, c.cfg.Store = publisher, history, records
	worker, err := processor.NewWorker(c.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.worker = worker
}

func newClocked(t *testing.T) *clocked {
	t.Helper()
	rules, err := policy.Parse("clock.yaml", []byte(`
version: 1
tools: [{name: look, executor: desk, read_only: true, timeout: 1h}]
grants: [{agent: "*", tools: ["*"]}]
ttl: 1s
`))
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := events.NewSubjects("harness.v1")
	if err != nil {
		t.Fatal(err)
	}
	c := &clocked{t: t, clock: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), project: func() {}}
	c.cfg = processor.DefaultConfig()
	c.cfg.Subjects = subjects
	c.cfg.Rulebook, c.cfg.Metrics = processor.NewRulebook(rules, nil), processor.NewMetrics(prometheus.NewRegistry())
	c.cfg.Clock = func() time.Time { return c.clock }
	c.use(c, c, c)
	return c
}

func (c *clocked) Publish(msg *nats.Msg, expect stream.Expect) processor.Pending {
	if msg.Header.Get("ce-previousdigest") != "" || msg.Header.Get("ce-sequence") != "" {
		c.facts = append(c.facts, msg)
	}
	return c.free.Publish(msg, expect)
}

func (c *clocked) Project(ctx context.Context, projections []store.Projection) []error {
	for _, p := range projections {
		c.from = append(c.from, p.From)
		run := *p.Run
		c.projected = &run
	}
	c.project()
	return c.free.Project(ctx, projections)
}

// carry has the worker carry one event that was stored now.
func (c *clocked) carry(subject, verb, data string) {
	c.t.Helper()
	c.inbound++
	m := stream.Message{Subject: "harness.v1.part.0." + subject, Data: []byte(data), Sequence: c.inbound, Time: c.clock}
	if verb != "" {
		m.Header = nats.Header{"ce-specversion": {"1.0"}, "ce-id": {fmt.Sprint("e", c.inbound)}, "ce-source": {"/a"}, "ce-type": {"harness." + verb + ".v1"}}
	}
	if err := c.worker.Step(context.Background(), []stream.Message{m}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clocked) start(deadline time.Time) {
	c.carry("in.agent.a.r.run.start", "run.start", fmt.Sprintf(
		`{"run_id":"r","session_id":"s","deadline":%q,"limits":{"model_calls":9,"tool_calls":9,"calls_per_tool":9,"input_tokens":9,"output_tokens":9,"total_tokens":9,"run_bytes":9999}}`,
		deadline.Format(events.TimeFormat)))
}

func (c *clocked) call(id string) {
	c.carry("in.agent.a.r.tool.call", "tool.call", fmt.Sprintf(`{"run_id":"r","tool_call_id":%q,"tool":"look","arguments":{}}`, id))
}

func TestProgressThatIsToldAfterItsRecordsExpiredSaysSoInItsInstant(t *testing.T) {
	c := newClocked(t)
	deadline := c.clock.Add(time.Minute)
	expires := deadline.Add(time.Second)
	c.start(deadline)
	c.clock = deadline // the event is begun before the records expire …
	c.project = func() { c.clock = expires.Add(time.Millisecond) }
	c.carry("tick.r", "", "") // … which they do while its progress is collected
	for _, f := range c.facts {
		if f.Header.Get("ce-type") == "harness.run.progress.v1" {
			if got, want := f.Header.Get("ce-time"), "2030-01-01T00:01:01.001Z"; got != want {
				t.Errorf("got run.progress of %s, want %s: its records were gone by then", got, want)
			}
			return
		}
	}
	t.Fatal("want a run.progress")
}

func TestStoreIsNotGoneOnWithAfterAProjectionThatWasLeftOutAsExpired(t *testing.T) {
	c := newClocked(t)
	deadline := c.clock.Add(time.Minute)
	c.start(deadline)
	before := c.clock
	c.clock = deadline.Add(2 * time.Second) // a clock that is wrong for a moment
	c.carry("in.agent.a.r.tool.call", "tool.call", `{"run_id":1}`)
	if want := []uint64{0}; !slices.Equal(c.from, want) {
		t.Fatalf("got projections from %v, want %v alone: all has expired by this clock", c.from, want)
	}
	reached := uint64(len(c.facts))
	c.clock = before
	c.call("late")
	for _, from := range c.from[1:] {
		if from != reached {
			t.Errorf("got a projection from fact %d, want %d: what came before was not given to the store, which must say so", from, reached)
		}
	}
}

func TestNewIDsAreNotLookedUpAndUsedOnesAre(t *testing.T) {
	c := newClocked(t)
	c.start(c.clock.Add(time.Minute))
	for _, id := range []string{"a", "b", "c"} {
		c.call(id)
	}
	if c.loads != 0 {
		t.Errorf("got %d look-ups for new ids of a run that was held since it began, want none", c.loads)
	}
	c.carry("in.executor.desk.r.tool.result", "tool.result", `{"run_id":"r","tool_call_id":"a","dispatch_id":"r.2","outcome":"FAILED"}`)
	c.call("a") // settled, and no longer held
	if c.loads != 1 {
		t.Errorf("got %d look-ups for an id that was used, want one", c.loads)
	}
}

package processor_test

import (
	"bytes"
	"context"
	"fmt"
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

const benchPolicy = `
version: 1
tools: [{name: look, executor: desk, read_only: true, timeout: 1h, projector: {name: json, keep: [total]}}]
grants: [{agent: "*", tools: ["*"]}]
ceilings: {tool_calls: 1000000000, calls_per_tool: 1000000000, run_bytes: 1000000GiB}
`

// free are servers that take everything at once: what is left is the worker's
// own cost.
type free struct {
	sequence uint64
	loads    int
}

func (f *free) Publish(*nats.Msg, stream.Expect) processor.Pending {
	f.sequence++
	return stored(f.sequence)
}

type stored uint64

func (s stored) Wait(context.Context) (uint64, error) { return uint64(s), nil }

func (*free) Last(context.Context, string) (*stream.Message, error) { return nil, nil }
func (*free) From(context.Context, string, uint64, func(stream.Message) error) error {
	return nil
}
func (*free) Inbound(context.Context, uint64) (stream.Message, error) {
	return stream.Message{}, stream.ErrNotFound
}

func (*free) LoadRuns(_ context.Context, ids []string) ([]*harness.Run, []error) {
	return make([]*harness.Run, len(ids)), make([]error, len(ids))
}

func (f *free) Load(_ context.Context, refs []store.Ref) ([]store.Loaded, error) {
	f.loads++
	return make([]store.Loaded, len(refs)), nil
}
func (*free) Completed(context.Context, string) ([]harness.Record, error) { return nil, nil }
func (*free) Project(_ context.Context, projections []store.Projection) []error {
	return make([]error, len(projections))
}

// BenchmarkCall carries whole calls, from intent to settlement, of 100 runs at
// once, with 1 KiB of arguments and 4 KiB of result.
func BenchmarkCall(b *testing.B) {
	rules, err := policy.Parse("bench.yaml", []byte(benchPolicy))
	if err != nil {
		b.Fatal(err)
	}
	subjects, err := events.NewSubjects("harness.v1")
	if err != nil {
		b.Fatal(err)
	}
	servers := &free{}
	cfg := processor.DefaultConfig()
	cfg.Subjects, cfg.Publisher, cfg.History, cfg.Store = subjects, servers, servers, servers
	cfg.Rulebook, cfg.Metrics = processor.NewRulebook(rules, nil), processor.NewMetrics(prometheus.NewRegistry())
	worker, err := processor.NewWorker(cfg)
	if err != nil {
		b.Fatal(err)
	}
	const runs = 100
	inbound := uint64(0)
	event := func(subject, verb, data string) stream.Message {
		inbound++
		return stream.Message{Subject: "harness.v1.part.0.in." + subject + "." + verb, Data: []byte(data), Sequence: inbound, Time: time.Now(), Header: nats.Header{
			"ce-specversion": {"1.0"}, "ce-id": {fmt.Sprint("e", inbound)}, "ce-source": {"/bench"}, "ce-type": {"harness." + verb + ".v1"},
		}}
	}
	step := func(messages []stream.Message) {
		if err := worker.Step(b.Context(), messages); err != nil {
			b.Fatal(err)
		}
	}
	var starts []stream.Message
	for i := range runs {
		starts = append(starts, event(fmt.Sprintf("agent.a.r%d", i), "run.start", fmt.Sprintf(
			`{"run_id":"r%d","session_id":"s","deadline":%q,"limits":{"model_calls":1,"tool_calls":1000000000,"calls_per_tool":1000000000,"input_tokens":1,"output_tokens":1,"total_tokens":1,"run_bytes":1000000000000000}}`,
			i, time.Now().Add(50*time.Minute).UTC().Format(events.TimeFormat))))
	}
	step(starts)
	arguments, result := bytes.Repeat([]byte("a"), 1000), bytes.Repeat([]byte("r"), 4000)
	b.ReportAllocs()
	b.ResetTimer()
	for call := 0; call < b.N; call += runs {
		b.StopTimer()
		var calls, results []stream.Message
		fact := 2 + 2*call/runs
		for i := range runs {
			calls = append(calls, event(fmt.Sprintf("agent.a.r%d", i), "tool.call",
				fmt.Sprintf(`{"run_id":"r%d","tool_call_id":"c%d","tool":"look","arguments":{"text":%q}}`, i, call, arguments)))
			results = append(results, event(fmt.Sprintf("executor.desk.r%d", i), "tool.result",
				fmt.Sprintf(`{"run_id":"r%d","tool_call_id":"c%d","dispatch_id":"r%d.%d","outcome":"SUCCEEDED","result":{"total":3,"text":%q}}`, i, call, i, fact, result)))
		}
		b.StartTimer()
		step(calls)
		step(results)
	}
	if got, want := servers.sequence, uint64(runs); got < want {
		b.Fatalf("got %d publishes", got)
	}
}

package stream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func mustTopology(t *testing.T, change func(*Options)) Topology {
	t.Helper()
	options := DefaultOptions()
	if change != nil {
		change(&options)
	}
	topology, err := LoadTopology(options)
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func TestApplyMakesEverythingAndThenChangesNothing(t *testing.T) {
	js := emptyServer(t)
	ctx := testContext(t)
	topology := mustTopology(t, func(o *Options) { o.Executors = []string{"shell", "web"} })

	missing, err := topology.Check(ctx, js)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"TIMERS: missing", "IN: missing", "RUNS: missing", "DISPATCH: missing", "INVALID: missing",
		"KV_PARTITIONS: missing", "KV_POLICIES: missing", "KV_CLAIMS: missing",
		"DISPATCH/executor-shell: missing", "DISPATCH/executor-web: missing"}
	if got := lines(missing); !slices.Equal(got, want) {
		t.Errorf("before: got %q, want %q", got, want)
	}
	changes, err := topology.Apply(ctx, js)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != len(want) || changes[0].String() != "TIMERS: created" {
		t.Errorf("first apply: got %q, want each of the %d created", lines(changes), len(want))
	}
	differences, err := topology.Check(ctx, js)
	if err != nil || len(differences) != 0 {
		t.Errorf("after: got %q, %v, want no difference", lines(differences), err)
	}
	changes, err = topology.Apply(ctx, js)
	if err != nil || len(changes) != 0 {
		t.Errorf("second apply: got %q, %v, want nothing done", lines(changes), err)
	}
	// nats.go's own view of the buckets agrees with the way in which they were made.
	for _, bucket := range topology.buckets {
		if _, err := js.CreateKeyValue(ctx, bucket); err != nil {
			t.Errorf("bucket %s made again with nats.go: %v", bucket.Bucket, err)
		}
	}
}

func lines[T interface{ String() string }](items []T) []string {
	var all []string
	for _, item := range items {
		all = append(all, item.String())
	}
	return all
}

func TestApplyRefusesWhatCannotBeChangedOrLosesDataAndThenChangesNothing(t *testing.T) {
	js := emptyServer(t)
	ctx := testContext(t)
	if _, err := mustTopology(t, nil).Apply(ctx, js); err != nil {
		t.Fatal(err)
	}
	shorter := mustTopology(t, nil)
	shorter.streams[2].MaxAge = time.Hour
	shorter.streams[0].Description = "another"
	for name, c := range map[string]struct {
		topology Topology
		want     string
	}{
		"partitions": {mustTopology(t, func(o *Options) { o.Partitions = 32 }), "refused: IN was made with 16 partitions, asked for 32; the number is fixed when IN is made"},
		"prefix":     {mustTopology(t, func(o *Options) { o.Prefix = "other" }), "RUNS: subjects: want "},
		"age":        {shorter, "RUNS: max_age: want 3600000000000, got 2592000000000000; a smaller limit throws stored messages away"},
	} {
		changes, err := c.topology.Apply(ctx, js)
		if !errors.Is(err, ErrRefused) || len(changes) != 0 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v, want refused with %q", name, lines(changes), err, c.want)
		}
	}
	if differences, err := mustTopology(t, nil).Check(ctx, js); err != nil || len(differences) != 0 {
		t.Errorf("after refusals: got %q, %v, want all as before", lines(differences), err)
	}
}

func TestApplyMendsWhatMayBeChanged(t *testing.T) {
	js := emptyServer(t)
	ctx := testContext(t)
	topology := mustTopology(t, func(o *Options) { o.Executors = []string{"shell"} })
	if _, err := topology.Apply(ctx, js); err != nil {
		t.Fatal(err)
	}
	disturb(t, ctx, js)
	differences, err := topology.Check(ctx, js)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"RUNS: allow_direct: want unset, got true",
		"RUNS: max_age: want 2592000000000000, got 60000000000",
		"DISPATCH/executor-shell: ack_wait: want 30000000000, got 5000000000",
	}
	if got := lines(differences); !slices.Equal(got, want) {
		t.Errorf("check: got %q, want %q", got, want)
	}
	changes, err := topology.Apply(ctx, js)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != 2 || changes[0].String() != "RUNS: updated allow_direct from true to unset, max_age from 60000000000 to 2592000000000000" {
		t.Errorf("apply: got %q", lines(changes))
	}
	if differences, err := topology.Check(ctx, js); err != nil || len(differences) != 0 {
		t.Errorf("after: got %q, %v, want no difference", lines(differences), err)
	}
}

// disturb changes settings by hand, as an operator might.
func disturb(t *testing.T, ctx context.Context, js jetstream.JetStream) {
	t.Helper()
	s, err := js.Stream(ctx, StreamRuns)
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	config.AllowDirect, config.MaxAge = true, time.Minute
	if _, err := js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(ctx, StreamDispatch, "executor-shell")
	if err != nil {
		t.Fatal(err)
	}
	settings := consumer.CachedInfo().Config
	settings.AckWait = 5 * time.Second
	if _, err := js.UpdateConsumer(ctx, StreamDispatch, settings); err != nil {
		t.Fatal(err)
	}
}

func TestOptionsNameTheWrongField(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`Prefix: got "a..b"`:      func(o *Options) { o.Prefix = "a..b" },
		`Prefix: got "a.*"`:       func(o *Options) { o.Prefix = "a.*" },
		`Prefix: got "a\"b"`:      func(o *Options) { o.Prefix = `a"b` },
		`Partitions: got 0`:       func(o *Options) { o.Partitions = 0 },
		`Partitions: got 1025`:    func(o *Options) { o.Partitions = 1025 },
		`Replicas: got 2`:         func(o *Options) { o.Replicas = 2 },
		`Executors[1]: got "a.b"`: func(o *Options) { o.Executors = []string{"a", "a.b"} },
		`Storage: got Unknown`:    func(o *Options) { o.Storage = 9 },
	} {
		options := DefaultOptions()
		change(&options)
		if _, err := LoadTopology(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestPrefixAndPartitionsReachEverySubject(t *testing.T) {
	topology := mustTopology(t, func(o *Options) { o.Prefix, o.Partitions = "acme.prod", 7 })
	text := string(mustJSON(t, topology.streams))
	if strings.Contains(text, "harness") || strings.Contains(text, "(16,") {
		t.Errorf("left over from the files: %s", text)
	}
	js := emptyServer(t)
	if _, err := topology.Apply(testContext(t), js); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(testContext(t), "acme.prod.in.agent.a1.r1.run.start", nil); err != nil {
		t.Fatal(err)
	}
	// r1 falls into 4 of 7 by FNV-1a (32 bits) of the run, worked out apart.
	if got := storedSubjects(t, js, StreamIn); len(got) != 1 || got[0] != "acme.prod.part.4.in.agent.a1.r1.run.start" {
		t.Errorf("stored: %q", got)
	}
}

func TestAgesKeepWhatMustOutliveSomethingElse(t *testing.T) {
	topology := mustTopology(t, nil)
	age := map[string]time.Duration{}
	for _, s := range topology.allStreams() {
		age[s.Name] = s.MaxAge
	}
	day := 24 * time.Hour
	want := map[string]time.Duration{
		StreamIn: 30 * day, StreamRuns: 30 * day, StreamTimers: 30 * day, StreamInvalid: 30 * day, StreamDispatch: 2 * day,
		"KV_CLAIMS": 3 * day, "KV_POLICIES": 0, "KV_PARTITIONS": 0,
	}
	if !maps.Equal(age, want) {
		t.Errorf("ages: got %v, want %v", age, want)
	}
	if age["KV_CLAIMS"] <= age[StreamDispatch] {
		t.Error("claims go before the dispatches that they guard: a dispatch delivered again would run again")
	}
}

func TestExecutorTakesItsOwnDispatchesOnly(t *testing.T) {
	_, _, js := withTopology(t, Options{Prefix: "harness.v1", Partitions: 16, Replicas: 1, Executors: []string{"shell"}})
	ctx := testContext(t)
	for _, subject := range []string{"harness.v1.dispatch.web.r1.2", "harness.v1.dispatch.shell.r1.3"} {
		if _, err := js.Publish(ctx, subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	consumer, err := js.Consumer(ctx, StreamDispatch, ExecutorConsumer("shell"))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := consumer.FetchNoWait(10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for msg := range batch.Messages() {
		got = append(got, msg.Subject())
		if err := msg.DoubleAck(ctx); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(got, []string{"harness.v1.dispatch.shell.r1.3"}) {
		t.Errorf("got %q, want only its own", got)
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runledger/internal/stream"
	"runledger/internal/testenv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

// headerExpectFilter names the subjects that a fence looks at.
const headerExpectFilter = "Nats-Expected-Last-Subject-Sequence-Subject"

// smallRecipe is a recipe that can be read.
func smallRecipe() recipe {
	const run, call = "run-0999999", "call-9000000000"
	fact := func(kind, data string) message {
		return message{Subject: "harness.v1.fact.bench." + run + "." + kind, Data: []byte(data), Header: map[string][]string{
			"ce-id": {run + ".2"}, headerExpectLast: {"99"}, headerExpectFilter: {"harness.v1.fact.bench." + run + ".>"},
		}}
	}
	words := func(words ...string) command {
		var c command
		for _, word := range words {
			c = append(c, []byte(word))
		}
		return c
	}
	return recipe{
		Run: run, Call: call, Sequence: 2,
		Start: step{Fact: fact("run.started", `{}`), Writes: []command{words("HSET", "run:{"+run+"}", "phase", "RUNNING")}},
		Reserve: step{
			Fact:     fact("tool.reserved", `{"tool_call_id":"`+call+`"}`),
			Writes:   []command{words("HSET", "{"+run+"}:"+call, "status", "PROJECTING")},
			Dispatch: &message{Subject: "harness.v1.dispatch.bench." + run + ".2", Data: []byte(`{"tool_call_id":"` + call + `"}`), Header: map[string][]string{headerExpectLast: {"0"}}},
		},
		Settle: step{
			Fact:   fact("tool.settled", `{"tool_call_id":"`+call+`","status":"READY"}`),
			Writes: []command{words("RPUSH", "done:{"+run+"}", "2 "+call), words("HSET", "{"+run+"}:"+call, "status", "READY")},
		},
		Lease: message{Subject: "$KV.PARTITIONS.lease.7", Data: []byte(`{"position":9}`), Header: map[string][]string{headerExpectLast: {"7"}}},
	}
}

// floorWorld is a floor at work.
type floorWorld struct {
	t     *testing.T
	nc    *nats.Conn
	js    jetstream.JetStream
	redis *redis.Client
}

func startFloor(t *testing.T, loops int) *floorWorld {
	t.Helper()
	server, store := testenv.StartNATS(t), testenv.StartRedis(t)
	w := &floorWorld{t: t, nc: server.Conn(t), redis: redis.NewClient(&redis.Options{Addr: store.Addr})}
	t.Cleanup(func() { _ = w.redis.Close() })
	var err error
	if w.js, err = jetstream.New(w.nc); err != nil {
		t.Fatal(err)
	}
	topology, err := stream.LoadTopology(stream.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Apply(t.Context(), w.js); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "recipe.json")
	if err := smallRecipe().writeFile(file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- RunFloor(ctx, FloorConfig{URL: server.URL, Redis: store.Addr, Recipe: file, Loops: loops})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("floor: %v", err)
		}
	})
	return w
}

func (w *floorWorld) publish(subject, data string) {
	w.t.Helper()
	if _, err := w.js.Publish(w.t.Context(), subject, []byte(data)); err != nil {
		w.t.Fatal(err)
	}
}

// last waits for a message on a subject of a stream.
func (w *floorWorld) last(name, subject string) *jetstream.RawStreamMsg {
	w.t.Helper()
	s, err := w.js.Stream(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		m, err := s.GetLastMsgForSubject(w.t.Context(), subject)
		if err == nil {
			return m
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) || time.Now().After(deadline) {
			w.t.Fatalf("%s: %v", subject, err)
		}
	}
}

func TestTheFloorStoresWhatWasRecordedForEveryEvent(t *testing.T) {
	for _, loops := range []int{1, 4} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			w := startFloor(t, loops)
			in := "harness.v1.in.agent.bench.run-0000001."
			w.publish(in+"run.start", `{}`)
			// Two calls of one run at once: one after the other, each fenced.
			w.publish(in+"tool.call", `{"tool_call_id":"call-0000000001"}`)
			w.publish(in+"tool.call", `{"tool_call_id":"call-0000000002"}`)
			w.publish("harness.v1.in.executor.bench.run-0000001.tool.result", `{"tool_call_id":"call-0000000001"}`)

			if m := w.last("DISPATCH", "harness.v1.dispatch.bench.run-0000001.2"); string(m.Data) != `{"tool_call_id":"call-0000000001"}` {
				t.Errorf("dispatch 2 is %s", m.Data)
			}
			if m := w.last("DISPATCH", "harness.v1.dispatch.bench.run-0000001.3"); string(m.Data) != `{"tool_call_id":"call-0000000002"}` {
				t.Errorf("dispatch 3 is %s", m.Data)
			}
			settled := w.last("RUNS", "harness.v1.fact.bench.run-0000001.tool.settled")
			if string(settled.Data) != `{"tool_call_id":"call-0000000001","status":"READY"}` || settled.Sequence != 4 ||
				settled.Header.Get(headerExpectLast) != "3" || settled.Header.Get(headerExpectFilter) != "harness.v1.fact.bench.run-0000001.>" {
				t.Errorf("settled is message %d, %v %s", settled.Sequence, settled.Header, settled.Data)
			}
			w.redisHas("run:{run-0000001}", "phase", "RUNNING")
			w.redisHas("{run-0000001}:call-0000000001", "status", "READY")
			w.redisHas("{run-0000001}:call-0000000002", "status", "PROJECTING")
			if done := w.redis.LRange(t.Context(), "done:{run-0000001}", 0, -1).Val(); len(done) != 1 || done[0] != "2 call-0000000001" {
				t.Errorf("done is %q", done)
			}
			stored := w.last(stream.StreamIn, "harness.v1.part.*.in.agent.bench.run-0000001.run.start").Subject
			lease := "$KV.PARTITIONS.lease." + strings.Split(stored, ".")[3]
			if m := w.last("KV_PARTITIONS", lease); string(m.Data) != `{"position":9}` {
				t.Errorf("the position is %s", m.Data)
			}
		})
	}
}

// TestTheFloorMovesAPositionAtMostEvery100Milliseconds has many batches come,
// and then nothing more: the last of them moves the position too.
func TestTheFloorMovesAPositionAtMostEvery100Milliseconds(t *testing.T) {
	w := startFloor(t, 1)
	begin := time.Now()
	for n := range 100 { // each is a batch of its own, or nearly
		w.publish("harness.v1.in.agent.bench.run-0000001.tool.call", fmt.Sprintf(`{"tool_call_id":"call-%010d"}`, n))
		w.last("DISPATCH", fmt.Sprintf("harness.v1.dispatch.bench.run-0000001.%d", n+1))
	}
	w.last("KV_PARTITIONS", "$KV.PARTITIONS.lease.*")
	moves := func() uint64 {
		s, err := w.js.Stream(t.Context(), "KV_PARTITIONS")
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.LastSeq
	}
	before := moves()
	most := uint64(time.Since(begin)/(100*time.Millisecond)) + 1
	if before < 1 || before > most {
		t.Errorf("%d moves for 100 batches, want 1 to %d", before, most)
	}
	w.publish("harness.v1.in.agent.bench.run-0000001.tool.call", `{"tool_call_id":"call-0000000100"}`)
	w.last("DISPATCH", "harness.v1.dispatch.bench.run-0000001.101")
	for deadline := time.Now().Add(10 * time.Second); moves() == before; {
		if time.Now().After(deadline) {
			t.Fatal("the position does not move when nothing more comes")
		}
	}
}

func TestAPositionIsDueFromTheFirstEventThatItDoesNotTell(t *testing.T) {
	p := newPositions(nil)
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	if !p.due().IsZero() || len(p.take(at(0))) > 0 {
		t.Errorf("something is due before anything was done, at %v", p.due())
	}
	p.done(3, at(0))
	p.done(3, at(60)) // does not put it off
	p.done(7, at(40))
	if got := p.due(); !got.Equal(at(100)) {
		t.Errorf("due at %v, want 100 ms after the first", got.Sub(start))
	}
	if got := p.take(at(99)); len(got) > 0 {
		t.Errorf("%v are due after 99 ms", got)
	}
	if got := p.take(at(100)); !slices.Equal(got, []int{3}) {
		t.Errorf("%v are due after 100 ms, want 3", got)
	}
	if got := p.due(); !got.Equal(at(140)) {
		t.Errorf("then due at %v, want 140 ms after the first", got.Sub(start))
	}
	p.done(3, at(150))
	if got := p.take(at(500)); !slices.Equal(got, []int{3, 7}) || !p.due().IsZero() {
		t.Errorf("%v are due in the end, want 3 and 7, and nothing after", got)
	}
}

// redisHas waits for a field.
func (w *floorWorld) redisHas(key, field, want string) {
	w.t.Helper()
	got := ""
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if got = w.redis.HGet(w.t.Context(), key, field).Val(); got == want {
			return
		}
	}
	w.t.Errorf("%s of %s is %q, want %q", field, key, got, want)
}

func TestAFloorWithoutARecipeSaysWhatIsMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "recipe.json")
	if err := (recipe{Run: "r", Call: "c", Sequence: 1}).writeFile(file); err != nil {
		t.Fatal(err)
	}
	if err := RunFloor(t.Context(), FloorConfig{Recipe: file}); err == nil || err.Error() != "recipe: a fact is missing" {
		t.Errorf("got %v", err)
	}
}

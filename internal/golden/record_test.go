package golden

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/processor/processortest"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

var record = flag.String("record", "", "write a recording of this name, such as v2")

// TestRecordingsAreWhole holds that the recordings tell of everything that the
// script below plays; with -record it writes one first.
func TestRecordingsAreWhole(t *testing.T) {
	if *record != "" {
		writeRecording(t, *record, play(t))
	}
	for _, version := range versions(t) {
		kinds := make(map[string]int)
		for _, m := range readRecording(t, version).streams[stream.StreamRuns] {
			kinds[strings.TrimSuffix(strings.TrimPrefix(m.Header.Get("ce-type"), "harness."), ".v1")]++
		}
		want := map[string]int{
			"run.started": 4, "run.rejected": 1, "tool.reserved": 9, "tool.rejected": 5, "tool.settled": 8, "tool.late": 1,
			"model.granted": 3, "model.rejected": 1, "model.recorded": 2, "progress.accepted": 1, "progress.invalid": 1,
			"run.released": 1, "run.ending": 2, "run.progress": 2, "run.terminated": 2,
		}
		for kind, n := range want {
			if kinds[kind] != n {
				t.Errorf("%s: %s: got %d facts, want %d", version, kind, kinds[kind], n)
			}
		}
	}
}

// versions lists the recordings.
func versions(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if version, ok := strings.CutSuffix(e.Name(), ".jsonl.gz"); ok {
			found = append(found, version)
		}
	}
	if !slices.Contains(found, "v1") {
		t.Fatalf("got recordings %v, want v1 among them", found)
	}
	return found
}

// script plays events on real servers, each after the answer to the one before.
type script struct {
	t     *testing.T
	nc    *nats.Conn
	facts *nats.Subscription
	next  int
}

// play serves with this version, plays every kind of event, and gives what
// streams and store hold afterwards: a run that ended, one that was cancelled
// by an operator with a call under way, one that was released, and one that is
// in the middle of its work.
func play(t *testing.T) []recorded {
	rules, err := os.ReadFile("testdata/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	i := processortest.Install(t, rules)
	nc := i.NATS.Conn(t)
	facts, err := nc.SubscribeSync("harness.v1.run.>")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, nc: nc, facts: facts}
	deadline := time.Now().Add(12 * time.Hour).UTC().Format(events.TimeFormat)

	s.agent("alice", "unborn", "tool.call", `{"run_id":"unborn","tool_call_id":"c","tool":"search","arguments":{}}`, "tool.rejected")
	for _, run := range []string{"ended", "cancelled", "released", "open"} {
		s.agent("alice", run, "run.start", fmt.Sprintf(`{"run_id":%q,"session_id":"s/1","deadline":%q,"limits":{"model_calls":9,"tool_calls":9,"calls_per_tool":9,"input_tokens":999,"output_tokens":999,"total_tokens":999,"run_bytes":99999}}`, run, deadline), "run.started")
	}
	s.agent("mallory", "open", "run.start", `{}`, "run.rejected")

	s.reserve("ended", "call_1|fc.a/b+c=~@-", "search", `{"q":"größe","n":1e2}`)
	s.result("ended", "call_1|fc.a/b+c=~@-", 2, `"outcome":"SUCCEEDED","result":{"hits":[{"title":"a","secret":"x"},{"title":"b"},{"title":"c"}],"total":3}`, "tool.settled")
	s.reserve("ended", "none", "search", `{"q":"b"}`)
	s.result("ended", "none", 4, `"outcome":"SUCCEEDED","result":{"hits":[]}`, "tool.settled")
	s.reserve("ended", "failed", "read", `{"p":[1,2,{"x":null}]}`)
	s.result("ended", "failed", 6, `"outcome":"FAILED"`, "tool.settled")
	s.reserve("ended", "slow", "slow", `{}`)
	s.await("tool.settled") // TOOL_TIMEOUT
	s.call("ended", "call_1|fc.a/b+c=~@-", "search", `{"q":"größe","n":1e2}`, "tool.rejected")
	s.call("ended", "e", "erase", `{}`, "tool.rejected")
	s.call("ended", "f", "unknown", `{}`, "tool.rejected")
	s.model("ended", "op-1")
	s.agent("alice", "ended", "progress.report", `{"run_id":"ended","step":1,"claims":[{"text":"found","supports":["call_1|fc.a/b+c=~@-"]},{"text":"none","negative":true,"supports":["none"]}]}`, "progress.accepted")
	s.agent("alice", "ended", "progress.report", `{"run_id":"ended","step":2,"claims":[{"text":"found","supports":["failed"]}]}`, "progress.invalid")
	s.agent("alice", "ended", "run.finish", `{"run_id":"ended","outcome":"SUCCESS"}`, "run.terminated")
	s.result("ended", "slow", 8, `"outcome":"SUCCEEDED","result":1`, "tool.late")
	s.call("ended", "after", "search", `{}`, "tool.rejected")

	s.reserve("cancelled", "a", "read", `{}`)
	s.publish("operator.olga.cancelled.run.cancel", "run.cancel", `{"run_id":"cancelled","reason":"OPERATOR_REQUESTED"}`, "run.terminated")

	for i, id := range []string{"a", "b", "c"} { // the same again and again
		s.reserve("released", id, "read", `{"same":true}`)
		s.result("released", id, uint64(2+2*i), `"outcome":"SUCCEEDED","result":"the same"`, []string{"tool.settled", "tool.settled", "run.released"}[i])
	}

	s.agent("alice", "open", "model.call", `{"run_id":"open","operation":"INTENT_ROUTER","operation_id":"op"}`, "model.granted")
	s.reserve("open", "under_way", "search", `{"q":"still"}`)
	s.publish("agent.alice.open.nothing", "nothing", `{}`, "")
	return append(dumpStreams(t, i.JetStream), dumpStore(t, i.Redis.Addr)...)
}

func (s *script) agent(agent, run, verb, data, answer string) {
	s.publish("agent."+agent+"."+run+"."+verb, verb, data, answer)
}

func (s *script) call(run, id, tool, arguments, answer string) {
	s.agent("alice", run, "tool.call", fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"tool":%q,"arguments":%s}`, run, id, tool, arguments), answer)
}

func (s *script) reserve(run, id, tool, arguments string) {
	s.call(run, id, tool, arguments, "tool.reserved")
}

func (s *script) result(run, id string, call uint64, outcome, answer string) {
	s.publish("executor.desk."+run+".tool.result", "tool.result",
		fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"dispatch_id":"%s.%d",%s}`, run, id, run, call, outcome), answer)
}

// model has an operation fail once, and succeed in its second attempt.
func (s *script) model(run, id string) {
	s.agent("alice", run, "model.call", fmt.Sprintf(`{"run_id":%q,"operation":"INTENT_ROUTER","operation_id":%q}`, run, id), "model.granted")
	s.agent("alice", run, "model.report", fmt.Sprintf(`{"run_id":%q,"operation":"INTENT_ROUTER","operation_id":%q,"attempt":1,"outcome":"FAILED","failure":"TIMEOUT","usage":null}`, run, id), "model.recorded")
	s.agent("alice", run, "model.call", fmt.Sprintf(`{"run_id":%q,"operation":"INTENT_ROUTER","operation_id":%q}`, run, id), "model.granted")
	s.agent("alice", run, "model.report", fmt.Sprintf(`{"run_id":%q,"operation":"INTENT_ROUTER","operation_id":%q,"attempt":2,"outcome":"SUCCEEDED","usage":{"input_tokens":7,"output_tokens":5}}`, run, id), "model.recorded")
	s.agent("alice", run, "model.call", fmt.Sprintf(`{"run_id":%q,"operation":"INTENT_ROUTER","operation_id":%q}`, run, id), "model.rejected")
}

// publish publishes an event and waits for a fact; "" waits for none.
func (s *script) publish(subject, verb, data, answer string) {
	s.t.Helper()
	s.next++
	msg := &nats.Msg{Subject: "harness.v1.in." + subject, Data: []byte(data), Header: nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {fmt.Sprint("e", s.next)}, "ce-source": {"/golden"}, "ce-type": {"harness." + verb + ".v1"},
		"ce-traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}}
	if _, err := s.nc.RequestMsg(msg, 5*time.Second); err != nil {
		s.t.Fatalf("publish %s: %v", subject, err)
	}
	if answer != "" {
		s.await(answer)
	}
}

func (s *script) await(kind string) {
	s.t.Helper()
	for {
		msg, err := s.facts.NextMsg(10 * time.Second)
		if err != nil {
			s.t.Fatalf("wait for %s: %v", kind, err)
		}
		if msg.Header.Get("ce-type") == "harness."+kind+".v1" {
			return
		}
	}
}

// dumpStreams reads every stream that a version must read again, once the dead
// letter, which nobody is told of, is there.
func dumpStreams(t *testing.T, js jetstream.JetStream) []recorded {
	var lines []recorded
	for _, name := range []string{stream.StreamIn, stream.StreamRuns, stream.StreamDispatch, stream.StreamInvalid, streamPolicies} {
		s := filled(t, js, name)
		for sequence := uint64(1); sequence <= s.CachedInfo().State.LastSeq; sequence++ {
			m, err := s.GetMsg(t.Context(), sequence)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, recorded{Stream: name, Subject: m.Subject, Header: m.Header, Data: m.Data, Sequence: m.Sequence, Time: m.Time})
		}
	}
	return lines
}

// filled gives a stream once it holds something.
func filled(t *testing.T, js jetstream.JetStream, name string) jetstream.Stream {
	for deadline := time.Now().Add(10 * time.Second); ; {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if s.CachedInfo().State.Msgs > 0 {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("stream %s stays empty", name)
		}
	}
}

func dumpStore(t *testing.T, addr string) []recorded {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	names, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var lines []recorded
	for _, name := range names {
		line := recorded{Key: name, Expires: client.PExpireTime(t.Context(), name).Val().Milliseconds()}
		switch kind := client.Type(t.Context(), name).Val(); kind {
		case "hash":
			line.Hash = make(map[string][]byte)
			for field, value := range client.HGetAll(t.Context(), name).Val() {
				line.Hash[field] = []byte(value)
			}
		case "list":
			for _, value := range client.LRange(t.Context(), name, 0, -1).Val() {
				line.List = append(line.List, []byte(value))
			}
		default:
			t.Fatalf("key %s: got a %s, want a hash or a list", name, kind)
		}
		lines = append(lines, line)
	}
	return lines
}

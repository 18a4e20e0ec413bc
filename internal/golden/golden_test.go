package golden

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/processor"
	"runledger/internal/store"
	"runledger/internal/stream"
	"runledger/internal/testenv"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// world is a recording with a store and a worker of this version, at the
// instant at which the recording ends.
type world struct {
	t       *testing.T
	streams *streams
	records *store.Store
	worker  *processor.Worker
	next    int
}

// open opens a recording; withStore says whether the store holds what was
// recorded, or nothing.
func open(t *testing.T, version string, withStore bool) *world {
	t.Helper()
	return openRecording(t, readRecording(t, version), withStore)
}

func openRecording(t *testing.T, r recording, withStore bool) *world {
	t.Helper()
	server := testenv.StartMiniredis(t)
	server.SetTime(r.last)
	if withStore {
		restore(t, server.Addr(), r.keys, true)
	}
	w := &world{t: t, streams: &streams{messages: r.streams, now: r.last}, records: openStore(t, server.Addr())}
	raw, err := os.ReadFile("testdata/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	raw = append(raw, "\n# Not the one of the recorded runs: theirs is read from POLICIES.\n"...)
	current, err := policy.Parse("policy.yaml", raw)
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := events.NewSubjects("harness.v1")
	if err != nil {
		t.Fatal(err)
	}
	cfg := processor.DefaultConfig()
	cfg.Subjects, cfg.Publisher, cfg.History, cfg.Store = subjects, w.streams, w.streams, w.records
	cfg.Rulebook = processor.NewRulebook(current, w.streams)
	cfg.Metrics = processor.NewMetrics(prometheus.NewRegistry())
	cfg.Clock = func() time.Time { return w.streams.now }
	if w.worker, err = processor.NewWorker(cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

func openStore(t *testing.T, addr string) *store.Store {
	t.Helper()
	records, err := store.Open(store.Config{Addrs: []string{addr}, AllowColon: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	return records
}

// restore writes keys as they were recorded.
func restore(t *testing.T, addr string, keys []recorded, expiring bool) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	pipe := client.Pipeline()
	for _, k := range keys {
		for field, value := range k.Hash {
			pipe.HSet(t.Context(), k.Key, field, value)
		}
		for _, value := range k.List {
			pipe.RPush(t.Context(), k.Key, value)
		}
		if expiring {
			pipe.PExpireAt(t.Context(), k.Key, time.UnixMilli(k.Expires))
		}
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// send has the worker carry one event, a millisecond later, and gives the facts
// that it led to as "kind detail".
func (w *world) send(subject, verb, data string) []string {
	w.t.Helper()
	w.next++
	w.streams.now = w.streams.now.Add(time.Millisecond)
	msg := &nats.Msg{Subject: "harness.v1.part.0." + subject, Data: []byte(data)}
	if verb != "" {
		msg.Header = nats.Header{
			"ce-specversion": {"1.0"}, "ce-id": {fmt.Sprint("later", w.next)}, "ce-source": {"/golden"}, "ce-type": {"harness." + verb + ".v1"},
		}
	}
	w.streams.add(stream.StreamIn, msg)
	in := w.streams.messages[stream.StreamIn]
	before := len(w.streams.messages[stream.StreamRuns])
	if err := w.worker.Step(context.Background(), in[len(in)-1:]); err != nil {
		w.t.Fatal(err)
	}
	var told []string
	for _, m := range w.streams.messages[stream.StreamRuns][before:] {
		kind := strings.Join(strings.Split(m.Subject, ".")[5:7], ".")
		told = append(told, strings.TrimLeft(m.Header.Get("ce-sequence"), "0")+" "+kind)
	}
	return told
}

var runs = []string{"cancelled", "ended", "open", "released"}

// calls of the recordings that became records, by run.
var calls = map[string][]string{
	"ended": {"call_1|fc.a/b+c=~@-", "none", "failed", "slow"}, "cancelled": {"a"}, "released": {"a", "b", "c"}, "open": {"under_way"},
}

func TestStoreOfEveryVersionIsRead(t *testing.T) {
	for _, version := range versions(t) {
		server := testenv.StartRedis(t)
		restore(t, server.Addr, readRecording(t, version).keys, false)
		records := openStore(t, server.Addr)
		loaded, errs := records.LoadRuns(t.Context(), runs)
		for i, want := range []struct {
			phase    harness.Phase
			outcome  events.Outcome
			sequence uint64
			open     int
		}{
			{harness.PhaseTerminated, events.OutcomeCancelled, 6, 0},
			{harness.PhaseTerminated, events.OutcomeSuccess, 22, 0},
			{harness.PhaseRunning, "", 3, 1},
			{harness.PhaseRunning, "", 8, 0},
		} {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			run := loaded[i]
			if run.Phase != want.phase || run.Termination.Outcome != want.outcome || run.Sequence != want.sequence || len(run.Open) != want.open {
				t.Errorf("%s: run %s: got phase %v, outcome %q, fact %d, %d open calls, want %+v", version, runs[i], run.Phase, run.Termination.Outcome, run.Sequence, len(run.Open), want)
			}
		}
		record, err := records.Record(t.Context(), "ended", calls["ended"][0])
		if err != nil {
			t.Fatal(err)
		}
		for what, pair := range map[string][2]string{
			"request":      {string(record.Request), `{"run_id":"ended","tool_call_id":"call_1|fc.a/b+c=~@-","tool":"search","arguments":{"q":"größe","n":1e2}}`},
			"raw response": {string(record.RawResponse), `{"hits":[{"title":"a","secret":"x"},{"title":"b"},{"title":"c"}],"total":3}`},
			"agent result": {string(record.AgentResult), `{"result":{"hits":[{"title":"a"},{"title":"b"}],"total":3},"left_out":{"items":1,"paths":1}}`},
			"status":       {string(record.Status), "READY"},
			"evidence":     {string(record.Evidence), "EVIDENCE_FOUND"},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %s: got %s, want %s", version, what, pair[0], pair[1])
			}
		}
	}
}

func TestStoreIsMadeAgainFromTheStreamsOfEveryVersion(t *testing.T) {
	for _, version := range versions(t) {
		old, made := open(t, version, true), open(t, version, false)
		for _, run := range runs {
			if told := made.send("tick."+run, "", ""); len(told) > 0 {
				t.Errorf("%s: run %s: got facts %v, want none", version, run, told)
			}
		}
		want, errs := old.records.LoadRuns(t.Context(), runs)
		got, gotErrs := made.records.LoadRuns(t.Context(), runs)
		for i, run := range runs {
			if errs[i] != nil || gotErrs[i] != nil {
				t.Fatal(errs[i], gotErrs[i])
			}
			want[i].TimerAt, got[i].TimerAt = time.Time{}, time.Time{} // not told by any fact
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("%s: run %s: got\n%+v, want\n%+v", version, run, got[i], want[i])
			}
			for _, call := range calls[run] {
				want, err := old.records.Record(t.Context(), run, call)
				if err != nil || want == nil {
					t.Fatalf("%s: %s of %s: %+v, %v", version, call, run, want, err)
				}
				got, err := made.records.Record(t.Context(), run, call)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %s of %s: got\n%+v, want\n%+v", version, call, run, got, want)
				}
			}
		}
	}
}

func TestRunsOfEveryVersionAreContinued(t *testing.T) {
	for _, version := range versions(t) {
		for _, withStore := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, its store kept: %t", version, withStore), func(t *testing.T) {
				w := open(t, version, withStore)
				agent := func(run, verb, data string) []string { return w.send("in.agent.alice."+run+"."+verb, verb, data) }
				for _, step := range []struct {
					name string
					got  []string
					want string
				}{
					{"the open call is settled", w.send("in.executor.desk.open.tool.result", "tool.result", `{"run_id":"open","tool_call_id":"under_way","dispatch_id":"open.3","outcome":"SUCCEEDED","result":{"hits":[{"title":"z"}]}}`), "4 tool.settled"},
					{"its id is used up", agent("open", "tool.call", `{"run_id":"open","tool_call_id":"under_way","tool":"search","arguments":{"q":"still"}}`), "5 tool.rejected"},
					{"another call is reserved", agent("open", "tool.call", `{"run_id":"open","tool_call_id":"next","tool":"read","arguments":{}}`), "6 tool.reserved"},
					{"the attempt under way is reported", agent("open", "model.report", `{"run_id":"open","operation":"INTENT_ROUTER","operation_id":"op","attempt":1,"outcome":"SUCCEEDED","usage":null}`), "7 model.recorded"},
					{"what was settled supports a claim", agent("open", "progress.report", `{"run_id":"open","step":1,"claims":[{"text":"z","supports":["under_way"]}]}`), "8 progress.accepted"},
					{"the run ends", agent("open", "run.finish", `{"run_id":"open","outcome":"SUCCESS"}`), "9 run.ending, 10 tool.settled, 11 run.progress, 12 run.terminated"},
					{"the released run stays so", agent("released", "tool.call", `{"run_id":"released","tool_call_id":"d","tool":"read","arguments":{}}`), "9 tool.rejected"},
					{"and may finish with what it has", agent("released", "run.finish", `{"run_id":"released","outcome":"SUCCESS"}`), "10 run.ending, 11 run.progress, 12 run.terminated"},
					{"the ended run stays ended", agent("ended", "tool.call", `{"run_id":"ended","tool_call_id":"new","tool":"read","arguments":{}}`), " tool.rejected"},
					{"a run that was refused may begin", agent("unborn", "run.start", fmt.Sprintf(
						`{"run_id":"unborn","session_id":"s","deadline":%q,"limits":{"model_calls":9,"tool_calls":9,"calls_per_tool":9,"input_tokens":999,"output_tokens":999,"total_tokens":999,"run_bytes":99999}}`,
						w.streams.now.Add(time.Hour).Format(events.TimeFormat))), "1 run.started"},
				} {
					if got := strings.Join(step.got, ", "); got != step.want {
						t.Errorf("%s: got %q, want %q", step.name, got, step.want)
					}
				}
				dispatches := w.streams.messages[stream.StreamDispatch]
				if got := dispatches[len(dispatches)-1]; got.Subject != "harness.v1.dispatch.desk.open.6" || !bytes.Contains(got.Data, []byte(`"tool_call_id":"next"`)) {
					t.Errorf("got dispatch %s, want that of the new call", got.Subject)
				}
			})
		}
	}
}

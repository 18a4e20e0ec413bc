package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/testenv"

	"github.com/nats-io/nats.go/jetstream"
)

// canary stands in everything secret that an agent or executor sends.
const canary = "CANARY-7f3a9c"

// tellingPolicy has a tool for each way in which a call can end.
const tellingPolicy = `version: 1
tools:
  - {name: good, executor: ex, read_only: true, timeout: 30s, input_schema: {type: object, properties: {n: {type: integer}}}, projector: {name: json, keep: [ok]}}
  - {name: slow, executor: ex, read_only: true, timeout: 1s, projector: {name: json}}
  - {name: write, executor: ex, read_only: false, timeout: 30s, projector: {name: json}}
  - {name: secret, executor: ex, read_only: true, timeout: 30s, projector: {name: json}}
grants: [{agent: me, tools: [good, slow, write]}]
ceilings: {model_calls: 10, tool_calls: 10, calls_per_tool: 10, input_tokens: 10, output_tokens: 10, total_tokens: 10, run_bytes: 1MiB}
bytes: {request: 2KiB, raw_response: 2KiB, record: 4KiB, agent_result: 1KiB}
longest_run: 10m
ttl: 10m
progress: {max_repairs: 1, max_repeats: 5, grace: 30s}
`

const goodLimits = `{"model_calls":5,"tool_calls":9,"calls_per_tool":9,"input_tokens":9,"output_tokens":9,"total_tokens":9,"run_bytes":99999}`

// teller drives a case to the fact that must tell a code.
type teller struct {
	*hand
	t    *testing.T
	runs int
}

func (d *teller) run() string {
	d.runs++
	run := "r" + strconv.Itoa(d.runs)
	d.hand.start(d.t, run, time.Minute)
	return run
}

func (d *teller) intent(run, verb, data string) {
	d.publish(d.t, "agent.me."+run+"."+verb, "harness."+verb+".v1", data)
}

func (d *teller) call(run, id, tool, arguments string) {
	d.intent(run, "tool.call", fmt.Sprintf(`{"run_id":%q,"tool_call_id":%q,"tool":%q,"arguments":%s}`, run, id, tool, arguments))
}

// answer reserves a call and answers it.
func (d *teller) answer(run, tool, outcome string) {
	d.call(run, "c-"+canary, tool, `{"n":1,"note":"`+canary+`"}`)
	sequence, err := strconv.ParseUint(d.await(d.t, "tool.reserved").sequence, 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	d.publish(d.t, "executor.ex."+run+".tool.result", "harness.tool.result.v1", fmt.Sprintf(
		`{"run_id":%q,"tool_call_id":%q,"dispatch_id":"%s.%d",%s}`, run, "c-"+canary, run, sequence, outcome))
}

func (d *teller) start(run, deadline, limits, session string) {
	d.intent(run, "run.start", fmt.Sprintf(`{"run_id":%q,"session_id":%q,"deadline":%q,"limits":%s}`, run, session, deadline, limits))
}

func soon() string { return time.Now().Add(time.Minute).UTC().Format(time.RFC3339) }

// told is one code, how it comes about, and the fact that tells it.
type told struct {
	code events.Code
	fact string
	make func(d *teller)
}

func everyCode() []told {
	note := `{"note":"` + canary + `"}`
	limits := func(calls string) string {
		return strings.Replace(goodLimits, `"tool_calls":9`, `"tool_calls":`+calls, 1)
	}
	return []told{
		{events.CodeInvalidEnvelope, "tool.rejected", func(d *teller) { d.intent(d.run(), "tool.call", `{"surprise":"`+canary+`"}`) }},
		{events.CodeInvalidToolCallID, "tool.rejected", func(d *teller) { d.call(d.run(), "a b "+canary, "good", note) }},
		{events.CodeRunMismatch, "tool.rejected", func(d *teller) {
			d.intent(d.run(), "tool.call", `{"run_id":"other","tool_call_id":"c","tool":"good","arguments":{}}`)
		}},
		{events.CodeRunNotFound, "tool.rejected", func(d *teller) { d.call("nowhere", "c", "good", note) }},
		{events.CodeRunNotOwned, "tool.rejected", func(d *teller) {
			d.publish(d.t, "agent.other.theirs.run.start", "harness.run.start.v1",
				fmt.Sprintf(`{"run_id":"theirs","session_id":"s","deadline":%q,"limits":%s}`, soon(), goodLimits))
			d.call("theirs", "c", "good", note)
		}},
		{events.CodeInvalidInput, "tool.rejected", func(d *teller) { d.call(d.run(), "c", "good", `{"n":"`+canary+`"}`) }},
		{events.CodeRequestTooLarge, "tool.rejected", func(d *teller) {
			d.call(d.run(), "c", "good", `{"note":"`+strings.Repeat(canary, 200)+`"}`)
		}},
		{events.CodeToolNotFound, "tool.rejected", func(d *teller) { d.call(d.run(), "c", "unheard", note) }},
		{events.CodeUnauthorized, "tool.rejected", func(d *teller) { d.call(d.run(), "c", "secret", note) }},
		{events.CodeNotReadOnly, "tool.rejected", func(d *teller) { d.call(d.run(), "c", "write", note) }},
		{events.CodeDuplicateToolCall, "tool.rejected", func(d *teller) {
			run := d.run()
			d.call(run, "c", "good", `{}`)
			d.call(run, "c", "good", note)
		}},
		{events.CodeBudgetExhausted, "tool.rejected", func(d *teller) {
			d.start("tight", soon(), limits("1"), "s")
			d.call("tight", "c1", "good", `{}`)
			d.call("tight", "c2", "good", note)
		}},
		{events.CodeRunNotActive, "tool.rejected", func(d *teller) {
			run := d.run()
			d.intent(run, "run.finish", fmt.Sprintf(`{"run_id":%q,"outcome":"SUCCESS"}`, run))
			d.call(run, "c", "good", note)
		}},
		{events.CodeDeadlineExceeded, "tool.rejected", func(d *teller) {
			d.hand.start(d.t, "brief", 300*time.Millisecond)
			d.await(d.t, "run.terminated")
			d.call("brief", "c", "good", note)
		}},
		{events.CodeRunReleased, "tool.rejected", func(d *teller) {
			run := d.run()
			for range 2 {
				d.intent(run, "progress.report", fmt.Sprintf(`{"run_id":%q,"step":7,"claims":[{"text":%q,"supports":["x"]}]}`, run, canary))
			}
			d.call(run, "c", "good", note)
		}},
		{events.CodeRetryNotAllowed, "model.rejected", func(d *teller) {
			run := d.run()
			for range 2 {
				d.intent(run, "model.call", fmt.Sprintf(`{"run_id":%q,"operation":"DIAGNOSIS_AGENT","operation_id":"o"}`, run))
			}
		}},
		{events.CodeAttemptNotOpen, "model.rejected", func(d *teller) {
			run := d.run()
			d.intent(run, "model.report", fmt.Sprintf(
				`{"run_id":%q,"operation":"DIAGNOSIS_AGENT","operation_id":"o","attempt":1,"outcome":"SUCCEEDED","usage":null}`, run))
		}},
		{events.CodeRunExists, "run.rejected", func(d *teller) { d.start(d.run(), soon(), goodLimits, canary) }},
		{events.CodeInvalidIdentity, "run.rejected", func(d *teller) { d.start("blank", soon(), goodLimits, " ") }},
		{events.CodeInvalidLimits, "run.rejected", func(d *teller) { d.start("none", soon(), limits("0"), canary) }},
		{events.CodeInvalidDeadline, "run.rejected", func(d *teller) { d.start("past", "2020-01-01T00:00:00Z", goodLimits, canary) }},
		{events.CodeToolExecutionFailed, "tool.settled", func(d *teller) {
			d.answer(d.run(), "good", `"outcome":"FAILED","result":"password `+canary+`"`)
		}},
		{events.CodeToolTimeout, "tool.settled", func(d *teller) { d.call(d.run(), "c", "slow", note) }},
		{events.CodeResultTooLarge, "tool.settled", func(d *teller) {
			d.answer(d.run(), "good", `"outcome":"SUCCEEDED","result":"`+strings.Repeat(canary, 200)+`"`)
		}},
		{events.CodeProjectionFailed, "tool.settled", func(d *teller) {
			d.answer(d.run(), "good", `"outcome":"SUCCEEDED","result":{"`+canary+`":1}`)
		}},
		{events.CodeRunTerminated, "tool.settled", func(d *teller) {
			run := d.run()
			d.call(run, "c", "good", note)
			d.intent(run, "run.cancel", fmt.Sprintf(`{"run_id":%q,"reason":"USER_REQUESTED"}`, run))
		}},
		{events.CodeInternal, "run.rejected", func(d *teller) { d.start("taken", soon(), goodLimits, canary) }},
	}
}

// TestEveryCodeIsToldWithItsSentenceAlone drives every code of the closed set
// through the whole, and requires that its fact has the fixed sentence and
// nothing of what was sent.
func TestEveryCodeIsToldWithItsSentenceAlone(t *testing.T) {
	w := newWorld(t, []byte(tellingPolicy))
	w.serve(t, "one")
	if err := redisClient(t, w).Set(t.Context(), "runledger.run:{taken}", "another's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	seen := make(map[events.Code]bool)
	d := &teller{hand: newHand(t, w), t: t}
	for _, c := range everyCode() {
		c.make(d)
		fact := d.await(t, c.fact)
		for fact.data["code"] != string(c.code) {
			fact = d.await(t, c.fact)
		}
		if fact.data["message"] != c.code.Message() {
			t.Errorf("%s: got the sentence %q, want %q", c.code, fact.data["message"], c.code.Message())
		}
		if size := len(fact.raw); size > 1024 {
			t.Errorf("%s: the fact has %d bytes, want at most 1024", c.code, size)
		}
		seen[c.code] = true
	}
	if got, want := slices.Sorted(maps.Keys(seen)), slices.Sorted(slices.Values(events.Codes())); !slices.Equal(got, want) {
		t.Errorf("driven: %v\nwant all: %v", got, want)
	}
}

// TestNoSecretOfARequestOrResultIsTold puts a canary into requests, raw results,
// failures and malformed events, and looks for it in every fact, in the log at
// its most talkative, and in the metrics.
func TestNoSecretOfARequestOrResultIsTold(t *testing.T) {
	w := newWorld(t, []byte(tellingPolicy))
	listen := testenv.FreeAddress(t)
	p := w.serve(t, "one", "--log-level", "debug", "--listen", listen)
	if err := redisClient(t, w).Set(t.Context(), "runledger.run:{taken}", canary, 0).Err(); err != nil {
		t.Fatal(err)
	}
	d := &teller{hand: newHand(t, w), t: t}
	for _, c := range everyCode() {
		if c.code == events.CodeInvalidToolCallID {
			continue // ids are names, and told where they have the form of one
		}
		c.make(d)
		for d.await(t, c.fact).data["code"] != string(c.code) {
		}
	}
	d.answer(d.run(), "good", `"outcome":"SUCCEEDED","result":{"ok":1,"hidden":"`+canary+`"}`)
	if settled := d.await(t, "tool.settled"); settled.data["status"] != "READY" {
		t.Fatalf("got %v, want READY", settled.data)
	}
	if err := d.nc.Publish("harness.v1.in.agent.me.r1.tool.call", []byte(canary)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the dead letter", func() bool {
		info, err := streamInfo(t.Context(), w.js, "INVALID")
		return err == nil && info.State.LastSeq > 1
	})
	secret := []byte(canary)
	for _, fact := range allFacts(t, w.js) {
		data := bytes.ReplaceAll(fact.Data(), []byte("c-"+canary), []byte("c-id"))
		if bytes.Contains(data, secret) || strings.Contains(fmt.Sprint(fact.Headers()), canary) {
			t.Errorf("%s tells it: %v %s", fact.Subject(), fact.Headers(), fact.Data())
		}
	}
	if tail := p.LogTail(1 << 20); strings.Contains(tail, canary) {
		t.Errorf("the log tells it:\n%s", tail)
	}
	if page := get(t, "http://"+listen+"/metrics"); strings.Contains(page, canary) {
		t.Error("the metrics tell it")
	}
}

func streamInfo(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.Info(ctx)
}

// allFacts reads RUNS from its first message to its last.
func allFacts(t *testing.T, js jetstream.JetStream) []jetstream.Msg {
	t.Helper()
	info, err := streamInfo(t.Context(), js, "RUNS")
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.OrderedConsumer(t.Context(), "RUNS", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var all []jetstream.Msg
	for uint64(len(all)) < info.State.Msgs {
		msg, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, msg)
	}
	return all
}

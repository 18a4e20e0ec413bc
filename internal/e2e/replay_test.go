package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runledger/internal/demo"
	"runledger/internal/policy"
	"runledger/internal/stream"
	"runledger/internal/testenv"

	"github.com/redis/go-redis/v9"
)

// replay runs a command of "processor replay", and gives its output and its exit
// status.
func (w *world) replay(t *testing.T, args ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args = append([]string{"replay", args[0], "--nats-url", w.nats.URL}, args[1:]...)
	if args[1] != "facts" {
		args = append(args, "--redis-addresses", w.redis.Addr)
	}
	text, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("processor %v: %v\n%s", args, err, text)
	}
	if exit != nil {
		status = exit.ExitCode()
	}
	return string(text), status
}

// play plays the first of the recorded runs.
func (w *world) play(t *testing.T, runs int, suffix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := demo.Play(ctx, demo.PlayConfig{Conn: w.nats.Conn(t), Transcripts: recorded(t)[:runs], Suffix: suffix}); err != nil {
		t.Fatal(err)
	}
}

// dump is every key of Redis with its content and when it expires.
func dump(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	ctx := t.Context()
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string, len(keys))
	for _, key := range keys {
		expires := client.PExpireTime(ctx, key).Val().Milliseconds()
		switch kind := client.Type(ctx, key).Val(); kind {
		case "hash":
			all[key] = fmt.Sprintf("%d %q", expires, client.HGetAll(ctx, key).Val()) // maps are printed in order
		case "list":
			all[key] = fmt.Sprintf("%d %q", expires, client.LRange(ctx, key, 0, -1).Val())
		default:
			t.Fatalf("key %q is a %s, which is none of ours", key, kind)
		}
	}
	return all
}

func wantSameDump(t *testing.T, got, want map[string]string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			t.Errorf("key %q: got\n%.2000s\nwant\n%.2000s", key, got[key], want[key])
		}
	}
	for key := range got {
		if _, wanted := want[key]; !wanted {
			t.Errorf("key %q was not there before", key)
		}
	}
}

// withOpenRun plays recorded runs and leaves one run open: with a settled call,
// one in work, and a model operation.
func withOpenRun(t *testing.T, w *world) *hand {
	t.Helper()
	w.play(t, 12, "")
	h := newHand(t, w)
	h.start(t, "open", 10*time.Minute)
	for _, call := range []string{"c1", "c2"} {
		h.publish(t, "agent.me.open.tool.call", "harness.tool.call.v1",
			`{"run_id":"open","tool_call_id":"`+call+`","tool":"calculate","arguments":{"expression":"1 + 1"}}`)
		h.await(t, "tool.reserved")
	}
	h.publish(t, "executor.airline.open.tool.result", "harness.tool.result.v1",
		`{"run_id":"open","tool_call_id":"c1","dispatch_id":"open.2","outcome":"SUCCEEDED","result":"2.0"}`)
	h.await(t, "tool.settled")
	h.publish(t, "agent.me.open.model.call", "harness.model.call.v1", `{"run_id":"open","operation":"INTENT_ROUTER","operation_id":"o"}`)
	h.await(t, "model.granted")
	eventually(t, "all of it in Redis", func() bool {
		out, _ := w.replay(t, "verify", "--store", "always")
		return strings.Contains(out, "Redis        13 last facts the same") && !strings.Contains(out, "NOT_DECIDED_YET")
	})
	return h
}

func TestReplayVerifyFindsNothingInWhatWasDecidedAndNamesWhatWasRemoved(t *testing.T) {
	w := newWorld(t, policy.Airline())
	allowDeletes(t, w)
	w.serve(t, "one")
	withOpenRun(t, w)
	out, status := w.replay(t, "verify", "--store", "always")
	if status != 0 || !strings.HasSuffix(out, "all checked\n") {
		t.Fatalf("exit status %d, and it says\n%s\nwant no difference", status, out)
	}
	if !strings.Contains(out, "13 last facts the same") {
		t.Errorf("it says\n%s\nwant 13 last facts of runs compared with Redis", out)
	}
	if out, status := w.replay(t, "verify", "--run", "open", "--json"); status != 0 || !strings.Contains(out, `"facts":5,"checked":5`) {
		t.Errorf("exit status %d, and it says\n%s\nwant the 5 facts of the run open", status, out)
	}

	runs, err := w.js.Stream(t.Context(), stream.StreamRuns)
	if err != nil {
		t.Fatal(err)
	}
	settled, err := runs.GetLastMsgForSubject(t.Context(), "harness.v1.fact.me.open.tool.settled")
	if err != nil {
		t.Fatal(err)
	}
	if err := runs.SecureDeleteMsg(t.Context(), settled.Sequence); err != nil {
		t.Fatal(err)
	}
	out, status = w.replay(t, "verify")
	if status != 1 || !strings.Contains(out, "MISSING  run open, fact 4, RUNS ") || !strings.Contains(out, "GAP: RUNS does not have the message ") ||
		!strings.Contains(out, "processor: differences: 2\n") {
		t.Errorf("exit status %d, and it says\n%s\nwant fact 4 of run open named as missing, the gap in RUNS, and nothing else", status, out)
	}

	granted, err := runs.GetLastMsgForSubject(t.Context(), "harness.v1.fact.demo.*.run.terminated")
	if err != nil {
		t.Fatal(err)
	}
	if err := runs.SecureDeleteMsg(t.Context(), granted.Sequence); err != nil {
		t.Fatal(err)
	}
	run := strings.Split(granted.Subject, ".")[4]
	out, status = w.replay(t, "verify", "--run", run)
	for _, want := range []string{
		"CUT_OFF  run " + run + ", fact ", "(run.terminated)", "STORE  run " + run, "its end was cut off", "differences: 2",
	} {
		if status != 1 || !strings.Contains(out, want) {
			t.Errorf("exit status %d, and it says\n%s\nwant %q", status, out, want)
		}
	}
}

// TestReplayVerifyFindsNothingAfterKillsHaltsAndFlushes makes two owners of one
// partition, and histories that others went on with.
func TestReplayVerifyFindsNothingAfterKillsHaltsAndFlushes(t *testing.T) {
	w := newWorld(t, policy.Airline())
	client := redisClient(t, w)
	processors := []*testenv.Processor{w.serve(t, "one"), w.serve(t, "two")}
	awaitServing(t, processors[1])
	times := 0
	playWhile(t, w, 300*time.Millisecond, func() {
		times++
		p := processors[times%2]
		switch times % 3 {
		case 0:
			_ = p.Kill()
			again, err := w.start(t, []string{"one", "two"}[times%2])
			if err != nil {
				t.Error(err)
				return
			}
			processors[times%2] = again
		case 1:
			if err := p.Pause(); err != nil {
				t.Error(err)
			}
			time.AfterFunc(4*time.Second, func() { _ = p.Resume() }) // longer than its lease; it may be gone
		default:
			client.FlushAll(t.Context())
		}
	})
	for _, p := range processors {
		_ = p.Resume()
	}
	eventually(t, "all decided", func() bool {
		out, _ := w.replay(t, "verify")
		return !strings.Contains(out, "NOT_DECIDED_YET")
	})
	if out, status := w.replay(t, "verify", "--store", "always"); status != 0 || strings.Contains(out, "not checked") {
		t.Errorf("exit status %d, and it says\n%s\nwant everything checked, and no difference", status, out)
	}
}

func TestReplayVerifyShowsWhatAnotherPolicyWouldDo(t *testing.T) {
	w := newWorld(t, policy.Airline())
	w.serve(t, "one")
	w.play(t, 4, "")
	other := filepath.Join(w.dir, "other.yaml")
	text := strings.Replace(string(policy.Airline()), "  tool_calls: 1000", "  tool_calls: 5", 1)
	if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, status := w.replay(t, "verify", "--policy", w.rules)
	if status != 0 || strings.Contains(out, "+") || strings.Count(out, "  =\n") != 9 {
		t.Errorf("exit status %d, and it says\n%s\nwant no difference under the same policy", status, out)
	}
	out, status = w.replay(t, "verify", "--policy", other, "--json")
	if status != 0 || !strings.Contains(out, `{"what":"start","code":"INVALID_LIMITS","recorded":0,"would_be":4}`) {
		t.Errorf("exit status %d, and it says\n%s\nwant the 4 starts refused for their limits", status, out)
	}
}

// allowDeletes makes RUNS anew, so that a test can do what its settings forbid.
func allowDeletes(t *testing.T, w *world) {
	t.Helper()
	runs, err := w.js.Stream(t.Context(), stream.StreamRuns)
	if err != nil {
		t.Fatal(err)
	}
	config := runs.CachedInfo().Config
	config.DenyDelete = false
	if err := w.js.DeleteStream(t.Context(), stream.StreamRuns); err != nil {
		t.Fatal(err)
	}
	if _, err := w.js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// patient is the policy of the recorded runs with a timeout that no test
// reaches, so that the schedule of a call still stands when it is looked for.
func patient(t *testing.T) []byte {
	t.Helper()
	text := strings.ReplaceAll(string(policy.Airline()), "timeout: 10s", "timeout: 9m")
	if !strings.Contains(text, "timeout: 9m") {
		t.Fatal("the policy has no timeout of 10s any more")
	}
	return []byte(text)
}

func TestReplayRebuildWritesRedisAsItWas(t *testing.T) {
	w := newWorld(t, patient(t))
	p := w.serve(t, "one")
	withOpenRun(t, w)
	if err := p.Terminate(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	client := redisClient(t, w)
	before := dump(t, client)
	for _, args := range [][]string{{"rebuild"}, {"rebuild", "--since", "1h"}, {"rebuild", "--json"}} {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if out, status := w.replay(t, args...); status != 0 || !strings.Contains(out, "13") {
			t.Fatalf("%v: exit status %d, and it says\n%s\nwant 13 runs written", args, status, out)
		}
		wantSameDump(t, dump(t, client), before)
	}
	if out, status := w.replay(t, "rebuild"); status != 0 { // once more, over what stands
		t.Fatalf("exit status %d, and it says\n%s", status, out)
	}
	wantSameDump(t, dump(t, client), before)
	if err := client.Del(t.Context(), "runledger:{open}:c1", "runledger.ops:{open}").Err(); err != nil {
		t.Fatal(err)
	}
	if out, status := w.replay(t, "rebuild", "--run", "open"); status != 0 {
		t.Fatalf("exit status %d, and it says\n%s", status, out)
	}
	wantSameDump(t, dump(t, client), before)
}

// TestRunsAreHealedWithTheirCompleteBytesAndFirstExpiryWhenTheyAreTouched flushes
// Redis under a serving processor, and touches a run that has ended and one that
// is open.
func TestRunsAreHealedWithTheirCompleteBytesAndFirstExpiryWhenTheyAreTouched(t *testing.T) {
	w := newWorld(t, patient(t))
	first := w.serve(t, "one")
	h := withOpenRun(t, w)
	ended := demoRun(t, w)
	client := redisClient(t, w)
	if err := first.Terminate(10 * time.Second); err != nil { // the next one holds nothing in memory
		t.Fatal(err)
	}
	before := of(dump(t, client), "{open}", "{"+ended+"}")
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	w.serve(t, "two")
	// Neither changes its run: one is another agent's, the other comes after the end.
	h.publish(t, "agent.me.open.tool.call", "harness.tool.call.v1",
		`{"run_id":"other","tool_call_id":"c3","tool":"calculate","arguments":{}}`)
	h.publish(t, "agent.me."+ended+".run.finish", "harness.run.finish.v1", `{"run_id":"`+ended+`","outcome":"SUCCESS"}`)
	h.await(t, "run.rejected")
	eventually(t, "the runs in the store", func() bool {
		return client.HGet(t.Context(), "runledger.run:{open}", "sequence").Val() == "6" && client.Exists(t.Context(), "runledger.run:{"+ended+"}").Val() == 1
	})
	after := of(dump(t, client), "{open}", "{"+ended+"}")
	for _, key := range []string{"runledger.run:{open}", "runledger.run:{" + ended + "}"} {
		// The refusal is the sixth fact of the open run; and the schedule of a run
		// is found to stand, or set again.
		delete(before, key)
		delete(after, key)
	}
	if len(before) < 6 {
		t.Fatalf("%d keys to compare, want records and lists of both runs", len(before))
	}
	wantSameDump(t, after, before)
}

// demoRun gives a recorded run that has ended, with calls.
func demoRun(t *testing.T, w *world) string {
	t.Helper()
	runs, err := w.js.Stream(t.Context(), stream.StreamRuns)
	if err != nil {
		t.Fatal(err)
	}
	settled, err := runs.GetLastMsgForSubject(t.Context(), "harness.v1.fact.demo.*.tool.settled")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(settled.Subject, ".")[4]
}

// of keeps the keys of some runs.
func of(all map[string]string, tags ...string) map[string]string {
	kept := make(map[string]string)
	for key, value := range all {
		if slices.ContainsFunc(tags, func(tag string) bool { return strings.Contains(key, tag) }) {
			kept[key] = value
		}
	}
	return kept
}

func TestReplayFactsShowsOldOnesAndThenNewOnesAcrossARestartOfTheServer(t *testing.T) {
	w := newWorld(t, policy.Airline())
	w.serve(t, "one")
	w.play(t, 2, "")
	follow := exec.CommandContext(t.Context(), program, "replay", "facts", "--nats-url", w.nats.URL, "--follow")
	pipe, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = follow.Process.Kill(); _ = follow.Wait() }()
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 4<<20)
	var sequence uint64
	ended := 0
	readUntilEnded := func(want int) {
		t.Helper()
		for ended < want && lines.Scan() {
			var event struct {
				SpecVersion, ID, Source, Type string
				StreamSequence                uint64
				Data                          map[string]any
			}
			if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
				t.Fatalf("%v: %s", err, lines.Bytes())
			}
			if event.SpecVersion != "1.0" || event.ID == "" || event.Source == "" || len(event.Data) == 0 {
				t.Fatalf("got %s, want a whole CloudEvent", lines.Bytes())
			}
			if sequence++; event.StreamSequence != sequence {
				t.Fatalf("got fact %d of RUNS, want %d: none left out, and none twice", event.StreamSequence, sequence)
			}
			if event.Type == "harness.run.terminated.v1" {
				ended++
			}
		}
		if ended < want {
			t.Fatalf("the facts end with %d of %d runs ended: %v", ended, want, lines.Err())
		}
	}
	readUntilEnded(2)
	w.play(t, 1, "live")
	readUntilEnded(3)
	w.nats.Restart()
	w.play(t, 1, "later")
	readUntilEnded(4)

	out, status := w.replay(t, "facts", "--agent", "demo", "--run", "tau-airline-0-0-live", "--json")
	facts := strings.Split(strings.TrimSpace(out), "\n")
	if status != 0 || len(facts) < 3 || !strings.Contains(facts[0], "run.started") || !strings.Contains(facts[len(facts)-1], "run.terminated") {
		t.Errorf("exit status %d, and it says\n%s\nwant the facts of one run", status, out)
	}
	if out, status := w.replay(t, "facts", "--since", "2100-01-01T00:00:00Z"); status != 0 || out != "no such facts\n" {
		t.Errorf("exit status %d, and it says %q, want that there are none", status, out)
	}
}

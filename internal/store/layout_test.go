package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
	"runledger/internal/testenv"

	"github.com/google/go-cmp/cmp"
)

func TestKeysAndFieldsAreThoseOfTheLayout(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		at := base()
		ms := func(d time.Duration) string { return strconv.FormatInt(at.Add(d).UnixMilli(), 10) }
		must(t, project(t, s, whole("r", 3, at)))
		keys := raw.Keys(t.Context(), "*").Val()
		slices.Sort(keys)
		if diff := cmp.Diff([]string{"runledger.done:{r}", "runledger.ops:{r}", "runledger.run:{r}", "runledger:{r}:a"}, keys); diff != "" {
			t.Fatalf("keys (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"2 a"}, raw.LRange(t.Context(), keys[0], 0, -1).Val()); diff != "" {
			t.Errorf("completed calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{" a": "2"}, raw.HGetAll(t.Context(), keys[1]).Val()); diff != "" {
			t.Errorf("used ids (-want +got):\n%s", diff)
		}
		run := map[string]string{
			"v": "1", "run": "r", "session": "session", "agent": "agent", "policy": "sha256:policy",
			"started_at": ms(0), "deadline": ms(time.Minute), "expires_at": ms(time.Hour),
			"start.source": "/agents/agent", "start.id": "start", "start.sequence": "1", "start.decision": "1",
			"sequence": "3", "stream": "13", "digest": "sha256:3", "at": ms(0), "inbound": "3", "phase": "RUNNING",
			"used.tool_calls": "1", "used.tool:tool": "1", "used.run_bytes": "7", "calls.READY": "1", "done": "1", "ops": "1",
		}
		if diff := cmp.Diff(run, raw.HGetAll(t.Context(), keys[2]).Val()); diff != "" {
			t.Errorf("run (-want +got):\n%s", diff)
		}
		record := map[string]string{
			"v": "1", "run": "r", "id": "a", "call": "2", "tool": "tool", "executor": "executor", "status": "READY",
			"reserved_at": ms(0), "deadline": ms(time.Second), "expires_at": ms(time.Hour), "settled_at": ms(0),
			"request_bytes": "7", "request_digest": "sha256:request", "arguments_digest": "sha256:arguments",
			"cause.source": "/agents/agent", "cause.id": "intent", "cause.sequence": "2", "cause.decision": "1",
			"evidence": "EVIDENCE_FOUND", "raw_bytes": "3", "raw_digest": "sha256:raw", "raw_stored": "1",
			"result_cause.source": "/executors/executor", "result_cause.id": "result", "result_cause.sequence": "3", "result_cause.decision": "1",
			"request": "request", "raw_response": "raw", "agent_result": "result",
		}
		if diff := cmp.Diff(record, raw.HGetAll(t.Context(), keys[3]).Val()); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
	})
}

func TestAnOpenCallIsAFieldOfItsRun(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		at := base()
		must(t, project(t, s, whole("r", 2, at)))
		ms := at.UnixMilli()
		want := fmt.Sprintf(`{"run":"r","id":"a","call":"2","tool":"tool","executor":"executor","reserved_at":"%d","deadline":"%d",`+
			`"expires_at":"%d","request_bytes":"7","request_digest":"sha256:request","arguments_digest":"sha256:arguments",`+
			`"cause.id":"intent","cause.source":"/agents/agent","cause.sequence":"2","cause.decision":"1","status":"PROJECTING"}`,
			ms, ms+1000, ms+3_600_000)
		if got := raw.HGet(t.Context(), "runledger.run:{r}", "open:2").Val(); got != want {
			t.Errorf("open:2 is %s\nwant      %s", got, want)
		}
	})
}

func TestModelOperationsAreTextUnderOneKeyThatTheRunCounts(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		at := base()
		guard := &harness.ModelOperation{
			ID: "op:2", Operation: events.OperationSemanticGuard, Attempts: 1, Failure: events.FailureTimeout,
			Reported: events.Cause{
				Source: "/agents/a b", ID: "\"☃\"", Sequence: 9, Decision: true,
				Trace: events.Trace{Parent: "00-trace-span-01", State: "vendor=1"},
			},
		}
		must(t, project(t, s, withOperation(whole("r", 3, at), granted(), guard)))
		if got := raw.HGet(t.Context(), "runledger.run:{r}", "ops").Val(); got != "5" {
			t.Errorf("the run counts %s fields, want 5", got)
		}
		operations := map[string]string{
			" a":            "2",
			"op/1":          "INTENT_ROUTER 1 OPEN",
			"op/1 granted":  `{"id":"call","source":"/agents/agent","sequence":"4","decision":"1"}`,
			"op:2":          "SEMANTIC_GUARD 1 FAILED TIMEOUT",
			"op:2 reported": `{"id":"\"☃\"","source":"/agents/a b","sequence":"9","decision":"1","traceparent":"00-trace-span-01","tracestate":"vendor=1"}`,
		}
		if diff := cmp.Diff(operations, raw.HGetAll(t.Context(), "runledger.ops:{r}").Val()); diff != "" {
			t.Errorf("operations (-want +got):\n%s", diff)
		}
		must(t, project(t, s, withOperation(step("r", 4, at), reported())))
		operations["op/1"] = "INTENT_ROUTER 1 SUCCEEDED"
		operations["op/1 reported"] = `{"id":"report","source":"/agents/agent","sequence":"5","decision":"1"}`
		if diff := cmp.Diff(operations, raw.HGetAll(t.Context(), "runledger.ops:{r}").Val()); diff != "" {
			t.Errorf("operations after the report (-want +got):\n%s", diff)
		}
		if got := raw.HGet(t.Context(), "runledger.run:{r}", "ops").Val(); got != "6" {
			t.Errorf("the run counts %s fields, want 6", got)
		}
	})
}

func TestACallTakesNoMoreCommandsThanItMust(t *testing.T) {
	addr := testenv.StartRedis(t).Addr
	s, raw := open(t, addr), client(t, addr)
	at := base()
	must(t, project(t, s, step("r", 1, at)))
	must(t, raw.ConfigResetStat(t.Context()).Err())
	must(t, project(t, s, step("r", 2, at)))
	must(t, project(t, s, step("r", 3, at)))
	stats := raw.Info(t.Context(), "commandstats").Val()
	if !strings.Contains(stats, "cmdstat_hset:calls=7,") || !strings.Contains(stats, "cmdstat_hlen:calls=2,") {
		t.Errorf("want 7 HSET (run and record twice, the id and its count, the length of the list) and 2 HLEN, got\n%s", stats)
	}
}

func TestWhatCallsCameToIsOneShortTextOfTheRun(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		p := whole("r", 3, base())
		p.Run.Recent = []harness.Repetition{
			{Key: 0, Count: 1},
			{Key: 0xfbfbfbfbfbfbfbfb, Count: 12},
		}
		must(t, project(t, s, p))
		want := "AAAAAAAAAAA -_v7-_v7-_s*12"
		if got := raw.HGet(t.Context(), "runledger.run:{r}", "recent").Val(); got != want {
			t.Errorf("recent is %s\nwant      %s", got, want)
		}
		const once = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA*2 -_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s" // whole digests
		must(t, raw.HSet(t.Context(), "runledger.run:{r}", "recent", once).Err())
		loaded, errs := s.LoadRuns(t.Context(), []string{"r"})
		must(t, errs[0])
		if want := []harness.Repetition{{Key: 0, Count: 2}, {Key: 0xfbfbfbfbfbfbfbfb, Count: 1}}; !slices.Equal(loaded[0].Recent, want) {
			t.Errorf("of whole digests: got %v, want %v", loaded[0].Recent, want)
		}
		for _, damaged := range []string{"secret word", "AAAAAAAAAAA*", "AAAAAAAAAAA*0", "AAAAAAAAAAA*x", "AAAAAAAAAAA ", "AAAAAAAAAAB", "AAAA", "*1"} {
			must(t, raw.HSet(t.Context(), "runledger.run:{r}", "recent", damaged).Err())
			_, errs := s.LoadRuns(t.Context(), []string{"r"})
			wantSafeConflict(t, errs[0])
		}
	})
}

func TestADamagedOperationIsAConflictThatDoesNotTellIt(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		at := base()
		ops, run := "runledger.ops:{r}", "runledger.run:{r}"
		damage := map[string][2]string{ // field and value
			"one word":                    {"op/1", "secret"},
			"attempts that are no number": {"op/1", "INTENT_ROUTER secret OPEN"},
			"no attempts":                 {"op/1", "INTENT_ROUTER 0 OPEN"},
			"no state that there is":      {"op/1", "INTENT_ROUTER 1 secret"},
			"a word too many":             {"op/1", "INTENT_ROUTER 1 FAILED TIMEOUT secret"},
			"an event that is no object":  {"op/1 granted", "secret"},
			"an event of other things":    {"op/1 granted", `{"sequence":"secret"}`},
			"an event that is a list":     {"op/1 granted", `["secret"]`},
		}
		for name, d := range damage {
			must(t, raw.FlushAll(t.Context()).Err())
			must(t, project(t, s, withOperation(whole("r", 3, at), granted())))
			must(t, raw.HSet(t.Context(), ops, d[0], d[1]).Err())
			loaded, err := s.Load(t.Context(), []store.Ref{{RunID: "r", OperationID: "op/1"}, {RunID: "r", ToolCallID: "a"}})
			must(t, err)
			must(t, loaded[1].Err)
			wantSafeConflict(t, loaded[0].Err)
			if loaded[0].Operation != nil {
				t.Errorf("%s: got %+v, want none", name, loaded[0].Operation)
			}
		}
		must(t, raw.FlushAll(t.Context()).Err())
		must(t, project(t, s, withOperation(whole("r", 3, at), granted())))
		must(t, raw.HDel(t.Context(), ops, "op/1").Err())
		must(t, raw.HSet(t.Context(), ops, "other", "INTENT_ROUTER 1 OPEN").Err())
		loaded, err := s.Load(t.Context(), []store.Ref{{RunID: "r", OperationID: "op/1"}})
		must(t, err)
		wantSafeConflict(t, loaded[0].Err) // an event of an operation that is not there
		must(t, raw.HSet(t.Context(), run, "ops", "secret").Err())
		loaded, err = s.Load(t.Context(), []store.Ref{{RunID: "r", OperationID: "other"}})
		must(t, err)
		wantSafeConflict(t, loaded[0].Err)
	})
}

func TestEveryKeyExpiresAtTheRunsInstantAndNothingMovesIt(t *testing.T) {
	t.Run("redis-server", func(t *testing.T) { expiryIsFixed(t, testenv.StartRedis(t).Addr) })
	t.Run("miniredis", func(t *testing.T) {
		m := testenv.StartMiniredis(t)
		m.SetTime(time.Now()) // it keeps what is left of a life, and so an instant only while its clock stands
		expiryIsFixed(t, m.Addr())
	})
}

func expiryIsFixed(t *testing.T, addr string) {
	t.Helper()
	s, raw := open(t, addr), client(t, addr)
	at := base()
	want := at.Add(time.Hour).UnixMilli()
	check := func(after string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			if got := raw.PExpireTime(t.Context(), key).Val().Milliseconds(); got != want {
				t.Errorf("after %s %s expires at %d, want %d", after, key, got, want)
			}
		}
	}
	run, done, ops, record := "runledger.run:{r}", "runledger.done:{r}", "runledger.ops:{r}", "runledger:{r}:a"
	must(t, project(t, s, whole("r", 1, at)))
	check("the start", run)
	must(t, project(t, s, step("r", 2, at)))
	check("the reservation", run, record)
	must(t, project(t, s, step("r", 3, at)))
	check("the settlement", run, done, record)
	must(t, project(t, s, withOperation(step("r", 4, at), granted())))
	check("the grant", run, done, ops, record)
	must(t, project(t, s, withOperation(step("r", 5, at), reported())))
	must(t, project(t, s, whole("r", 3, at)))
	_, errs := s.LoadRuns(t.Context(), []string{"r"})
	must(t, errs[0])
	_, err := s.Load(t.Context(), []store.Ref{{RunID: "r", ToolCallID: "a"}, {RunID: "r", OperationID: "op/1"}})
	must(t, err)
	_, err = s.Record(t.Context(), "r", "a")
	must(t, err)
	_, err = s.Completed(t.Context(), "r")
	must(t, err)
	check("reads and further facts", run, done, ops, record)
	p := withOperation(whole("r", 3, at), reported())
	p.Run.Sequence, p.Run.Digest = 6, "sha256:6"
	must(t, project(t, s, p))
	check("writing it anew", run, done, ops, record)
}

func TestACallIsListedOnceHoweverItsStretchesOverlap(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		at := base()
		must(t, project(t, s, whole("r", 1, at)))
		// Each goes on from before the settlement, fact 3, to beyond it.
		for fact := uint64(3); fact <= 8; fact++ {
			p := whole("r", 3, at)
			p.Run.Sequence, p.Run.Digest, p.From = fact, fmt.Sprintf("sha256:%d", fact), 2-fact%2
			p.Records[0].Reserved = p.From == 1
			must(t, project(t, s, p))
			if diff := cmp.Diff([]string{"2 a"}, raw.LRange(t.Context(), "runledger.done:{r}", 0, -1).Val()); diff != "" {
				t.Fatalf("completed calls after fact %d (-want +got):\n%s", fact, diff)
			}
		}
	})
}

func TestAKeyOfAnotherTypeIsAConflictOfThatRunAlone(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		for _, key := range []string{"runledger.run:{secret}", "runledger.done:{secret}", "runledger.ops:{secret}", "runledger:{secret}:a"} {
			t.Run(strings.Trim(key, "{}:"), func(t *testing.T) {
				s, raw := open(t, addr), client(t, addr)
				must(t, raw.FlushAll(t.Context()).Err())
				must(t, raw.Set(t.Context(), key, "secret", 0).Err())
				at := base()
				errs := s.Project(t.Context(), []store.Projection{whole("secret", 3, at), whole("other", 3, at)})
				wantSafeConflict(t, errs[0])
				must(t, errs[1])
				if got := raw.Keys(t.Context(), "*{secret}*").Val(); len(got) != 1 {
					t.Errorf("keys of the run are %v, want only the one that was there", got)
				}
				_, errs = s.LoadRuns(t.Context(), []string{"secret", "other"})
				must(t, errs[1])
				_, completedErr := s.Completed(t.Context(), "secret")
				_, recordErr := s.Record(t.Context(), "secret", "a")
				refs := []store.Ref{
					{RunID: "secret", ToolCallID: "a"}, {RunID: "other", ToolCallID: "a"},
					{RunID: "secret", OperationID: "op/1"}, {RunID: "other", OperationID: "op/1"},
				}
				loaded, err := s.Load(t.Context(), refs)
				must(t, err)
				must(t, loaded[1].Err)
				must(t, loaded[3].Err)
				switch key {
				case "runledger.run:{secret}":
					wantSafeConflict(t, errs[0])
					wantSafeConflict(t, completedErr)
					wantSafeConflict(t, loaded[0].Err)
					wantSafeConflict(t, loaded[2].Err)
				case "runledger.done:{secret}":
					wantSafeConflict(t, completedErr)
				case "runledger.ops:{secret}":
					wantSafeConflict(t, loaded[2].Err)
				default:
					wantSafeConflict(t, recordErr)
					wantSafeConflict(t, loaded[0].Err)
				}
			})
		}
	})
}

func wantSafeConflict(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want a conflict", err)
		return
	}
	for _, secret := range []string{"secret", "runledger", "{"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error tells a key or a value: %v", err)
		}
	}
}

func TestAHashThatIsNotOursIsAConflict(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		for _, key := range []string{"runledger.run:{r}", "runledger:{r}:a"} {
			t.Run(strings.Trim(key, "{}:"), func(t *testing.T) {
				s, raw := open(t, addr), client(t, addr)
				must(t, raw.FlushAll(t.Context()).Err())
				must(t, raw.HSet(t.Context(), key, "secret", "secret").Err())
				wantSafeConflict(t, project(t, s, whole("r", 3, base())))
				if got := raw.Keys(t.Context(), "*").Val(); len(got) != 1 {
					t.Errorf("keys are %v, want only the one that was there", got)
				}
			})
		}
	})
}

func TestADamagedFieldIsAConflictThatNamesItAndNotItsValue(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		at := base()
		damage := map[string][]string{
			"runledger.run:{r}": {
				"v", "run", "sequence", "stream", "at", "phase", "start.decision", "used.tool:tool", "calls.READY", "open:9", "timer_at",
				"step", "final", "invalid", "grace_until", "used.known_usage", "recent",
			},
			"runledger:{r}:a": {"v", "run", "id", "call", "status", "raw_stored", "reserved_at", "raw_bytes"},
		}
		// Fields that say what the hash is: the error says that it is another.
		named := map[string]bool{"run": true, "id": true, "used.tool:tool": true, "calls.READY": true, "open:9": true}
		for key, fields := range damage {
			for _, field := range fields {
				must(t, raw.FlushAll(t.Context()).Err())
				must(t, project(t, s, whole("r", 3, at)))
				must(t, raw.HSet(t.Context(), key, field, "secret").Err())
				var err error
				if strings.HasSuffix(key, ":a") {
					_, err = s.Record(t.Context(), "r", "a")
					loaded, loadErr := s.Load(t.Context(), []store.Ref{{RunID: "r", ToolCallID: "a"}})
					must(t, loadErr)
					wantSafeConflict(t, loaded[0].Err)
				} else {
					_, errs := s.LoadRuns(t.Context(), []string{"r"})
					err = errs[0]
				}
				wantSafeConflict(t, err)
				if !strings.Contains(fmt.Sprint(err), "field "+field) && !named[field] {
					t.Errorf("field %s: got %v, want that it names the field", field, err)
				}
				if field == "sequence" || field == "call" {
					wantSafeConflict(t, project(t, s, whole("r", 3, at)))
				}
			}
		}
	})
}

func TestANewerLayoutIsRefusedByNameAndLeftAsItIs(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		at := base()
		for _, key := range []string{"runledger.run:{r}", "runledger:{r}:a"} {
			must(t, raw.FlushAll(t.Context()).Err())
			must(t, project(t, s, whole("r", 2, at)))
			must(t, raw.HSet(t.Context(), key, "v", "2").Err())
			before := maps.Clone(raw.HGetAll(t.Context(), key).Val())
			wantNewer := func(err error) {
				t.Helper()
				if !errors.Is(err, events.ErrNewer) || !strings.Contains(fmt.Sprint(err), "want version 1, got 2") {
					t.Errorf("got %v, want that version 2 is refused by name", err)
				}
			}
			wantNewer(project(t, s, step("r", 3, at)))
			loaded, err := s.Load(t.Context(), []store.Ref{{RunID: "r", ToolCallID: "a"}})
			must(t, err)
			wantNewer(loaded[0].Err)
			if key == "runledger.run:{r}" {
				_, errs := s.LoadRuns(t.Context(), []string{"r"})
				wantNewer(errs[0])
				_, err := s.Completed(t.Context(), "r")
				wantNewer(err)
			} else {
				_, err := s.Record(t.Context(), "r", "a")
				wantNewer(err)
			}
			if diff := cmp.Diff(before, raw.HGetAll(t.Context(), key).Val()); diff != "" {
				t.Errorf("%s was changed:\n%s", key, diff)
			}
		}
	})
}

func TestToolCallIDsMayHoldAColonWhereThatIsAllowed(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		raw := client(t, addr)
		strict := open(t, addr)
		lenient, err := store.Open(store.Config{Addrs: []string{addr}, AllowColon: true})
		must(t, err)
		t.Cleanup(func() { _ = lenient.Close() })
		for _, id := range []string{"a:b", ":", "functions.get_user:0", "::a"} {
			must(t, raw.FlushAll(t.Context()).Err())
			at := base()
			p := whole("r", 3, at)
			p.Records[0].Record.ToolCallID = id
			wantSafeConflict(t, project(t, strict, p))
			must(t, project(t, lenient, p))
			if n := raw.Exists(t.Context(), "runledger:{r}:"+id).Val(); n != 1 {
				t.Errorf("%q: there is no key of that name", id)
			}
			got, err := lenient.Completed(t.Context(), "r")
			if err != nil || len(got) != 1 || got[0].ToolCallID != id || got[0].Status != "READY" {
				t.Errorf("%q: completed calls are %v, %v", id, got, err)
			}
			if got, err := strict.Record(t.Context(), "r", id); got != nil || err != nil {
				t.Errorf("%q: where it is not allowed there is %v, %v, want nothing", id, got, err)
			}
		}
	})
}

package harness_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// withCall starts a run with one open call, c1 of search.
func withCall(t *testing.T, rules *harness.Rules) *driver {
	t.Helper()
	d := newDriver(t, rules)
	d.start()
	expect(t, "call", d.call("c1", "search", `{"q":1}`), "tool.reserved")
	return d
}

// projecting is rules whose search has that projector.
func projecting(f projectorFunc) *harness.Rules {
	rules := testRules()
	tool := rules.Policy.Tools["search"]
	tool.Projector = f
	rules.Policy.Tools["search"] = tool
	return rules
}

func TestAResultSettlesItsCallOnceAsReady(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":[1,2]}`: "tool.settled READY EVIDENCE_FOUND", `0`: "tool.settled READY EVIDENCE_FOUND", `false`: "tool.settled READY EVIDENCE_FOUND",
		`[]`: "tool.settled READY NO_EVIDENCE", `{}`: "tool.settled READY NO_EVIDENCE", `null`: "tool.settled READY NO_EVIDENCE", `""`: "tool.settled READY NO_EVIDENCE",
	} {
		d := withCall(t, testRules())
		d.now = after(2 * time.Second)
		steps := d.result("web", "c1", succeeded(raw))
		expect(t, raw, steps, want)
		p := payload[*events.ToolSettled](t, steps, 0)
		if string(p.Result) != raw || p.RawBytes != int64(len(raw)) || p.RawDigest != events.DigestBytes([]byte(raw)) || !p.RawStored || p.Call != 2 || p.Tool != "search" || p.Code != "" || p.Message != "" {
			t.Errorf("%s: settled %+v", raw, p)
		}
		r := d.records["r1"]["c1"]
		if r.Status != events.StatusReady || r.Evidence != p.Evidence || string(r.AgentResult) != raw || !r.SettledAt.Equal(after(2*time.Second)) ||
			r.ResultCause.ID != "e3" || r.ResultCause.Source != "/executors/web" || r.RawResponse != nil {
			t.Errorf("%s: the record is %+v", raw, r)
		}
		if run := d.runs["r1"]; len(run.Open) != 0 || run.Calls[events.StatusReady] != 1 {
			t.Errorf("%s: the run is %+v", raw, run)
		}
	}
}

func TestAFailedExecutionIsAnErrorAndKeepsWhatTheExecutorSaid(t *testing.T) {
	asked := false
	d := withCall(t, projecting(func(raw []byte) (harness.Projection, error) { asked = true; return echo(raw) }))
	steps := d.result("web", "c1", `"outcome":"FAILED","result":"disk full"`)
	expect(t, "failed", steps, "tool.settled ERROR TOOL_EXECUTION_FAILED")
	p := payload[*events.ToolSettled](t, steps, 0)
	if p.Evidence != events.EvidenceError || p.Result != nil || !p.RawStored || p.RawBytes != 11 || p.Message != "The tool reported a failure." {
		t.Errorf("settled %+v", p)
	}
	if asked {
		t.Error("a projector looked at a failed call")
	}
}

func TestAProjectorThatFailsGivesNoEvidenceAndKeepsTheRawResponse(t *testing.T) {
	const secret = "s3cret"
	for name, projector := range map[string]projectorFunc{
		"an error": func([]byte) (harness.Projection, error) { return harness.Projection{}, errors.New(secret) },
		"an error and a result": func(raw []byte) (harness.Projection, error) {
			return harness.Projection{Result: raw, Evidence: events.EvidenceFound}, errors.New(secret)
		},
		"a panic":         func([]byte) (harness.Projection, error) { panic(secret) },
		"a runtime panic": func(raw []byte) (harness.Projection, error) { return harness.Projection{Result: raw[len(raw)+1:]}, nil },
		"no status":       func(raw []byte) (harness.Projection, error) { return harness.Projection{Result: raw}, nil },
		"status ERROR": func(raw []byte) (harness.Projection, error) {
			return harness.Projection{Result: raw, Evidence: events.EvidenceError}, nil
		},
		"another status": func(raw []byte) (harness.Projection, error) {
			return harness.Projection{Result: raw, Evidence: "MAYBE"}, nil
		},
		"nothing": func([]byte) (harness.Projection, error) {
			return harness.Projection{Evidence: events.EvidenceFound}, nil
		},
		"no JSON": func([]byte) (harness.Projection, error) {
			return harness.Projection{Result: []byte(secret), Evidence: events.EvidenceFound}, nil
		},
		"cut JSON": func([]byte) (harness.Projection, error) {
			return harness.Projection{Result: []byte(`{"a":`), Evidence: events.EvidenceFound}, nil
		},
		"two values": func([]byte) (harness.Projection, error) {
			return harness.Projection{Result: []byte(`1 2`), Evidence: events.EvidenceFound}, nil
		},
		"a member twice": func([]byte) (harness.Projection, error) {
			return harness.Projection{Result: []byte(`{"a":1,"a":2}`), Evidence: events.EvidenceFound}, nil
		},
		"invalid UTF-8": func([]byte) (harness.Projection, error) {
			return harness.Projection{Result: []byte("\"\xff\""), Evidence: events.EvidenceFound}, nil
		},
		"half a surrogate": func([]byte) (harness.Projection, error) {
			return harness.Projection{Result: []byte(`"\ud800"`), Evidence: events.EvidenceFound}, nil
		},
	} {
		d := withCall(t, projecting(projector))
		steps := d.result("web", "c1", succeeded(`"raw"`))
		expect(t, name, steps, "tool.settled ERROR PROJECTION_FAILED")
		p := payload[*events.ToolSettled](t, steps, 0)
		if !p.RawStored || p.RawBytes != 5 || p.RawDigest == "" || p.Result != nil || p.Evidence != events.EvidenceError {
			t.Errorf("%s: settled %+v", name, p)
		}
		if data := string(d.history["r1"][2].encoded.Data); strings.Contains(data, secret) {
			t.Errorf("%s: the fact tells what it must not: %s", name, data)
		}
	}
}

func TestAMissingProjectorIsAFailedProjection(t *testing.T) {
	d := withCall(t, projecting(nil))
	tool := d.rules.Policy.Tools["search"]
	tool.Projector = nil
	d.rules.Policy.Tools["search"] = tool
	expect(t, "none", d.result("web", "c1", succeeded(`1`)), "tool.settled ERROR PROJECTION_FAILED")
}

func TestAnAgentResultIsCountedAsItIsWritten(t *testing.T) {
	// A projector may indent; a fact does not. What counts is what the fact holds.
	d := withCall(t, projecting(func([]byte) (harness.Projection, error) {
		return harness.Projection{Result: []byte("{\n  \"a\" : [ 1.0 , \"\\u00e9\" ]\n}"), Evidence: events.EvidenceFound}, nil
	}))
	before := d.runs["r1"].Usage.RunBytes
	p := payload[*events.ToolSettled](t, d.result("web", "c1", succeeded(`1`)), 0)
	if want := `{"a":[1.0,"\u00e9"]}`; string(p.Result) != want {
		t.Errorf("the result is %s, want %s", p.Result, want)
	}
	if got := d.runs["r1"].Usage.RunBytes - before; got != 21 {
		t.Errorf("%d bytes were counted, want 1 raw and 20 shown", got)
	}
}

func TestTheProjectorNeverSeesAResponseOverTheLimit(t *testing.T) {
	d := withCall(t, projecting(func([]byte) (harness.Projection, error) { t.Error("it did"); return harness.Projection{}, nil }))
	d.result("web", "c1", succeeded(`"`+strings.Repeat("x", 1000)+`"`))
}

func TestOnlyTheExecutorThatWasGivenTheCallCanSettleItByItsDispatch(t *testing.T) {
	for name, c := range map[string]struct {
		send func(*driver) []step
		want string
	}{
		"another executor":          {func(d *driver) []step { return d.resultOf("files", "c1", "r1.2", succeeded(`1`)) }, "invalid FOREIGN_EXECUTOR"},
		"another dispatch":          {func(d *driver) []step { return d.resultOf("web", "c1", "r1.3", succeeded(`1`)) }, "invalid UNKNOWN_CALL"},
		"a dispatch of another run": {func(d *driver) []step { return d.resultOf("web", "c1", "r2.2", succeeded(`1`)) }, "invalid UNKNOWN_CALL"},
		"no dispatch":               {func(d *driver) []step { return d.resultOf("web", "c1", "", succeeded(`1`)) }, "invalid UNKNOWN_CALL"},
		"an unknown call":           {func(d *driver) []step { return d.resultOf("web", "c9", "r1.2", succeeded(`1`)) }, "invalid UNKNOWN_CALL"},
		"an unsafe call id":         {func(d *driver) []step { return d.resultOf("web", "c{*}", "r1.2", succeeded(`1`)) }, "invalid UNKNOWN_CALL"},
		"a call id without end":     {func(d *driver) []step { return d.resultOf("web", strings.Repeat("c", 5000), "r1.2", succeeded(`1`)) }, "invalid UNKNOWN_CALL"},
		"data of another run": {func(d *driver) []step {
			return d.deliver(d.message("executor", "web", "r1", "tool.result", resultData("r2", "c1", "r1.2", succeeded(`1`))))
		}, "invalid RUN_MISMATCH"},
		"an unknown run": {func(d *driver) []step {
			return d.deliver(d.message("executor", "web", "r2", "tool.result", resultData("r2", "c1", "r2.2", succeeded(`1`))))
		}, "invalid UNKNOWN_RUN"},
		"data that do not fit": {func(d *driver) []step { return d.resultOf("web", "c1", "r1.2", `"outcome":"DONE"`) }, "invalid INVALID_DATA"},
		"no CloudEvent": {func(d *driver) []step {
			m := d.message("executor", "web", "r1", "tool.result", "{}")
			m.Header = nil
			return d.deliver(m)
		}, "invalid UNDECODABLE"},
	} {
		d := withCall(t, testRules())
		expect(t, name, c.send(d), c.want)
		if run := d.runs["r1"]; len(run.Open) != 1 || run.Sequence != 2 {
			t.Errorf("%s: the run changed: %+v", name, run)
		}
		expect(t, name+", and then the true one", d.result("web", "c1", succeeded(`1`)), "tool.settled READY EVIDENCE_FOUND")
	}
}

func TestAResultBeforeItsCallIsKeptForTheOperator(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	expect(t, "early", d.resultOf("web", "c1", "r1.2", succeeded(`1`)), "invalid UNKNOWN_CALL")
	expect(t, "call", d.call("c1", "search", `{"q":1}`), "tool.reserved")
	expect(t, "result", d.result("web", "c1", succeeded(`1`)), "tool.settled READY EVIDENCE_FOUND")
}

func TestASecondResultIsToldOnceAsLateAndChangesNothing(t *testing.T) {
	d := withCall(t, testRules())
	expect(t, "first", d.result("web", "c1", succeeded(`1`)), "tool.settled READY EVIDENCE_FOUND")
	record, usage := d.records["r1"]["c1"], d.runs["r1"].Usage.RunBytes

	steps := d.result("web", "c1", succeeded(`[22]`))
	expect(t, "second", steps, "tool.late outside")
	if p := *payload[*events.ToolLate](t, steps, 0); p != (events.ToolLate{RunID: "r1", ToolCallID: "c1", Call: 2, Outcome: "SUCCEEDED", RawBytes: 4}) {
		t.Errorf("told %+v", p)
	}
	if f := steps[0].fact; f.Agent != "alice" || f.OutsideKey != "late-2" {
		t.Errorf("told to %s under %s, want alice under late-2", f.Agent, f.OutsideKey)
	}
	expect(t, "third", d.result("web", "c1", `"outcome":"FAILED"`), "invalid LATE_AGAIN")
	if got := d.records["r1"]["c1"]; string(got.AgentResult) != `1` || got.Status != record.Status || got.ResultCause != record.ResultCause {
		t.Errorf("the record became %+v", got)
	}
	if got := d.runs["r1"].Usage.RunBytes; got != usage || d.runs["r1"].Sequence != 3 {
		t.Errorf("the run changed")
	}
}

func TestTheSameResultEventAgainIsNothingNew(t *testing.T) {
	d := withCall(t, testRules())
	m := d.message("executor", "web", "r1", "tool.result", resultData("r1", "c1", "r1.2", succeeded(`1`)))
	expect(t, "first", d.deliver(m), "tool.settled READY EVIDENCE_FOUND")
	expect(t, "again", d.deliver(d.again(m)), "nothing")
	d.finish("SUCCESS")
	expect(t, "after the end", d.deliver(d.again(m)), "nothing")

	other := d.again(m)
	other.Header = map[string][]string{"ce-specversion": {"1.0"}, "ce-id": m.Header["ce-id"], "ce-source": {"/another"}, "ce-type": m.Header["ce-type"]}
	expect(t, "the id of another source is another event", d.deliver(other), "tool.late outside")
}

func TestALateResultAfterTimeoutOrEndIsToldOnce(t *testing.T) {
	d := withCall(t, testRules())
	d.now = after(10 * time.Second)
	expect(t, "timeout", d.tick(), "tool.settled ERROR TOOL_TIMEOUT due")
	expect(t, "late", d.result("web", "c1", succeeded(`1`)), "tool.late outside")

	d = withCall(t, testRules())
	d.finish("SUCCESS")
	steps := d.result("web", "c1", `"outcome":"TOO_LARGE","size":5000000`)
	expect(t, "after the end", steps, "tool.late outside")
	if p := payload[*events.ToolLate](t, steps, 0); p.Outcome != "TOO_LARGE" || p.RawBytes != 5000000 {
		t.Errorf("told %+v", p)
	}
	expect(t, "once", d.result("web", "c1", succeeded(`1`)), "invalid LATE_AGAIN")
	if got := len(d.history["r1"]); got != 6 {
		t.Errorf("the history has %d facts, want 6: nothing follows run.terminated", got)
	}
}

func TestAResultAfterTheRecordHasExpiredIsKeptForTheOperator(t *testing.T) {
	expiry := after(time.Minute + 24*time.Hour)
	d := withCall(t, testRules())
	d.finish("SUCCESS")
	d.now = expiry.Add(-time.Millisecond)
	expect(t, "just before", d.result("web", "c1", succeeded(`1`)), "tool.late outside")

	d = withCall(t, testRules())
	d.finish("SUCCESS")
	dispatch := d.dispatch("c1")
	d.now = expiry
	expect(t, "at the instant, though the store still has it", d.result("web", "c1", succeeded(`1`)), "invalid EXPIRED_CALL")
	delete(d.records["r1"], "c1")
	expect(t, "and where it has not", d.resultOf("web", "c1", dispatch, succeeded(`1`)), "invalid EXPIRED_CALL")
}

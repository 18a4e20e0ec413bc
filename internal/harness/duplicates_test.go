package harness_test

import (
	"bytes"
	"testing"
	"time"

	"runledger/internal/events"
)

func TestAUsedIdIsRefusedAndTheFirstRecordStaysAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*driver) // what became of the first call
		args   string
		same   bool
	}{
		"open, same arguments":     {func(*driver) {}, `{"q":1}`, true},
		"open, other arguments":    {func(*driver) {}, `{"q":2}`, false},
		"open, other spacing":      {func(*driver) {}, `{"q": 1}`, false}, // bytes are compared, not meanings
		"ready, same arguments":    {func(d *driver) { d.result("web", "c1", succeeded(`1`)) }, `{"q":1}`, true},
		"ready, other arguments":   {func(d *driver) { d.result("web", "c1", succeeded(`1`)) }, `{"q":2}`, false},
		"failed, same arguments":   {func(d *driver) { d.result("web", "c1", `"outcome":"FAILED"`) }, `{"q":1}`, true},
		"timed out, same argument": {func(d *driver) { d.now = after(15 * time.Second); d.tick() }, `{"q":1}`, true},
	} {
		d := withCall(t, testRules())
		c.before(d)
		record, used := d.records["r1"]["c1"], d.runs["r1"].Usage.RunBytes
		steps := d.call("c1", "search", c.args)
		expect(t, name, steps, "tool.rejected DUPLICATE_TOOL_CALL")
		p := payload[*events.ToolRejected](t, steps, 0)
		if p.SameArguments == nil || *p.SameArguments != c.same || p.ToolCallID != "c1" {
			t.Errorf("%s: told %+v, want same arguments %v", name, p, c.same)
		}
		now := d.records["r1"]["c1"]
		if now.Call != record.Call || now.Status != record.Status || now.Cause != record.Cause || now.ArgumentsDigest != record.ArgumentsDigest || !bytes.Equal(now.AgentResult, record.AgentResult) {
			t.Errorf("%s: the record became %+v", name, now)
		}
		if run := d.runs["r1"]; run.Usage.ToolCalls != 1 || run.Usage.RunBytes != used {
			t.Errorf("%s: the refusal was counted: %+v", name, run.Usage)
		}
	}
}

func TestADuplicateOfAnotherToolOrExecutorIsADuplicate(t *testing.T) {
	d := withCall(t, testRules())
	expect(t, "another tool", d.call("c1", "read_file", `{"q":1}`), "tool.rejected DUPLICATE_TOOL_CALL")
}

func TestOneConstantIdForEveryCallLetsOnlyTheFirstThrough(t *testing.T) {
	d := withCall(t, testRules())
	for range 5 {
		expect(t, "again", d.call("c1", "search", `{"q":2}`), "tool.rejected DUPLICATE_TOOL_CALL")
	}
	expect(t, "its result", d.result("web", "c1", succeeded(`1`)), "tool.settled READY EVIDENCE_FOUND")
}

func TestTheSameIdInAnotherRunIsAnotherCall(t *testing.T) {
	d := withCall(t, testRules())
	d.agent("alice", "r2", events.VerbRunStart, startData("r2", minute, limitsJSON()))
	expect(t, "r2", d.agent("alice", "r2", events.VerbToolCall, callData("r2", "c1", "search", `{"q":1}`)), "tool.reserved")
}

func TestTheEventThatMadeARecordIsNothingNewWhenItComesAgain(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	m := d.message("agent", "alice", "r1", "tool.call", callData("r1", "c1", "search", `{"q":1}`))
	expect(t, "first", d.deliver(m), "tool.reserved")
	expect(t, "while open", d.deliver(d.again(m)), "nothing")
	d.result("web", "c1", succeeded(`1`))
	expect(t, "when settled", d.deliver(d.again(m)), "nothing")
	d.finish("SUCCESS")
	expect(t, "when the run has ended", d.deliver(d.again(m)), "nothing")

	other := d.again(m)
	other.Header = map[string][]string{"ce-specversion": {"1.0"}, "ce-id": m.Header["ce-id"], "ce-source": {"/elsewhere"}, "ce-type": m.Header["ce-type"]}
	expect(t, "the id of another source is another event", d.deliver(other), "tool.rejected RUN_NOT_ACTIVE outside")

	foreign := d.again(m)
	foreign.Subject = "harness.v1.part.0.in.agent.bob.r1.tool.call"
	expect(t, "another agent's is another event", d.deliver(foreign), "tool.rejected RUN_NOT_OWNED outside")
}

func TestAnEventThatWasRefusedIsDecidedAgain(t *testing.T) {
	d := newDriver(t, testRules())
	m := d.message("agent", "alice", "r1", "tool.call", callData("r1", "c1", "search", `{"q":1}`))
	expect(t, "too early", d.deliver(m), "tool.rejected RUN_NOT_FOUND outside")
	d.start()
	expect(t, "now", d.deliver(d.again(m)), "tool.reserved")
}

func TestAMessageThatTheRunHasAppliedIsSkipped(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	m := d.message("agent", "alice", "r1", "tool.call", callData("r1", "c1", "search", `{}`))
	expect(t, "first", d.deliver(m), "tool.rejected INVALID_INPUT")
	expect(t, "redelivered", d.deliver(m))
	if got := len(d.history["r1"]); got != 2 {
		t.Errorf("the history has %d facts, want 2", got)
	}
}

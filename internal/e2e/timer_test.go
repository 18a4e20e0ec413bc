package e2e

import (
	"regexp"
	"testing"
	"time"

	"runledger/internal/policy"
)

// withinASecond requires that something due at an instant was decided, and
// seen, no earlier and at most a second later.
func withinASecond(t *testing.T, what string, due time.Time, f seen) {
	t.Helper()
	if early := due.Sub(f.at); early > 0 {
		t.Errorf("%s: decided %v early", what, early)
	}
	if late := f.arrived.Sub(due); late > time.Second {
		t.Errorf("%s: seen %v late, want at most 1s", what, late)
	} else {
		t.Logf("%s: seen %v after it was due", what, late.Round(time.Millisecond))
	}
}

func TestDeadlineEndsARunByItsTimerWhileNothingElseArrives(t *testing.T) {
	w := newWorld(t, policy.Airline())
	w.serve(t, "one")
	h := newHand(t, w)
	deadline := h.start(t, "alone", 2*time.Second)
	ended := h.await(t, "run.terminated")
	withinASecond(t, "the end", deadline, ended)
	if ended.data["outcome"] != "TIMED_OUT" || ended.data["reason"] != "DEADLINE_EXCEEDED" {
		t.Errorf("got %v, want TIMED_OUT by DEADLINE_EXCEEDED", ended.data)
	}
}

func TestCallThatNobodyAnswersTimesOutByItsTimer(t *testing.T) {
	w := newWorld(t, regexp.MustCompile(`timeout: \d+s`).ReplaceAll(policy.Airline(), []byte("timeout: 2s")))
	w.serve(t, "one")
	h := newHand(t, w)
	h.start(t, "waiting", time.Minute)
	h.publish(t, "agent.me.waiting.tool.call", "harness.tool.call.v1",
		`{"run_id":"waiting","tool_call_id":"c1","tool":"calculate","arguments":{"expression":"1 + 1"}}`)
	reserved := h.await(t, "tool.reserved")
	due, err := time.Parse(time.RFC3339Nano, reserved.data["deadline"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if lasts := due.Sub(reserved.at); lasts != 2*time.Second {
		t.Fatalf("the call has %v, want the tool's timeout of 2s", lasts)
	}
	settled := h.await(t, "tool.settled")
	withinASecond(t, "the timeout", due, settled)
	if settled.data["status"] != "ERROR" || settled.data["code"] != "TOOL_TIMEOUT" || settled.data["evidence"] != "ERROR" {
		t.Errorf("got %v, want ERROR/TOOL_TIMEOUT", settled.data)
	}
}

package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"runledger/internal/policy"
)

// TestARecordThatSomebodyRemovedDoesNotFreeItsID removes one record of a run and
// uses its id again: it stays used, and the run goes on.
func TestARecordThatSomebodyRemovedDoesNotFreeItsID(t *testing.T) {
	w := newWorld(t, policy.Airline())
	w.serve(t, "one")
	client := redisClient(t, w)
	h := newHand(t, w)
	h.start(t, "v", time.Minute)
	call := func() {
		h.publish(t, "agent.me.v.tool.call", "harness.tool.call.v1",
			`{"run_id":"v","tool_call_id":"c1","tool":"calculate","arguments":{"expression":"1 + 1"}}`)
	}
	call()
	sequence, err := strconv.ParseUint(h.await(t, "tool.reserved").sequence, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	h.publish(t, "executor.airline.v.tool.result", "harness.tool.result.v1", fmt.Sprintf(
		`{"run_id":"v","tool_call_id":"c1","dispatch_id":"v.%d","outcome":"SUCCEEDED","result":"2"}`, sequence))
	h.await(t, "tool.settled")
	eventually(t, "the record", func() bool { return client.Exists(t.Context(), "runledger:{v}:c1").Val() == 1 })
	if err := client.Del(t.Context(), "runledger:{v}:c1").Err(); err != nil {
		t.Fatal(err)
	}
	call()
	if rejected := h.await(t, "tool.rejected"); rejected.data["code"] != "DUPLICATE_TOOL_CALL" {
		t.Errorf("got %v, want DUPLICATE_TOOL_CALL", rejected.data)
	}
	eventually(t, "the record to be back whole", func() bool {
		record := client.HGetAll(t.Context(), "runledger:{v}:c1").Val()
		return record["status"] == "READY" && record["raw_response"] == `"2"`
	})
	h.publish(t, "agent.me.v.run.finish", "harness.run.finish.v1", `{"run_id":"v","outcome":"SUCCESS"}`)
	if ended := h.await(t, "run.terminated"); ended.data["outcome"] != "SUCCESS" {
		t.Errorf("got %v, want SUCCESS", ended.data)
	}
}

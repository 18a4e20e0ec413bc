package harness_test

import (
	"fmt"
	"strings"
	"testing"

	"runledger/internal/events"
)

// Exactly at the limit is within it; one more is not.

func TestToolCallsAreReservedUpToTheLimitExactly(t *testing.T) {
	d := newDriver(t, testRules())
	d.start(`"tool_calls":3`)
	for i := range 3 {
		expect(t, fmt.Sprintf("call %d", i+1), d.call(fmt.Sprintf("c%d", i), "search", `{"q":1}`), "tool.reserved")
	}
	steps := d.call("c3", "search", `{"q":1}`)
	expect(t, "call 4", steps,
		"tool.rejected BUDGET_EXHAUSTED", "run.ending BUDGET_EXHAUSTED due",
		"tool.settled ERROR RUN_TERMINATED due", "tool.settled ERROR RUN_TERMINATED due", "tool.settled ERROR RUN_TERMINATED due",
		"run.progress due", "run.terminated BUDGET_EXHAUSTED due")
	if got := payload[*events.ToolRejected](t, steps, 0).Limit; got != "tool_calls" {
		t.Errorf("the refusal names limit %q", got)
	}
	if p := payload[*events.RunEnding](t, steps, 1); p.Limit != "tool_calls" || p.Reason != "BUDGET_EXHAUSTED" {
		t.Errorf("the ending is %+v", p)
	}
	usage := payload[*events.RunTerminated](t, steps, 6).Usage
	if usage.ToolCalls != 3 || usage.CallsByTool["search"] != 3 || len(usage.CallsByTool) != 1 {
		t.Errorf("the usage is %+v, want 3 calls of search", usage)
	}
}

func TestCallsOfOneToolAreReservedUpToTheLimitExactly(t *testing.T) {
	d := newDriver(t, testRules())
	d.start(`"calls_per_tool":2`)
	expect(t, "search 1", d.call("c1", "search", `{"q":1}`), "tool.reserved")
	expect(t, "file 1", d.call("c2", "read_file", `{}`), "tool.reserved")
	expect(t, "search 2", d.call("c3", "search", `{"q":1}`), "tool.reserved")
	expect(t, "file 2", d.call("c4", "read_file", `{}`), "tool.reserved")
	used := d.runs["r1"].Usage.RunBytes
	steps := d.call("c5", "read_file", `{}`)
	if got := brief(steps)[:2]; got[0] != "tool.rejected BUDGET_EXHAUSTED" || got[1] != "run.ending BUDGET_EXHAUSTED due" {
		t.Errorf("file 3: got %q", got)
	}
	if got := payload[*events.ToolRejected](t, steps, 0).Limit; got != "calls_per_tool" {
		t.Errorf("the refusal names limit %q", got)
	}
	usage := d.runs["r1"].Usage
	if usage.ToolCalls != 4 || usage.CallsByTool["read_file"] != 2 || usage.RunBytes != used {
		t.Errorf("a refused call changed the usage: %+v", usage)
	}
}

func TestTheFirstLimitThatIsPassedIsNamed(t *testing.T) {
	request := callData("r1", "c2", "search", `{"q":1}`)
	for limits, want := range map[string]string{
		`"tool_calls":1 "calls_per_tool":1 "run_bytes":%d`: "tool_calls",
		`"tool_calls":2 "calls_per_tool":1 "run_bytes":%d`: "calls_per_tool",
		`"tool_calls":2 "calls_per_tool":2 "run_bytes":%d`: "run_bytes",
	} {
		d := newDriver(t, testRules())
		d.start(strings.Fields(fmt.Sprintf(limits, len(request)))...)
		expect(t, limits, d.call("c1", "search", `{"q":1}`), "tool.reserved")
		if got := payload[*events.ToolRejected](t, d.call("c2", "search", `{"q":1}`), 0).Limit; got != want {
			t.Errorf("%s: names %q, want %q", limits, got, want)
		}
	}
}

func TestRunBytesCountTheWholeRequestInUTF8(t *testing.T) {
	const arguments = `{"q":"é😀"}` // 14 bytes, 10 letters
	size := len(callData("r1", "c1", "search", arguments))
	for limit, want := range map[int]string{size - 1: "tool.rejected BUDGET_EXHAUSTED", size: "tool.reserved", size + 1: "tool.reserved"} {
		d := newDriver(t, testRules())
		d.start(fmt.Sprintf(`"run_bytes":%d`, limit))
		steps := d.call("c1", "search", arguments)
		if got := brief(steps)[0]; got != want {
			t.Errorf("limit %d of %d: got %q, want %q", limit, size, got, want)
		}
		if used := d.runs["r1"].Usage.RunBytes; want == "tool.reserved" && used != int64(size) {
			t.Errorf("limit %d: %d bytes were counted, want %d", limit, used, size)
		} else if want != "tool.reserved" && used != 0 {
			t.Errorf("limit %d: %d bytes were counted for a refused call", limit, used)
		}
	}
}

func TestRunBytesCountRawResponseAndAgentResult(t *testing.T) {
	const raw = `"éé"`                                        // 6 bytes; echo makes an agent result of 6
	request := len(callData("r1", "c1", "search", `{"q":1}`)) // and 12 in all
	for more, want := range map[int][]string{
		5:  {"tool.settled ERROR BUDGET_EXHAUSTED", "run.ending BUDGET_EXHAUSTED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due"},
		6:  {"tool.settled ERROR BUDGET_EXHAUSTED", "run.ending BUDGET_EXHAUSTED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due"},
		11: {"tool.settled ERROR BUDGET_EXHAUSTED", "run.ending BUDGET_EXHAUSTED due", "run.progress due", "run.terminated BUDGET_EXHAUSTED due"},
		12: {"tool.settled READY EVIDENCE_FOUND"},
		13: {"tool.settled READY EVIDENCE_FOUND"},
	} {
		d := newDriver(t, testRules())
		d.start(fmt.Sprintf(`"run_bytes":%d`, request+more))
		d.call("c1", "search", `{"q":1}`)
		steps := d.result("web", "c1", succeeded(raw))
		expect(t, fmt.Sprintf("%d bytes left", more), steps, want...)
		p := payload[*events.ToolSettled](t, steps, 0)
		used := d.runs["r1"].Usage.RunBytes
		if more >= 12 {
			if used != int64(request+12) || p.Limit != "" || !p.RawStored {
				t.Errorf("%d bytes left: used %d, settled %+v", more, used, p)
			}
			continue
		}
		// The result is not counted and not kept, but its size is told.
		if used != int64(request) || p.Limit != "run_bytes" || p.RawStored || p.RawDigest != "" || p.RawBytes != 6 || p.Result != nil {
			t.Errorf("%d bytes left: used %d, settled %+v", more, used, p)
		}
	}
}

func TestBytesOfAFailedCallCountToo(t *testing.T) {
	request := len(callData("r1", "c1", "search", `{"q":1}`))
	for more, want := range map[int]string{4: "tool.settled ERROR BUDGET_EXHAUSTED", 5: "tool.settled ERROR TOOL_EXECUTION_FAILED"} {
		d := newDriver(t, testRules())
		d.start(fmt.Sprintf(`"run_bytes":%d`, request+more))
		d.call("c1", "search", `{"q":1}`)
		if got := brief(d.result("web", "c1", `"outcome":"FAILED","result":"err"`))[0]; got != want {
			t.Errorf("%d bytes left: got %q, want %q", more, got, want)
		}
	}
}

func TestTheRequestLimitIsExactInUTF8Bytes(t *testing.T) {
	for over, want := range map[int]string{-1: "tool.reserved", 0: "tool.reserved", 1: "tool.rejected REQUEST_TOO_LARGE"} {
		for _, letter := range []string{"x", "é", "€", "😀"} {
			d := newDriver(t, testRules())
			d.start()
			limit := int(d.rules.Policy.Bytes.Request)
			room := limit + over - len(callData("r1", "c1", "search", `{"q":""}`))
			text := strings.Repeat("x", room%len(letter)) + strings.Repeat(letter, room/len(letter))
			expect(t, fmt.Sprintf("limit%+d of %s", over, letter), d.call("c1", "search", `{"q":"`+text+`"}`), want)
		}
	}
}

func TestTheRawResponseLimitIsExactInUTF8Bytes(t *testing.T) {
	for over, want := range map[int]string{-1: "tool.settled READY EVIDENCE_FOUND", 0: "tool.settled READY EVIDENCE_FOUND", 1: "tool.settled ERROR RESULT_TOO_LARGE"} {
		rules := testRules()
		rules.Policy.Bytes.RawResponse, rules.Policy.Bytes.AgentResult = 20, 100
		d := newDriver(t, rules)
		d.start()
		d.call("c1", "search", `{"q":1}`)
		used := d.runs["r1"].Usage.RunBytes
		steps := d.result("web", "c1", succeeded(`"`+strings.Repeat("x", 2+over)+strings.Repeat("😀", 4)+`"`))
		expect(t, fmt.Sprintf("limit%+d", over), steps, want)
		p := payload[*events.ToolSettled](t, steps, 0)
		if p.RawBytes != int64(20+over) {
			t.Errorf("limit%+d: told %d raw bytes", over, p.RawBytes)
		}
		if over > 0 && (p.RawStored || p.RawDigest != "" || p.Result != nil || d.runs["r1"].Usage.RunBytes != used) {
			t.Errorf("a response over the limit was kept or counted: %+v", p)
		}
	}
}

func TestTheRecordLimitCountsRequestAndRawResponseTogether(t *testing.T) {
	request := int64(len(callData("r1", "c1", "search", `{"q":1}`)))
	for over, want := range map[int]string{-1: "tool.settled READY EVIDENCE_FOUND", 0: "tool.settled READY EVIDENCE_FOUND", 1: "tool.settled ERROR RESULT_TOO_LARGE"} {
		rules := testRules()
		rules.Policy.Bytes.Record = request + 20
		d := newDriver(t, rules)
		d.start()
		d.call("c1", "search", `{"q":1}`)
		expect(t, fmt.Sprintf("limit%+d", over), d.result("web", "c1", succeeded(`"`+strings.Repeat("é", 8)+strings.Repeat("x", 2+over)+`"`)), want)
	}
}

func TestTheAgentResultLimitIsExactInUTF8Bytes(t *testing.T) {
	for over, want := range map[int]string{-1: "tool.settled READY EVIDENCE_FOUND", 0: "tool.settled READY EVIDENCE_FOUND", 1: "tool.settled ERROR RESULT_TOO_LARGE"} {
		rules := testRules()
		rules.Policy.Bytes.AgentResult = 20
		d := newDriver(t, rules)
		d.start()
		d.call("c1", "search", `{"q":1}`)
		raw := `"` + strings.Repeat("€", 5) + strings.Repeat("x", 3+over) + `"`
		steps := d.result("web", "c1", succeeded(raw))
		expect(t, fmt.Sprintf("limit%+d", over), steps, want)
		p := payload[*events.ToolSettled](t, steps, 0)
		if !p.RawStored || p.RawBytes != int64(len(raw)) {
			t.Errorf("limit%+d: the raw response must be kept: %+v", over, p)
		}
		if over > 0 && p.Result != nil {
			t.Errorf("an agent result over the limit was shown: %s", p.Result)
		}
	}
}

func TestAResultThatItsExecutorCouldNotPublishIsTooLargeWhateverItsSize(t *testing.T) {
	for _, size := range []string{"1", "5000000", "9223372036854775807"} {
		d := newDriver(t, testRules())
		d.start()
		d.call("c1", "search", `{"q":1}`)
		steps := d.result("web", "c1", `"outcome":"TOO_LARGE","size":`+size)
		expect(t, size, steps, "tool.settled ERROR RESULT_TOO_LARGE")
		p := payload[*events.ToolSettled](t, steps, 0)
		if fmt.Sprint(p.RawBytes) != size || p.RawStored || p.RawDigest != "" {
			t.Errorf("size %s: settled %+v", size, p)
		}
	}
}

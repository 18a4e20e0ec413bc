package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"runledger/internal/events"
)

func TestNamesHaveAWidthAndComeBack(t *testing.T) {
	if got := runName(42); got != "run-0000042" {
		t.Errorf("run 42 is %q", got)
	}
	if got := callName(9_000_000_001); got != "call-9000000001" {
		t.Errorf("call 9000000001 is %q", got)
	}
	if n, ok := callNumber("call-9000000001"); n != 9_000_000_001 || !ok {
		t.Errorf("call-9000000001 is %d, %v", n, ok)
	}
	for _, wrong := range []string{"", "call-", "call-1", "run-0000000001", "call-00000000x1", "call--000000001"} {
		if n, ok := callNumber(wrong); ok {
			t.Errorf("%q is call %d", wrong, n)
		}
	}
}

func TestRequestsHaveTheirSizeAndTheirOwnArguments(t *testing.T) {
	for _, size := range []int{minArguments, 1024, 4096} {
		p := newPatch(requestData(size))
		var call events.ToolCall
		if err := json.Unmarshal(p.with("run-0000007", "call-0000000009"), &call); err != nil {
			t.Fatal(err)
		}
		if len(call.Arguments) != size || call.RunID != "run-0000007" || call.ToolCallID != "call-0000000009" {
			t.Errorf("size %d: got %d bytes of arguments, run %s, call %s", size, len(call.Arguments), call.RunID, call.ToolCallID)
		}
		// Two calls with the same arguments and results would be a run that
		// repeats itself.
		if !bytes.Contains(call.Arguments, []byte(`"account":"call-0000000009"`)) {
			t.Errorf("the arguments are those of any call: %.100s", call.Arguments)
		}
	}
}

func TestResultsHaveTheirSize(t *testing.T) {
	for _, size := range []int{minResult, 4096, 65536, maxResult} {
		head, tail := resultData(size)
		data := append(append(newPatch(head).with("run-0000007", "call-0000000009"), "run-0000007.12"...), tail...)
		var result events.ToolResult
		if err := json.Unmarshal(data, &result); err != nil {
			t.Fatal(err)
		}
		if len(result.Result) != size || result.DispatchID != "run-0000007.12" || result.RunID != "run-0000007" || result.ToolCallID != "call-0000000009" {
			t.Errorf("size %d: got %d bytes, %s %s %s", size, len(result.Result), result.RunID, result.ToolCallID, result.DispatchID)
		}
	}
}

func TestAPatchReplacesWhatWasThereBefore(t *testing.T) {
	p := newPatch([]byte(`a run-0000000 b call-0000000000 c run-0000000`))
	for _, want := range []string{`a run-0000001 b call-0000000002 c run-0000001`, `a run-0000003 b call-0000000004 c run-0000003`} {
		words := strings.Fields(want)
		if got := string(p.with(words[1], words[3])); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestToolCallIDIsFoundInFactsDispatchesAndResults(t *testing.T) {
	for data, want := range map[string]string{
		`{"tool_call_id":"call-0000000001","tool":"x"}`:              "call-0000000001",
		`{"run_id":"r","tool_call_id":"call-0000000002","tool":"x"}`: "call-0000000002",
		`{"run_id":"r"}`:          "",
		`{"tool_call_id":"call-0`: "",
	} {
		if got, ok := toolCallID([]byte(data)); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v", data, got, ok)
		}
	}
}

func TestKindOfAFactIsTheEndOfItsSubject(t *testing.T) {
	for subject, want := range map[string]events.Kind{
		"harness.v1.run.bench.run-0000001.tool.settled":     events.KindToolSettled,
		"harness.v1.run.bench.run-0000001.tool.rejected.17": events.KindToolRejected,
		"harness.v1.run.bench.run-0000001":                  "",
	} {
		if got := kindOf(subject); got != want {
			t.Errorf("%s: got %q, want %q", subject, got, want)
		}
	}
}

func TestAnswersOfStreams(t *testing.T) {
	for data, want := range map[string]uint64{
		`{"stream":"RUNS","seq":12}`:                12,
		`{"stream":"RUNS", "seq": 13}`:              13,
		`{"stream":"RUNS","domain":"d","seq":14}`:   14,
		`{"stream":"IN","seq":15,"duplicate":true}`: 15,
	} {
		if got, err := ackSequence([]byte(data)); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", data, got, err, want)
		}
	}
	for _, data := range []string{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence"}}`, `oops`, ``} {
		if got, err := ackSequence([]byte(data)); err == nil {
			t.Errorf("%s: got %d and no error", data, got)
		}
	}
}

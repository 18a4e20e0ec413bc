package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"runledger/internal/audit"
	"runledger/internal/events"
)

func TestSummaryIsAlignedAndNamesViolations(t *testing.T) {
	var out bytes.Buffer
	err := WriteSummary(&out, &audit.Report{
		Runs: 50, Calls: 282, Reserved: 205, Ready: 205, EvidenceFound: 172, NoEvidence: 33,
		Rejected: map[string]int64{"DUPLICATE_TOOL_CALL": 10, "NOT_READ_ONLY": 67}, Terminated: map[string]int64{"SUCCESS": 50},
		Facts: 737, SequenceGaps: 1, Seconds: 1.234, Violations: []string{"fact 5 of run r follows 3: a gap"}, ViolationCount: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `Summary  counted from the streams, 1.23 s
  runs       50  SUCCESS 50
  calls     282
  reserved  205  READY 205, ERROR 0
  evidence  172  found, and 33 calls without
  rejected   77  NOT_READ_ONLY 67, DUPLICATE_TOOL_CALL 10
  facts     737  1 × sequence gap, no duplicate dispatch
  ✗ fact 5 of run r follows 3: a gap
`
	if out.String() != want {
		t.Errorf("got\n%s, want\n%s", out.String(), want)
	}
}

func TestTimelineIsAligned(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(1_000_000 + ms) }
	same := true
	fact := func(sequence uint64, ms int64, payload events.Payload) *events.Fact {
		return &events.Fact{Agent: "demo", Run: "r1", Sequence: sequence, Time: at(ms), Payload: payload}
	}
	var out bytes.Buffer
	err := WriteTimeline(&out, &Timeline{Run: "r1", Facts: []*events.Fact{
		fact(1, 0, &events.RunStarted{Deadline: at(600_000), Policy: "sha256:0123456789abcdef0123"}),
		fact(2, 12, &events.ToolReserved{Tool: "calculate", ToolCallID: "call_1"}),
		fact(3, 20, &events.ToolSettled{Tool: "calculate", Status: events.StatusReady, Evidence: events.EvidenceFound, Result: []byte("1.0"), RawBytes: 2048}),
		fact(4, 21, &events.ToolRejected{Tool: "th\x1bink", ToolCallID: strings.Repeat("x", 40), Code: events.CodeDuplicateToolCall, SameArguments: &same}),
		fact(5, 30, &events.ToolSettled{Tool: "think", Status: events.StatusError, Code: events.CodeToolTimeout}),
		fact(6, 30, &events.ModelGranted{Operation: events.OperationIntentRouter, OperationID: "route-1", Attempt: 2}),
		fact(7, 30, &events.ModelRecorded{Operation: events.OperationIntentRouter, OperationID: "route-1", Attempt: 2, Outcome: events.AttemptFailed, Failure: events.FailureTransport}),
		fact(8, 30, &events.ModelRecorded{Operation: events.OperationDiagnosisAgent, OperationID: "t", Attempt: 1, Outcome: events.AttemptSucceeded, Usage: &events.TokenUsage{InputTokens: 1200, OutputTokens: 34}, Limit: "input_tokens"}),
		fact(9, 30, &events.ModelRejected{Operation: events.OperationDiagnosisAgent, OperationID: "t", Code: events.CodeRetryNotAllowed}),
		fact(10, 30, &events.ProgressInvalid{Step: 1, RepairsLeft: 1, Code: events.InvalidProgressProtocol, Violations: []events.Violation{{Code: events.ViolationNoEvidence, ToolCallID: "call_1"}, {Code: events.ViolationUnsupported, Claim: 1}}}),
		fact(11, 30, &events.ProgressAccepted{Step: 1, Claims: 3, Final: true}),
		fact(12, 31, &events.RunReleased{Reason: events.ReleaseStalled, GraceUntil: at(30_031)}),
		fact(13, 31, &events.RunEnding{Outcome: events.OutcomeSuccess, Reason: "FINISHED_BY_AGENT"}),
		fact(14, 31, &events.RunProgress{Observed: make([]events.Observation, 2), LeftOut: map[string]int64{"MISSING": 1, "ERROR": 2}, Steps: 1, Final: true}),
		fact(15, 1031, &events.RunTerminated{Outcome: events.OutcomeSuccess, Usage: events.Usage{ToolCalls: 2, ModelCalls: 1, TotalTokens: 1234, UnknownUsage: 1, RunBytes: 100}}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := `r1  agent demo  SUCCESS after 1.031 s
   1  0.000 s  run.started                         deadline in 10m0s, policy 0123456789ab
   2  0.012 s  tool.reserved      calculate        call_1
   3  0.020 s  tool.settled       calculate        READY  EVIDENCE_FOUND  3 B of 2.0 KiB
   4  0.021 s  tool.rejected      th�ink           DUPLICATE_TOOL_CALL  xxxxxxxxxxxxxxx…xxxxxxxxxxxxxxx
   5  0.030 s  tool.settled       think            ERROR  TOOL_TIMEOUT
   6  0.030 s  model.granted      INTENT_ROUTER    attempt 2  route-1
   7  0.030 s  model.recorded     INTENT_ROUTER    FAILED  TRANSPORT  usage unknown
   8  0.030 s  model.recorded     DIAGNOSIS_AGENT  SUCCEEDED  1200 tokens in, 34 out, which passes input_tokens
   9  0.030 s  model.rejected     DIAGNOSIS_AGENT  RETRY_NOT_ALLOWED  t
  10  0.030 s  progress.invalid   step 1           NO_EVIDENCE  call_1 and 1 more, 1 repair left
  11  0.030 s  progress.accepted  step 1, final    3 claims
  12  0.031 s  run.released                        PROGRESS_STALLED, to be finished within 30s
  13  0.031 s  run.ending                          SUCCESS, FINISHED_BY_AGENT
  14  0.031 s  run.progress                        2 observed, 2 left out as ERROR, 1 left out as MISSING, 1 step, final
  15  1.031 s  run.terminated                      2 tool calls, 1 model call, 1234 tokens and 1 × unknown, 100 B
`
	if out.String() != want {
		t.Errorf("got\n%s, want\n%s", out.String(), want)
	}
}

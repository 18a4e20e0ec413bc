package client

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
)

func TestReportThatHoldsIsAccepted(t *testing.T) {
	run, s := startRun(t, ordinary)
	err := run.Report(testContext(t), Report{Step: 1, Final: true, Claims: []Claim{
		{Text: "a seat is free", Supports: []string{"c1", "c2"}}, {Text: "no train goes", Negative: true, Supports: []string{"c3"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"run_id":"r1","step":1,"claims":[{"text":"a seat is free","supports":["c1","c2"]},` +
		`{"text":"no train goes","negative":true,"supports":["c3"]}],"final":true}`
	if got := string(s.intents(events.VerbProgressReport)[0].Data); got != want {
		t.Errorf("reported\n%s, want\n%s", got, want)
	}
	if err := run.Report(testContext(t), Report{Step: 2}); err != nil {
		t.Fatal(err)
	}
	if got, want := string(s.intents(events.VerbProgressReport)[1].Data), `{"run_id":"r1","step":2,"claims":[]}`; got != want {
		t.Errorf("reported %s, want %s", got, want)
	}
}

func TestReportThatDoesNotHoldNamesEachViolationAndIsRepairedUnderItsStep(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if p, ok := in.Payload.(*events.ProgressReport); ok && len(p.Claims) > 0 {
			s.decide(in, &events.ProgressInvalid{
				RunID: in.Run, Code: events.InvalidProgressProtocol, Message: "Repair it.", Step: p.Step, RepairsLeft: 2,
				Violations: []events.Violation{{Code: events.ViolationStep, Claim: -1}, {Code: events.ViolationNoEvidence, Claim: 0, ToolCallID: "c1"}},
			})
			return
		}
		ordinary(s, in)
	})
	err := run.Report(testContext(t), Report{Step: 3, Claims: []Claim{{Text: "x", Supports: []string{"c1"}}}})
	var invalid *InvalidProgressError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want an InvalidProgressError", err)
	}
	want := &InvalidProgressError{RunID: "r1", Step: 3, Message: "Repair it.", RepairsLeft: 2, Violations: []Violation{
		{Code: ViolationStep, Claim: -1}, {Code: ViolationNoEvidence, Claim: 0, ToolCallID: "c1"},
	}}
	if diff := cmp.Diff(want, invalid); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := err.Error(), `progress report of step 3 in run r1 does not hold: STEP_OUT_OF_ORDER, NO_EVIDENCE in claim 0 of call "c1"; it may be wrong 2 more times`; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if err := run.Report(testContext(t), Report{Step: 3}); err != nil {
		t.Errorf("the repaired report: %v", err)
	}
}

func TestReportThatIsRefusedIsARejectedOrAnEndedError(t *testing.T) {
	code := events.CodeRunNotFound
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if p, ok := in.Payload.(*events.ProgressReport); ok {
			s.outside(in, &events.ProgressInvalid{RunID: in.Run, Code: string(code), Message: code.Message(), Step: p.Step})
			return
		}
		ordinary(s, in)
	})
	var rejected *RejectedError
	err := run.Report(testContext(t), Report{Step: 1})
	want := RejectedError{RunID: "r1", Intent: "progress.report", Code: CodeRunNotFound, Message: "There is no such run."}
	if !errors.As(err, &rejected) || *rejected != want {
		t.Errorf("got %v, want %+v", err, want)
	}
	code = events.CodeRunNotActive
	var ended *EndedError
	if err := run.Report(testContext(t), Report{Step: 1}); !errors.As(err, &ended) {
		t.Errorf("got %v, want an EndedError", err)
	}
}

func TestReportThatNoEventCouldCarryIsNotPublished(t *testing.T) {
	run, s := startRun(t, ordinary)
	if err := run.Report(testContext(t), Report{Step: 1, Claims: []Claim{{Text: "\xff"}}}); err == nil {
		t.Error("want an error")
	}
	if n := len(s.intents(events.VerbProgressReport)); n != 0 {
		t.Errorf("%d reports were published, want none", n)
	}
}

func TestReleaseIsToldAndCallsAreRefusedAfterIt(t *testing.T) {
	until := time.UnixMilli(1_900_000_000_000).UTC()
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		switch p := in.Payload.(type) {
		case *events.ProgressReport:
			s.decide(in, &events.ProgressInvalid{RunID: in.Run, Code: events.InvalidProgressProtocol, Step: p.Step})
			s.due(in, &events.RunReleased{Reason: events.ReleaseProtocolViolated, GraceUntil: until})
		case *events.ToolCall:
			s.decide(in, &events.ToolRejected{RunID: in.Run, ToolCallID: p.ToolCallID, Code: events.CodeRunReleased})
		case *events.ModelCall:
			s.refuseModel(in, events.CodeRunReleased)
		case *events.RunFinish:
			s.decide(in, &events.RunEnding{Outcome: events.OutcomeFailed, Reason: string(events.ReleaseProtocolViolated)})
			s.terminate(in, events.OutcomeFailed, string(events.ReleaseProtocolViolated))
		default:
			ordinary(s, in)
		}
	})
	if _, ok := run.Release(); ok {
		t.Error("released before anything was wrong")
	}
	select {
	case <-run.Released():
		t.Error("Released is closed before anything was wrong")
	default:
	}
	var invalid *InvalidProgressError
	if err := run.Report(testContext(t), Report{Step: 1}); !errors.As(err, &invalid) {
		t.Errorf("got %v, want an InvalidProgressError", err)
	}
	select {
	case <-run.Released():
	case <-testContext(t).Done():
		t.Fatal("Released is open after run.released")
	}
	if release, ok := run.Release(); !ok || release.Reason != ReleaseProtocolViolated || !release.GraceUntil.Equal(until) {
		t.Errorf("release %+v, %v", release, ok)
	}
	_, callErr := run.Call(testContext(t), Call{ID: "c", Tool: "t"})
	var made []int
	_, modelErr := run.Model(testContext(t), routing(), failing(FailureTransport, &made))
	for _, err := range []error{callErr, modelErr} {
		var rejected *RejectedError
		if !errors.As(err, &rejected) || rejected.Code != CodeRunReleased {
			t.Errorf("got %v, want RUN_RELEASED", err)
		}
	}
	end, err := run.Finish(testContext(t), OutcomeSuccess)
	var ended *EndedError
	if !errors.As(err, &ended) || end == nil || end.Outcome != OutcomeFailed || end.Reason != ReleaseProtocolViolated {
		t.Errorf("finish: got %+v, %v, want FAILED for PROGRESS_PROTOCOL_VIOLATED", end, err)
	}
}

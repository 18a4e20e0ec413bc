package harness_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
	"runledger/internal/harness"
)

func TestFactsOfModelsAndProgressChangeWhatTheySay(t *testing.T) {
	c := newChain(t)
	c.mustApply(granted("o1", 1))
	want := *c.state.Run
	want.Usage = events.Usage{ModelCalls: 1}
	cause := func(sequence uint64) events.Cause {
		return events.Cause{Source: "/a", ID: "e", Sequence: sequence, Decision: true}
	}
	check := func(what string, operation harness.ModelOperation) {
		t.Helper()
		run := c.state.Run
		want.Sequence, want.Stream, want.Digest, want.Inbound = run.Sequence, run.Stream, run.Digest, run.Inbound // shown elsewhere
		if diff := cmp.Diff(want, *run); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", what, diff)
		}
		if diff := cmp.Diff(map[string]*harness.ModelOperation{"o1": &operation}, c.state.Operations); diff != "" {
			t.Errorf("%s: operations (-want +got)\n%s", what, diff)
		}
	}
	check("granted", harness.ModelOperation{ID: "o1", Operation: "INTENT_ROUTER", Attempts: 1, Open: true, Granted: cause(20)})

	c.mustApply(recordedOf("o1", 1, 3, ""))
	want.KnownUsage, want.Usage.InputTokens, want.Usage.TotalTokens = 1, 3, 3
	check("recorded", harness.ModelOperation{ID: "o1", Operation: "INTENT_ROUTER", Attempts: 1, Failure: "TRANSPORT", Granted: cause(20), Reported: cause(30)})

	c.mustApply(granted("o1", 2))
	want.Usage.ModelCalls = 2
	check("granted again", harness.ModelOperation{ID: "o1", Operation: "INTENT_ROUTER", Attempts: 2, Open: true, Granted: cause(40), Reported: cause(30)})

	c.mustApply(&events.ModelRecorded{Operation: "INTENT_ROUTER", OperationID: "o1", Attempt: 2, Outcome: "SUCCEEDED"})
	done := harness.ModelOperation{ID: "o1", Operation: "INTENT_ROUTER", Attempts: 2, Succeeded: true, Granted: cause(40), Reported: cause(50)}
	check("recorded without usage", done)
	if used := c.state.Run.Used(); used.UnknownUsage != 1 || used.ModelCalls != 2 {
		t.Errorf("used %+v, want one of two unknown", used)
	}

	c.mustApply(&events.ModelRejected{Code: "RETRY_NOT_ALLOWED"}, &events.ProgressAccepted{Step: 1, Claims: 2})
	want.Step, want.ReportSource, want.ReportID = 1, "/a", "e"
	check("accepted", done)
	c.mustApply(&events.ProgressInvalid{Code: "INVALID_PROGRESS_PROTOCOL", Step: 2}, &events.ProgressInvalid{Code: "RUN_MISMATCH"})
	want.Invalid = 1
	check("one wrong and one refused", done)
	c.mustApply(&events.ProgressAccepted{Step: 2, Final: true}, released)
	want.Step, want.Final, want.Released, want.GraceUntil = 2, true, "PROGRESS_STALLED", after(10*time.Second)
	check("final and released", done)
}

func TestAnOperationThatIsNotLoadedIsKnownFromTheFactButForItsCauses(t *testing.T) {
	c := newChain(t).mustApply(granted("o1", 1), recordedOf("o1", 1, 1, ""))
	c.state.Operations = nil // as where facts are made good on a run that was loaded alone
	c.mustApply(granted("o1", 2))
	want := &harness.ModelOperation{ID: "o1", Operation: "INTENT_ROUTER", Attempts: 2, Open: true, Granted: events.Cause{Source: "/a", ID: "e", Sequence: 40, Decision: true}}
	if diff := cmp.Diff(want, c.state.Operations["o1"]); diff != "" {
		t.Errorf("granted: (-want +got)\n%s", diff)
	}
	c.state.Operations = nil
	c.mustApply(recordedOf("o1", 2, 1, ""))
	want = &harness.ModelOperation{ID: "o1", Operation: "INTENT_ROUTER", Attempts: 2, Failure: "TRANSPORT", Reported: events.Cause{Source: "/a", ID: "e", Sequence: 50, Decision: true}}
	if diff := cmp.Diff(want, c.state.Operations["o1"]); diff != "" {
		t.Errorf("recorded: (-want +got)\n%s", diff)
	}
}

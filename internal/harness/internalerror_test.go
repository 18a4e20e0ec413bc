package harness_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
	"runledger/internal/harness"
)

func TestAnEventThatCouldNotBeDecidedIsAnsweredByKindAndWithoutItsCause(t *testing.T) {
	const message = "The event could not be processed; an operator has been told."
	for verb, want := range map[events.Verb]events.Payload{
		events.VerbRunStart:       &events.RunRejected{RunID: "r1", Intent: "run.start", Code: "INTERNAL_ERROR", Message: message},
		events.VerbRunCancel:      &events.RunRejected{RunID: "r1", Intent: "run.cancel", Code: "INTERNAL_ERROR", Message: message},
		events.VerbRunFinish:      &events.RunRejected{RunID: "r1", Intent: "run.finish", Code: "INTERNAL_ERROR", Message: message},
		events.VerbToolCall:       &events.ToolRejected{RunID: "r1", Code: "INTERNAL_ERROR", Message: message},
		events.VerbModelCall:      &events.ModelRejected{RunID: "r1", Intent: "model.call", Code: "INTERNAL_ERROR", Message: message},
		events.VerbModelReport:    &events.ModelRejected{RunID: "r1", Intent: "model.report", Code: "INTERNAL_ERROR", Message: message},
		events.VerbProgressReport: &events.ProgressInvalid{RunID: "r1", Code: "INTERNAL_ERROR", Message: message},
	} {
		in := &events.Inbound{
			Address:  events.Address{Role: events.RoleAgent, Principal: "alice", Run: "r1", Verb: verb},
			Sequence: 7, ID: "e", Source: "/a",
			Payload: &events.ToolCall{ToolCallID: "c1", Tool: "secret"}, // what it held is not repeated
		}
		fact := harness.Internal(in, noon)
		if diff := cmp.Diff(want, fact.Payload); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", verb, diff)
		}
		if fact.Agent != "alice" || fact.Run != "r1" || fact.Sequence != 0 || fact.OutsideKey != "in-7" || !fact.Time.Equal(noon) || !fact.Cause.Decision || fact.Cause.Sequence != 7 {
			t.Errorf("%s: the fact is %+v", verb, fact)
		}
	}
}

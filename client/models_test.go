package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"runledger/internal/events"
)

var errModel = errors.New("the model failed")

func routing() ModelCall { return ModelCall{Operation: OperationIntentRouter, ID: "route-1"} }

// failing is an attempt that always fails so, and counts how often it was made.
func failing(class FailureClass, made *[]int) AttemptFunc {
	return func(_ context.Context, attempt int) (*TokenUsage, error) {
		*made = append(*made, attempt)
		return nil, Classify(class, errModel)
	}
}

func TestModelAttemptIsGrantedThenMadeThenReportedWithItsUsage(t *testing.T) {
	run, s := startRun(t, ordinary)
	attempts, err := run.Model(testContext(t), ModelCall{Operation: OperationDiagnosisAgent, ID: "turn-1"},
		func(ctx context.Context, attempt int) (*TokenUsage, error) {
			if granted, reported := len(s.intents(events.VerbModelCall)), len(s.intents(events.VerbModelReport)); granted != 1 || reported != 0 {
				t.Errorf("made after %d grants and %d reports, want 1 and 0", granted, reported)
			}
			return &TokenUsage{InputTokens: 120, OutputTokens: 7, TotalTokens: 130}, ctx.Err()
		})
	if err != nil {
		t.Fatal(err)
	}
	want := []Attempt{{Number: 1, Usage: &TokenUsage{InputTokens: 120, OutputTokens: 7, TotalTokens: 130}}}
	if diff := cmp.Diff(want, attempts, cmpopts.IgnoreFields(Attempt{}, "Began", "Ended")); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if made := attempts[0]; made.Began.IsZero() || made.Ended.Before(made.Began) {
		t.Errorf("the attempt began at %v and ended at %v", made.Began, made.Ended)
	}
	if got, want := string(s.intents(events.VerbModelCall)[0].Data), `{"run_id":"r1","operation":"DIAGNOSIS_AGENT","operation_id":"turn-1"}`; got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
	wantReport := `{"run_id":"r1","operation":"DIAGNOSIS_AGENT","operation_id":"turn-1","attempt":1,"outcome":"SUCCEEDED",` +
		`"usage":{"input_tokens":120,"output_tokens":7,"total_tokens":130}}`
	if got := string(s.intents(events.VerbModelReport)[0].Data); got != wantReport {
		t.Errorf("reported\n%s, want\n%s", got, wantReport)
	}
}

func TestUsageThatNobodyKnowsIsReportedAsNullAndNeverAsZero(t *testing.T) {
	run, s := startRun(t, ordinary)
	const null, zero = `"outcome":"SUCCEEDED","usage":null}`, `"outcome":"SUCCEEDED","usage":{"input_tokens":0,"output_tokens":0}}`
	for i, c := range []struct {
		name  string
		usage *TokenUsage
		want  string
	}{
		{"none", nil, null},
		{"zero is known", &TokenUsage{}, zero},
		{"a negative count is none", &TokenUsage{InputTokens: 5, OutputTokens: -1}, null},
		{"a count beyond the protocol's is none", &TokenUsage{TotalTokens: 1<<40 + 1}, null},
	} {
		attempts, err := run.Model(testContext(t), ModelCall{Operation: OperationDiagnosisAgent, ID: fmt.Sprint("turn-", i)},
			func(context.Context, int) (*TokenUsage, error) { return c.usage, nil })
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := string(s.intents(events.VerbModelReport)[i].Data); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: reported %s, want it to end in %s", c.name, got, c.want)
		}
		if known := attempts[0].Usage != nil; known != (c.want == zero) {
			t.Errorf("%s: the attempt has usage %v", c.name, attempts[0].Usage)
		}
	}
}

func TestRouterTransportFailureSucceedsOnRetryAndBothAttemptsAreRecorded(t *testing.T) {
	run, s := startRun(t, ordinary)
	answer := ""
	attempts, err := run.Model(testContext(t), routing(), func(_ context.Context, attempt int) (*TokenUsage, error) {
		if attempt == 1 {
			return nil, Classify(FailureTransport, errModel)
		}
		answer = fmt.Sprint("answer of attempt ", attempt)
		return &TokenUsage{InputTokens: 3, OutputTokens: 1}, nil
	})
	if err != nil || answer != "answer of attempt 2" {
		t.Fatalf("got %q, %v, want the answer of attempt 2", answer, err)
	}
	if len(attempts) != 2 || attempts[0].Failure != FailureTransport || !errors.Is(attempts[0].Err, errModel) ||
		attempts[1].Number != 2 || attempts[1].Failure != "" || attempts[1].Err != nil {
		t.Errorf("attempts %+v, want one that failed as TRANSPORT and one that succeeded", attempts)
	}
	reports := s.intents(events.VerbModelReport)
	if len(reports) != 2 {
		t.Fatalf("%d reports, want 2", len(reports))
	}
	first, second := reports[0].Payload.(*events.ModelReport), reports[1].Payload.(*events.ModelReport)
	if first.Attempt != 1 || first.Outcome != events.AttemptFailed || first.Failure != events.FailureTransport || first.Usage != nil {
		t.Errorf("first report %+v", first)
	}
	if second.Attempt != 2 || second.Outcome != events.AttemptSucceeded || second.Failure != "" || second.Usage == nil {
		t.Errorf("second report %+v", second)
	}
}

func TestEachOperationIsAttemptedAsOftenAsItsPolicyAllowsAfterEachFailure(t *testing.T) {
	run, s := startRun(t, ordinary) // which would grant any number of attempts
	type retried map[FailureClass]bool
	policies := map[Operation]retried{
		OperationIntentRouter:   {FailureTransport: true, FailureTimeout: true, FailureRateLimited: true, FailureUnavailable: true, FailureInvalidResponse: true},
		OperationSemanticGuard:  {FailureTransport: true, FailureTimeout: true, FailureRateLimited: true, FailureUnavailable: true},
		OperationDiagnosisAgent: {},
		OperationEvidenceRepair: {},
	}
	asked := 0
	for op, retries := range policies {
		for _, class := range failureClasses() {
			want := 1
			if retries[class] {
				want = 2
			}
			var made []int
			attempts, err := run.Model(testContext(t), ModelCall{Operation: op, ID: string(op) + "-" + string(class)}, failing(class, &made))
			if !errors.Is(err, errModel) || len(made) != want || len(attempts) != want {
				t.Errorf("%s after %s: %d attempts made and %d told, %v, want %d and the model's error", op, class, len(made), len(attempts), err, want)
			}
			for i, a := range attempts {
				if a.Number != i+1 || made[i] != i+1 || a.Failure != class {
					t.Errorf("%s after %s: attempt %d is %+v", op, class, i+1, a)
				}
			}
			asked += want
		}
	}
	if n := len(s.intents(events.VerbModelCall)); n != asked {
		t.Errorf("asked %d times, want %d", n, asked)
	}
}

func TestProcessorHasTheLastWordOnAFurtherAttempt(t *testing.T) {
	run, s := startRun(t, func(s *script, in *events.Inbound) {
		if in.Verb == events.VerbModelCall && len(s.intents(events.VerbModelCall)) > 1 {
			s.refuseModel(in, events.CodeRetryNotAllowed)
			return
		}
		ordinary(s, in)
	})
	var made []int
	attempts, err := run.Model(testContext(t), routing(), failing(FailureTransport, &made))
	if !errors.Is(err, errModel) || len(made) != 1 || len(attempts) != 1 {
		t.Errorf("made %d, told %d, %v, want one attempt and its error", len(made), len(attempts), err)
	}
	if n := len(s.intents(events.VerbModelCall)); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
}

func TestAttemptHasTheNumberThatWasGranted(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if p, ok := in.Payload.(*events.ModelCall); ok { // the first was made by a process that is gone
			s.decide(in, &events.ModelGranted{Operation: p.Operation, OperationID: p.OperationID, Attempt: 2})
			return
		}
		ordinary(s, in)
	})
	var made []int
	attempts, err := run.Model(testContext(t), routing(), failing(FailureTransport, &made))
	if !errors.Is(err, errModel) || len(made) != 1 || made[0] != 2 || len(attempts) != 1 || attempts[0].Number != 2 {
		t.Errorf("made %v, told %+v, %v, want attempt 2 alone", made, attempts, err)
	}
}

func TestModelCallThatIsRefusedIsNotMade(t *testing.T) {
	for _, code := range []events.Code{events.CodeRunReleased, events.CodeRetryNotAllowed, events.CodeBudgetExhausted, events.CodeInvalidEnvelope} {
		run, _ := startRun(t, func(s *script, in *events.Inbound) {
			if in.Verb == events.VerbModelCall {
				s.refuseModel(in, code)
				return
			}
			ordinary(s, in)
		})
		var made []int
		attempts, err := run.Model(testContext(t), routing(), failing(FailureTransport, &made))
		var rejected *RejectedError
		if !errors.As(err, &rejected) || len(made) != 0 || len(attempts) != 0 {
			t.Errorf("%s: made %d, told %d, %v, want none and a RejectedError", code, len(made), len(attempts), err)
			continue
		}
		want := RejectedError{
			RunID: "r1", Intent: "model.call", Operation: OperationIntentRouter, OperationID: "route-1",
			Code: Code(code), Message: code.Message(),
		}
		if *rejected != want {
			t.Errorf("got %+v, want %+v", *rejected, want)
		}
		if got, want := err.Error(), `model.call "route-1" in run r1 was refused: `+string(code)+": "; !strings.HasPrefix(got, want) {
			t.Errorf("text %q, want it to begin with %q", got, want)
		}
	}
}

func TestReportThatIsRefusedIsToldWithTheFailureOfTheAttempt(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if in.Verb == events.VerbModelReport {
			s.refuseModel(in, events.CodeAttemptNotOpen)
			return
		}
		ordinary(s, in)
	})
	var made []int
	attempts, err := run.Model(testContext(t), routing(), failing(FailureTransport, &made))
	var rejected *RejectedError
	if !errors.As(err, &rejected) || rejected.Code != CodeAttemptNotOpen || rejected.Intent != "model.report" || !errors.Is(err, errModel) {
		t.Errorf("got %v, want ATTEMPT_NOT_OPEN and the model's error", err)
	}
	if len(made) != 1 || len(attempts) != 1 {
		t.Errorf("made %d, told %d, want the one attempt, and none after a report that is not recorded", len(made), len(attempts))
	}
}

type quotaError struct{}

func (quotaError) Error() string              { return "over quota" }
func (quotaError) FailureClass() FailureClass { return FailureRateLimited }

func TestFailureClassIsThatOfTheErrorAndUnknownOtherwise(t *testing.T) {
	for _, c := range []struct {
		err  error
		want FailureClass
	}{
		{quotaError{}, "RATE_LIMITED"},
		{fmt.Errorf("ask: %w", quotaError{}), "RATE_LIMITED"},
		{Classify(FailureNoEvidence, errModel), "NO_EVIDENCE"},
		{fmt.Errorf("ask: %w", Classify(FailureTimeout, errModel)), "TIMEOUT"},
		{Classify("NONSENSE", errModel), "UNKNOWN"},
		{Classify("", errModel), "UNKNOWN"},
		{errModel, "UNKNOWN"},
		{context.Canceled, "CANCELLED"},
		{context.DeadlineExceeded, "UNKNOWN"},
	} {
		if got := classOf(c.err); got != c.want {
			t.Errorf("%v: got %s, want %s", c.err, got, c.want)
		}
	}
	if err := Classify(FailureTransport, nil); err != nil {
		t.Errorf("no error, classified: got %v, want none", err)
	}
}

func TestAttemptIsReportedThoughItsCallerHasGivenUpAndNoneFollows(t *testing.T) {
	run, s := startRun(t, ordinary)
	ctx, cancel := context.WithCancel(testContext(t))
	attempts, err := run.Model(ctx, routing(), func(context.Context, int) (*TokenUsage, error) {
		cancel()
		return &TokenUsage{InputTokens: 9}, Classify(FailureTransport, errModel)
	})
	if !errors.Is(err, context.Canceled) || len(attempts) != 1 {
		t.Errorf("got %d attempts, %v, want one and context.Canceled", len(attempts), err)
	}
	reports := s.intents(events.VerbModelReport)
	if len(reports) != 1 || reports[0].Payload.(*events.ModelReport).Usage.InputTokens != 9 {
		t.Errorf("reports %+v, want one with what was used", reports)
	}
}

func TestAttemptEndsWithItsRun(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		ordinary(s, in)
		if in.Verb == events.VerbModelCall { // an operator cancels
			s.due(in, &events.RunEnding{Outcome: events.OutcomeCancelled, Reason: "OPERATOR_REQUESTED"})
			s.terminate(in, events.OutcomeCancelled, "OPERATOR_REQUESTED")
		}
	})
	made, caller := 0, testContext(t)
	_, err := run.Model(caller, routing(), func(ctx context.Context, _ int) (*TokenUsage, error) {
		made++
		<-ctx.Done()
		return nil, Classify(FailureTransport, ctx.Err())
	})
	if caller.Err() != nil {
		t.Error("the attempt ended with its caller, and not with the run")
	}
	var ended *EndedError
	if !errors.As(err, &ended) || ended.Outcome != OutcomeCancelled || made != 1 {
		t.Errorf("made %d attempts, %v, want one and an EndedError", made, err)
	}
}

func TestModelCallInARunThatHasEndedIsAnEndedError(t *testing.T) {
	run, s := startRun(t, ordinary)
	if _, err := run.Finish(testContext(t), OutcomeSuccess); err != nil {
		t.Fatal(err)
	}
	var made []int
	_, err := run.Model(testContext(t), routing(), failing(FailureTransport, &made))
	var ended *EndedError
	if !errors.As(err, &ended) || len(made) != 0 || len(s.intents(events.VerbModelCall)) != 0 {
		t.Errorf("made %d attempts, %v, want none, not even asked for, and an EndedError", len(made), err)
	}
}

func TestGrantThatWasMissedIsNotMade(t *testing.T) {
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		if in.Verb == events.VerbModelCall {
			s.lose(in.Run) // the grant
			s.due(in, &events.RunReleased{Reason: events.ReleaseStalled})
			return
		}
		ordinary(s, in)
	})
	var made []int
	if _, err := run.Model(testContext(t), routing(), failing(FailureTransport, &made)); !errors.Is(err, ErrHistoryGap) || len(made) != 0 {
		t.Errorf("made %d attempts, %v, want none and ErrHistoryGap", len(made), err)
	}
}

func TestModelOperationNeedsAnIDOfTheCallers(t *testing.T) {
	run, s := startRun(t, ordinary)
	var made []int
	for _, id := range []string{"", "\xff"} {
		if _, err := run.Model(testContext(t), ModelCall{Operation: OperationIntentRouter, ID: id}, failing(FailureTransport, &made)); err == nil || !strings.HasPrefix(err.Error(), "ModelCall.ID: ") {
			t.Errorf("%q: got %v, want an error that names ModelCall.ID", id, err)
		}
	}
	if len(made) != 0 || len(s.intents(events.VerbModelCall)) != 0 {
		t.Error("an operation without an id was asked for")
	}
}

func TestOperationThatManyShareIsMadeAsOftenAsItWasGranted(t *testing.T) {
	attempts, open := 0, false // of the one operation, as the processor keeps them
	run, _ := startRun(t, func(s *script, in *events.Inbound) {
		switch p := in.Payload.(type) {
		case *events.ModelCall:
			if open || attempts == 2 {
				s.refuseModel(in, events.CodeRetryNotAllowed)
				return
			}
			attempts, open = attempts+1, true
			s.decide(in, &events.ModelGranted{Operation: p.Operation, OperationID: p.OperationID, Attempt: attempts})
		case *events.ModelReport:
			open = false
			ordinary(s, in)
		default:
			ordinary(s, in)
		}
	})
	var made atomic.Int64
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			told, err := run.Model(testContext(t), routing(), func(context.Context, int) (*TokenUsage, error) {
				made.Add(1)
				return nil, Classify(FailureTransport, errModel)
			})
			if refused := isCode(err, CodeRetryNotAllowed); refused != (len(told) == 0) || refused == errors.Is(err, errModel) {
				t.Errorf("made %d attempts, %v, want the model's error with attempts and a refusal without", len(told), err)
			}
		})
	}
	all.Wait()
	if made.Load() != 2 {
		t.Errorf("%d attempts were made, want the 2 that were granted", made.Load())
	}
}

package storetest

import (
	"reflect"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
)

func roundTrip() map[string]test {
	return map[string]test{
		"EveryFieldOfARunComesBackAsItWas":              everyFieldOfARun,
		"EveryFieldOfARecordComesBackAsItWas":           everyFieldOfARecord,
		"EveryFieldThatLaterFactsChangeComesBack":       everyChangedField,
		"ATimerThatIsNoLongerSetIsForgotten":            timerForgotten,
		"NumbersBeyond2To53AreExact":                    largeNumbers,
		"BytesThatTheCallerLacksAreLeftOut":             lostBytes,
		"ARunThatIsNotThereIsNil":                       absentRun,
		"RunsComeBackInTheOrderAskedAndMayRepeat":       severalRuns,
		"ARecordComesWithTheFactAtWhichItsRunStands":    recordWithSequence,
		"NothingAskedAndNothingProjectedIsNoError":      nothing,
		"AnInstantFinerThanAMillisecondIsRefused":       fineInstant,
		"AToolNameOfAnyCharactersIsCountedUnderItsName": toolNames,
	}
}

func someCause(id string) events.Cause {
	return events.Cause{
		Source: "/agents/ä b/" + id, ID: id + " \"quoted\" ☃", Sequence: 41, Decision: true,
		Trace: events.Trace{Parent: "00-" + id + "-01", State: "a=1,b=2"},
	}
}

// fullRecord is a settled record in which no field is zero.
func fullRecord(call uint64) *harness.Record {
	at := now()
	return &harness.Record{
		RunID: "full", ToolCallID: "call/1", Tool: "tool", Executor: "executor", Call: call,
		Status: events.StatusError, Evidence: events.EvidenceError, Code: events.CodeProjectionFailed,
		ReservedAt: at, Deadline: at.Add(time.Second), ExpiresAt: at.Add(time.Hour), SettledAt: at.Add(time.Millisecond),
		Cause: someCause("intent"), RequestBytes: 3, RequestDigest: "sha256:1", ArgumentsDigest: "sha256:2",
		ResultCause: someCause("result"), RawBytes: 4, RawDigest: "sha256:3", RawStored: true,
		Request: []byte{0, 'r', 255}, RawResponse: []byte("ra\nw"), AgentResult: []byte("result"),
	}
}

// fullRun is a run in which no field is zero, and the record of its open call.
func fullRun() (*harness.Run, *harness.Record) {
	at := now()
	open := fullRecord(6)
	open.ToolCallID, open.Status, open.Evidence, open.Code, open.SettledAt = "call/2", events.StatusProjecting, "", "", time.Time{}
	open.ResultCause, open.RawBytes, open.RawDigest, open.RawStored = events.Cause{}, 0, "", false
	open.RawResponse, open.AgentResult = nil, nil
	return &harness.Run{
		ID: "full", SessionID: "session ☃", Agent: "agent", Policy: "sha256:4",
		Limits:    events.Limits{ModelCalls: 1, ToolCalls: 2, CallsPerTool: 3, InputTokens: 4, OutputTokens: 5, TotalTokens: 6, RunBytes: 7},
		StartedAt: at, Deadline: at.Add(time.Minute), ExpiresAt: at.Add(time.Hour), StartCause: someCause("start"),
		Sequence: 7, Stream: 8, Digest: "sha256:5", At: at.Add(time.Second), Inbound: 9,
		Usage: events.Usage{
			ModelCalls: 3, ToolCalls: 12, CallsByTool: map[string]int64{"tool": 2, "other": 13},
			InputTokens: 14, OutputTokens: 15, TotalTokens: 16, RunBytes: 18,
		},
		KnownUsage: 1,
		Open:       []*harness.Record{light(open)}, Calls: map[events.Status]int64{events.StatusError: 1},
		Exhausted: harness.LimitRunBytes, Phase: harness.PhaseEnding,
		Termination:  harness.Termination{Outcome: events.OutcomeTimedOut, Reason: "DEADLINE_EXCEEDED", At: at.Add(2 * time.Second)},
		ProgressTold: true, Released: events.ReleaseStalled, GraceUntil: at.Add(4 * time.Second),
		Step: 19, Final: true, Invalid: 20, ReportSource: "/agents/agent", ReportID: "report", TimerAt: at.Add(3 * time.Second),
		Recent: []harness.Repetition{
			{Key: 0x00fb00fb00fb00fb, Count: 21}, {Key: 0xa5a5a5a5a5a5a5a5, Count: 1},
		},
	}, open
}

// fullOperations are the model operations of that run. Between them no field is
// zero.
func fullOperations() []*harness.ModelOperation {
	return []*harness.ModelOperation{
		{
			ID: "op/1", Operation: events.OperationSemanticGuard, Attempts: 1, Failure: events.FailureTimeout,
			Granted: someCause("call"), Reported: someCause("report"),
		},
		{
			ID: "op/2", Operation: events.OperationDiagnosisAgent, Attempts: 1, Open: true, Granted: someCause("call"),
		},
		{
			ID: "op/3", Operation: events.OperationIntentRouter, Attempts: 1, Succeeded: true,
			Granted: someCause("call"), Reported: someCause("report"),
		},
	}
}

// wantNoZero holds the tests above to their word: a field that is added to the
// type later must be added to the value, and then fails until the store keeps
// it.
func wantNoZero(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.IsZero() {
		t.Fatalf("the test leaves %s at zero", path)
	}
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		for i := range v.NumField() {
			wantNoZero(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}

func everyFieldOfARun(t *testing.T, s Subject) {
	run, open := fullRun()
	kept := *run
	kept.Usage.UnknownUsage = 1 // it follows from ModelCalls and KnownUsage
	wantNoZero(t, "Run", reflect.ValueOf(kept))
	done := fullRecord(2)
	s.mustProject(t, store.Projection{Run: run, Operations: fullOperations(), Records: []store.RecordChange{
		{Record: done, Reserved: true, Settled: true}, {Record: open, Reserved: true},
	}})
	s.wantRun(t, run)
	s.wantRecord(t, open)
}

func everyFieldOfARecord(t *testing.T, s Subject) {
	run, open := fullRun()
	done := fullRecord(2)
	wantNoZero(t, "Record", reflect.ValueOf(*done))
	s.mustProject(t, store.Projection{Run: run, Operations: fullOperations(), Records: []store.RecordChange{
		{Record: done, Reserved: true, Settled: true}, {Record: open, Reserved: true},
	}})
	s.wantRecord(t, done)
}

// everyChangedField brings the same values in two steps, so that they come with
// a later fact and not when the hashes are created.
func everyChangedField(t *testing.T, s Subject) {
	last, open := fullRun()
	done := fullRecord(2)
	reserved := *done
	reserved.Status, reserved.Evidence, reserved.Code, reserved.SettledAt = events.StatusProjecting, "", "", time.Time{}
	reserved.ResultCause, reserved.RawBytes, reserved.RawDigest, reserved.RawStored = events.Cause{}, 0, "", false
	reserved.RawResponse, reserved.AgentResult = nil, nil
	first := &harness.Run{
		ID: last.ID, SessionID: last.SessionID, Agent: last.Agent, Policy: last.Policy, Limits: last.Limits,
		StartedAt: last.StartedAt, Deadline: last.Deadline, ExpiresAt: last.ExpiresAt, StartCause: last.StartCause,
		Sequence: 2, Stream: 3, Digest: "sha256:first", At: last.StartedAt, Inbound: 4, Phase: harness.PhaseRunning,
		Usage: events.Usage{ToolCalls: 1, CallsByTool: map[string]int64{"tool": 1, "other": 13}},
		Open:  []*harness.Record{light(&reserved)}, Calls: map[events.Status]int64{},
	}
	s.mustProject(t, store.Projection{Run: first, Records: []store.RecordChange{{Record: &reserved, Reserved: true}}})
	s.wantRun(t, first)
	s.wantRecord(t, &reserved)
	s.mustProject(t, store.Projection{Run: last, From: 2, Operations: fullOperations(), Records: []store.RecordChange{
		{Record: done, Settled: true}, {Record: open, Reserved: true},
	}})
	s.wantRun(t, last)
	s.wantRecord(t, done)
	s.wantRecord(t, open)
}

func timerForgotten(t *testing.T, s Subject) {
	h := start(t, "run")
	first := h.all(0)
	first.Run.TimerAt = now().Add(time.Minute)
	s.mustProject(t, first)
	if got := s.run(t, "run").TimerAt; !got.Equal(first.Run.TimerAt) {
		t.Fatalf("TimerAt is %v, want %v", got, first.Run.TimerAt)
	}
	h.refuse()
	s.mustProject(t, h.all(1))
	if got := s.run(t, "run").TimerAt; !got.IsZero() {
		t.Fatalf("TimerAt is %v, want none", got)
	}
}

func largeNumbers(t *testing.T, s Subject) {
	const last = 1 << 53 // a double cannot tell the next from it
	h := start(t, "run")
	at := func(sequence uint64) *harness.Run {
		run := h.at(1)
		run.Sequence, run.Digest = sequence, "sha256:x"
		run.Stream, run.Inbound, run.Usage.RunBytes = 1<<64-1, 1<<64-2, 1<<63-1
		return run
	}
	s.mustProject(t, store.Projection{Run: at(last)})
	s.wantRun(t, at(last))
	wantBehind(t, s.project(t, store.Projection{Run: at(last + 2), From: last + 1}), last)
	s.mustProject(t, store.Projection{Run: at(last + 1), From: last})
	s.wantRun(t, at(last+1))
	s.mustProject(t, store.Projection{Run: at(last), From: last - 1})
	s.wantRun(t, at(last+1))
}

func lostBytes(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.settle("a")
	p := h.all(0)
	p.Records[0].Record.Request, p.Records[0].Record.RawResponse = nil, nil
	s.mustProject(t, p)
	want := *h.full("a")
	want.Request, want.RawResponse = nil, nil
	s.wantRecord(t, &want)
}

func absentRun(t *testing.T, s Subject) {
	if got := s.run(t, "nobody"); got != nil {
		t.Fatalf("got a run at fact %d, want none", got.Sequence)
	}
	s.wantNoRecord(t, "nobody", "a")
	loaded, err := s.Store.Load(t.Context(), []store.Ref{{RunID: "nobody", ToolCallID: "a"}})
	if err != nil || len(loaded) != 1 || loaded[0] != (store.Loaded{}) {
		t.Fatalf("got %v, %v, want one empty answer", loaded, err)
	}
}

func severalRuns(t *testing.T, s Subject) {
	one, two := start(t, "one"), start(t, "two")
	two.reserve("a")
	errs := s.Store.Project(t.Context(), []store.Projection{one.all(0), two.all(0)})
	if errs[0] != nil || errs[1] != nil {
		t.Fatalf("project: %v", errs)
	}
	runs, errs := s.Store.LoadRuns(t.Context(), []string{"two", "nobody", "one", "two"})
	for i, want := range []uint64{2, 0, 1, 2} {
		switch {
		case errs[i] != nil:
			t.Fatalf("run %d: %v", i, errs[i])
		case (runs[i] == nil) != (want == 0), want > 0 && runs[i].Sequence != want:
			t.Fatalf("run %d is %+v, want it at fact %d", i, runs[i], want)
		}
	}
}

func recordWithSequence(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.refuse()
	s.mustProject(t, h.all(0))
	loaded, err := s.Store.Load(t.Context(), []store.Ref{
		{RunID: "run", ToolCallID: "b"}, {RunID: "run", ToolCallID: "a"}, {RunID: "nobody", ToolCallID: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := loaded[0]; got.Record != nil || got.RunSequence != 3 || got.Err != nil {
		t.Errorf("a record that is not there: got %+v, want none and fact 3", got)
	}
	if got := loaded[1]; got.Record == nil || got.Record.Call != 2 || got.RunSequence != 3 || got.Err != nil {
		t.Errorf("a record that is there: got %+v, want that of fact 2, and fact 3", got)
	}
	if got := loaded[2]; got.Record != nil || got.RunSequence != 0 || got.Err != nil {
		t.Errorf("a record of no run: got %+v, want none and fact 0", got)
	}
}

func nothing(t *testing.T, s Subject) {
	if errs := s.Store.Project(t.Context(), nil); len(errs) != 0 {
		t.Errorf("Project of nothing: %v", errs)
	}
	if runs, errs := s.Store.LoadRuns(t.Context(), nil); len(runs) != 0 || len(errs) != 0 {
		t.Errorf("LoadRuns of nothing: %v, %v", runs, errs)
	}
	if loaded, err := s.Store.Load(t.Context(), nil); len(loaded) != 0 || err != nil {
		t.Errorf("Load of nothing: %v, %v", loaded, err)
	}
	h := start(t, "run")
	s.mustProject(t, store.Projection{Run: h.at(1), From: 1})
	if got := s.run(t, "run"); got != nil {
		t.Errorf("a projection without a fact wrote a run at fact %d", got.Sequence)
	}
}

func fineInstant(t *testing.T, s Subject) {
	h := start(t, "run")
	p := h.all(0)
	p.Run.Deadline = p.Run.Deadline.Add(time.Nanosecond)
	wantConflict(t, s.project(t, p))
	if got := s.run(t, "run"); got != nil {
		t.Errorf("it was written all the same")
	}
}

func toolNames(t *testing.T, s Subject) {
	h := start(t, "run")
	p := h.all(0)
	p.Run.Usage.CallsByTool = map[string]int64{"a.b/c d": 1, "open:7": 2, "calls.READY": 3, "v": 4, "": 5, "ä:☃": 6}
	s.mustProject(t, p)
	s.wantRun(t, p.Run)
}

package progress

import (
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"

	"github.com/google/go-cmp/cmp"
)

// aRun is a running run that settled four calls and has one open, and the
// records that a store has of it.
func aRun() (*harness.Run, map[string]*harness.Record) {
	open := record(10, "open", events.StatusProjecting, "")
	records := map[string]*harness.Record{}
	for _, r := range []harness.Record{
		ready(2, "found"), record(4, "none", events.StatusReady, events.EvidenceNone), failed(6, "error"), ready(8, "other"),
	} {
		records[r.ToolCallID] = &r
	}
	return &harness.Run{
		ID: "run", Agent: "alice", Phase: harness.PhaseRunning, Deadline: now.Add(time.Minute), ExpiresAt: expires,
		Sequence: 11, Open: []*harness.Record{&open}, Calls: map[events.Status]int64{events.StatusReady: 3, events.StatusError: 1},
	}, records
}

// decide lets the harness judge a report by these rules, with what it asks for
// and nothing else.
func decide(t *testing.T, report *events.ProgressReport) events.Payload {
	t.Helper()
	run, records := aRun()
	in := &events.Inbound{
		Address: events.Address{Role: events.RoleAgent, Principal: "alice", Run: "run", Verb: events.VerbProgressReport},
		ID:      "e1", Source: "/a", Sequence: 30, Payload: report,
	}
	state := &harness.State{Run: run, Records: map[string]*harness.Record{}}
	for _, id := range harness.Needs(run, in).ToolCallIDs {
		if r, ok := records[id]; ok {
			state.Records[id] = r
		}
	}
	rules := &harness.Rules{Policy: &harness.Policy{Progress: harness.ProgressLimits{MaxRepairs: 3}}, Progress: Rules{}}
	decision := rules.Decide(state, in, now)
	if decision.Fact == nil || decision.Fact.Sequence != 12 {
		t.Fatalf("decided %+v", decision)
	}
	return decision.Fact.Payload
}

func TestAReportIsJudgedByTheRecordsOfItsRun(t *testing.T) {
	good := &events.ProgressReport{RunID: "run", Step: 1, Claims: []events.Claim{positive("found", "other"), negative("none")}, Final: true}
	if diff := cmp.Diff(events.Payload(&events.ProgressAccepted{Step: 1, Claims: 2, Final: true}), decide(t, good)); diff != "" {
		t.Errorf("a good one: (-want +got)\n%s", diff)
	}
	bad := &events.ProgressReport{RunID: "run", Step: 1, Claims: []events.Claim{positive("found", "none", "open"), positive("ghost"), negative("error")}}
	want := &events.ProgressInvalid{
		RunID: "run", Code: "INVALID_PROGRESS_PROTOCOL", Message: "The report does not hold; repair what is named and report the same step again.",
		Step: 1, RepairsLeft: 2,
		Violations: []events.Violation{
			wrong("NO_EVIDENCE", 0, "none"), wrong("CALL_NOT_READY", 0, "open"), wrong("UNKNOWN_CALL", 1, "ghost"), wrong("CALL_NOT_READY", 2, "error"),
		},
	}
	if diff := cmp.Diff(events.Payload(want), decide(t, bad)); diff != "" {
		t.Errorf("a bad one: (-want +got)\n%s", diff)
	}
}

func TestTheProgressOfARunComesFromItsRecordsWhateverItReported(t *testing.T) {
	run, records := aRun()
	run.Phase, run.Open, run.Step, run.Final = harness.PhaseEnding, nil, 2, true
	run.Calls[events.StatusError] = 2
	state := &harness.State{Run: run}
	if need := harness.Needs(run, nil); !need.Completed {
		t.Fatalf("needs %+v", need)
	}
	for _, id := range []string{"other", "error", "found", "none"} {
		state.Completed = append(state.Completed, *records[id])
	}
	state.Completed = append(state.Completed, harness.Record{RunID: "run", ToolCallID: "open", Call: 10}) // the store lost it
	rules := &harness.Rules{Policy: &harness.Policy{Observed: 2}, Progress: Rules{}}
	fact := rules.Due(state, &events.Inbound{Sequence: 31}, now)
	want := &events.RunProgress{
		Observed: []events.Observation{observed(2, "found", events.EvidenceFound), observed(4, "none", events.EvidenceNone)},
		LeftOut:  map[string]int64{"OVER_LIMIT": 1, "ERROR": 1, "MISSING": 1},
		Steps:    2, Final: true,
	}
	if fact == nil {
		t.Fatal("nothing is due")
	}
	if diff := cmp.Diff(events.Payload(want), fact.Payload); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

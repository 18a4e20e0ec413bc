package demo

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"runledger/client"
	"runledger/internal/audit"
	"runledger/internal/events"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestBuiltInTranscriptsGoThroughWhole(t *testing.T) {
	nc, js, p := withProcessor(t)
	transcripts, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	var told []Progress
	played, err := Play(testContext(t), PlayConfig{
		Conn: nc, Transcripts: transcripts, Suffix: "x", Parallel: 3,
		Progress: func(now Progress) { told = append(told, now) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"tau-airline-0-0-x", "tau-airline-18-0-x", "tau-airline-23-0-x", "tau-airline-43-0-x"}; !slices.Equal(played.RunIDs, want) {
		t.Errorf("runs %q, want %q", played.RunIDs, want)
	}
	if played.Results != 9 || played.Rejected != 6 || played.Failed != 0 || played.Executor.Ran != 9 {
		t.Errorf("played %+v, want 9 results, 6 rejected, none failed, 9 run", played)
	}
	if want := (Progress{Runs: 4, RunsDone: 4, Calls: 15, CallsDone: 15}); told[len(told)-1] != want || len(told) != 19 {
		t.Errorf("told %d times, last %+v, want 19 and %+v", len(told), told[len(told)-1], want)
	}
	report, err := audit.Count(testContext(t), js, events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	got, err := report.JSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"runs":4,"calls":15,"reserved":9,"ready":9,"error":0,"evidence_found":7,"no_evidence":2,` +
		`"rejected":{"DUPLICATE_TOOL_CALL":2,"NOT_READ_ONLY":4},"terminated":{"SUCCESS":4},` +
		`"facts":88,"sequence_gaps":0,"duplicate_dispatches":0,"seconds":0}`
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	// One id stands for a look-up of 850 bytes and a calculation of 5: the first
	// was accepted, and got its own answer.
	first := p.runs["tau-airline-0-0-x"].Records["call_oIHazX6yQrB8hUwl4cRilFKj"]
	if first.Tool != "get_user_details" || first.RawBytes != 850 {
		t.Errorf("the first record is of %s with %d bytes, want get_user_details with 850", first.Tool, first.RawBytes)
	}
}

func TestModelsAreAttemptedAndReportsRepairedTheSameWayEveryTime(t *testing.T) {
	nc, js, _ := withProcessor(t)
	transcripts, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	// Per run: the routing, every third one attempted twice, and one call a message.
	want := map[string]struct {
		attempts, failed, unknown int64
		violation                 events.ViolationCode
		claims                    int // that hold after the repair
	}{
		"tau-airline-0-0":  {9, 0, 1, events.ViolationNoEvidence, 4},
		"tau-airline-18-0": {5, 1, 2, events.ViolationUnknownCall, 2},
		"tau-airline-23-0": {3, 0, 1, events.ViolationNoEvidence, 2},
		"tau-airline-43-0": {3, 0, 1, events.ViolationUnknownCall, 1},
	}
	for _, suffix := range []string{"", "again"} {
		played, err := Play(testContext(t), PlayConfig{Conn: nc, Transcripts: transcripts, Suffix: suffix})
		if err != nil {
			t.Fatal(err)
		}
		if played.Attempts != 20 || played.Repairs != 4 {
			t.Errorf("%d attempts and %d repairs, want 20 and 4", played.Attempts, played.Repairs)
		}
		for _, id := range played.RunIDs {
			w, ok := want[strings.TrimSuffix(id, "-again")]
			if !ok {
				t.Fatalf("run %s: not one of those expected", id)
			}
			timeline, err := FetchTimeline(testContext(t), js, "", id)
			if err != nil {
				t.Fatal(err)
			}
			var granted, failed int64
			var invalid []events.ViolationCode
			var accepted *events.ProgressAccepted
			var end *events.RunTerminated
			for _, f := range timeline.Facts {
				switch b := f.Payload.(type) {
				case *events.ModelGranted:
					granted++
				case *events.ModelRecorded:
					if b.Failure == events.FailureTransport {
						failed++
					}
				case *events.ProgressInvalid:
					for _, v := range b.Violations {
						invalid = append(invalid, v.Code)
					}
				case *events.ProgressAccepted:
					accepted = b
				case *events.RunTerminated:
					end = b
				}
			}
			if granted != w.attempts || failed != w.failed || end == nil || end.Usage.ModelCalls != w.attempts || end.Usage.UnknownUsage != w.unknown {
				t.Errorf("%s: %d attempts, %d failed, end %+v, want %d, %d and %d unknown", id, granted, failed, end, w.attempts, w.failed, w.unknown)
			}
			if len(invalid) == 0 || invalid[0] != w.violation {
				t.Errorf("%s: violations %v, want %s", id, invalid, w.violation)
			}
			if accepted == nil || accepted.Step != 1 || !accepted.Final || accepted.Claims != w.claims {
				t.Errorf("%s: accepted %+v, want step 1 with %d claims, final", id, accepted, w.claims)
			}
		}
	}
}

func TestRecordedErrorIsAFailedExecution(t *testing.T) {
	nc, js, _ := withProcessor(t)
	_, err := Play(testContext(t), PlayConfig{Conn: nc, Transcripts: []Transcript{{Name: "a b", Calls: []RecordedCall{
		{ID: "c1", Tool: "calculate", Arguments: []byte(`{}`), Answered: true, Content: "Error: no such thing"},
		{ID: "c2", Tool: "calculate", Arguments: []byte(`{}`), Answered: false},
		{ID: "c3", Tool: "calculate", Arguments: []byte(`{}`), Answered: true, Content: "fine"},
		{ID: "c4", Tool: "calculate", Arguments: []byte(`"no object"`), Answered: true},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Count(testContext(t), js, events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if report.Error != 2 || report.Ready != 1 || report.Rejected["INVALID_INPUT"] != 1 || report.Terminated["SUCCESS"] != 1 || !report.OK() {
		t.Errorf("got %+v, want two errors, one result, one refusal, and success", report)
	}
}

func TestPlayTellsWhichRunCouldNotBePlayed(t *testing.T) {
	nc, _, _ := withProcessor(t)
	transcripts := []Transcript{{Name: "one"}, {Name: "two"}}
	ctx := testContext(t)
	if _, err := Play(ctx, PlayConfig{Conn: nc, Transcripts: transcripts}); err != nil {
		t.Fatal(err)
	}
	_, err := Play(ctx, PlayConfig{Conn: nc, Transcripts: append(transcripts, Transcript{Name: "three"})})
	for _, want := range []string{"transcript one: ", "transcript two: ", "RUN_ALREADY_EXISTS"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "three") {
		t.Errorf("got %v, and run three went well", err)
	}
}

func TestPlayWithoutAnExecutorsConsumerFails(t *testing.T) {
	nc, _, _ := withProcessor(t)
	transcripts := []Transcript{{Name: "one", Calls: []RecordedCall{{ID: "c", Tool: "calculate", Arguments: []byte(`{}`)}}}}
	_, err := Play(testContext(t), PlayConfig{Conn: nc, Transcripts: transcripts, Executor: "nobody"})
	if err == nil || !strings.Contains(err.Error(), "executor-nobody") {
		t.Errorf("got %v, want an error that names the consumer", err)
	}
}

func TestPlayConfigurationNamesTheWrongField(t *testing.T) {
	whole := PlayConfig{Conn: new(nats.Conn), Transcripts: []Transcript{{Name: "one"}}}
	for field, change := range map[string]func(*PlayConfig){
		"Conn: ":        func(c *PlayConfig) { c.Conn = nil },
		"Transcripts: ": func(c *PlayConfig) { c.Transcripts = nil },
		"Suffix: ":      func(c *PlayConfig) { c.Suffix = "a b" },
		"Parallel: ":    func(c *PlayConfig) { c.Parallel = -1 },
		"RunTime and ":  func(c *PlayConfig) { c.Step = -1 },
	} {
		cfg := whole
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("got %v, want an error that begins with %q", err, field)
		}
	}
}

func TestRunIDsAreValidAndEachAnother(t *testing.T) {
	long := strings.Repeat("é", 100) // 200 bytes
	got := runIDs([]Transcript{{Name: "a/b c"}, {Name: "a.b.c"}, {Name: "a-b-c"}, {Name: long}, {Name: long}}, "s1")
	want := []string{
		"a-b-c-s1", "a-b-c-2-s1", "a-b-c-3-s1",
		strings.Repeat("-", 125) + "-s1", strings.Repeat("-", 123) + "-2-s1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTimelineAndSummaryRead(t *testing.T) {
	nc, js, _ := withProcessor(t)
	transcripts, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Play(testContext(t), PlayConfig{Conn: nc, Transcripts: transcripts[2:3], Limits: client.Limits{ModelCalls: 3, ToolCalls: 9, CallsPerTool: 9, InputTokens: 10_000, OutputTokens: 10_000, TotalTokens: 10_000, RunBytes: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	timeline, err := FetchTimeline(testContext(t), js, "", "tau-airline-23-0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteTimeline(&out, timeline); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tau-airline-23-0  agent demo  SUCCESS after ", "run.started", "search_direct_flight", "READY  NO_EVIDENCE  2 B of 2 B", "run.terminated",
		"INTENT_ROUTER", "turn-2", "NO_EVIDENCE  call_", "step 1, final", "3 model calls"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the timeline lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("the timeline has colours, and goes to no terminal")
	}
	if _, err := FetchTimeline(testContext(t), js, "", "nobody"); err == nil {
		t.Error("a run without facts: want an error")
	}
}

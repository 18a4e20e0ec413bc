package progress

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"

	"github.com/google/go-cmp/cmp"
)

// known finds the calls of a run that has one of each kind.
func known(id string) *harness.Record {
	records := map[string]harness.Record{
		"found":   ready(2, "found"),
		"other":   ready(4, "other"),
		"none":    record(6, "none", events.StatusReady, events.EvidenceNone),
		"error":   failed(8, "error"),
		"open":    record(10, "open", events.StatusProjecting, ""),
		"old":     with(ready(12, "old"), func(r *harness.Record) { r.ExpiresAt = now }),
		"old err": with(failed(14, "old err"), func(r *harness.Record) { r.ExpiresAt = now.Add(-time.Hour) }),
		"fn:0":    record(16, "fn:0", events.StatusReady, events.EvidenceNone),
	}
	if r, ok := records[id]; ok {
		return &r
	}
	return nil
}

func positive(supports ...string) events.Claim { return events.Claim{Text: "x", Supports: supports} }

func negative(supports ...string) events.Claim {
	return events.Claim{Text: "x", Negative: true, Supports: supports}
}

func wrong(code events.ViolationCode, claim int, id string) events.Violation {
	return events.Violation{Code: code, Claim: claim, ToolCallID: id}
}

func TestCheckNamesWhatDoesNotHold(t *testing.T) {
	long := strings.Repeat("c", 2048)
	for name, c := range map[string]struct {
		claims []events.Claim
		want   []events.Violation
	}{
		"no claims":                                {nil, nil},
		"a claim that one call supports":           {[]events.Claim{positive("found")}, nil},
		"a claim that several support":             {[]events.Claim{positive("found", "other")}, nil},
		"two claims of one call":                   {[]events.Claim{positive("found"), positive("found")}, nil},
		"a negative claim on what found nothing":   {[]events.Claim{negative("none")}, nil},
		"a negative claim on what found something": {[]events.Claim{negative("found", "none")}, nil},

		"a claim of nothing":                  {[]events.Claim{positive()}, []events.Violation{wrong("CLAIM_UNSUPPORTED", 0, "")}},
		"a negative claim of nothing":         {[]events.Claim{negative()}, []events.Violation{wrong("CLAIM_UNSUPPORTED", 0, "")}},
		"a call that is not there":            {[]events.Claim{positive("ghost")}, []events.Violation{wrong("UNKNOWN_CALL", 0, "ghost")}},
		"a call that is open":                 {[]events.Claim{positive("open")}, []events.Violation{wrong("CALL_NOT_READY", 0, "open")}},
		"a call that failed":                  {[]events.Claim{positive("error")}, []events.Violation{wrong("CALL_NOT_READY", 0, "error")}},
		"a negative claim of one that failed": {[]events.Claim{negative("error")}, []events.Violation{wrong("CALL_NOT_READY", 0, "error")}},
		"a record that expires now":           {[]events.Claim{positive("old")}, []events.Violation{wrong("CALL_EXPIRED", 0, "old")}},
		"an expired failure":                  {[]events.Claim{positive("found", "old err")}, []events.Violation{wrong("CALL_EXPIRED", 0, "")}},
		"no evidence for a positive claim":    {[]events.Claim{positive("none")}, []events.Violation{wrong("NO_EVIDENCE", 0, "none")}},
		"evidence beside none":                {[]events.Claim{positive("found", "none")}, []events.Violation{wrong("NO_EVIDENCE", 0, "none")}},
		"an id with a colon":                  {[]events.Claim{positive("fn:0")}, []events.Violation{wrong("NO_EVIDENCE", 0, "fn:0")}},
		"a call named twice":                  {[]events.Claim{positive("found", "found")}, []events.Violation{wrong("SUPPORT_REPEATED", 0, "found")}},
		"a call named three times":            {[]events.Claim{positive("found", "other", "found", "found")}, []events.Violation{wrong("SUPPORT_REPEATED", 0, "found"), wrong("SUPPORT_REPEATED", 0, "found")}},
		"a wrong call named twice":            {[]events.Claim{positive("ghost", "ghost")}, []events.Violation{wrong("UNKNOWN_CALL", 0, "ghost"), wrong("SUPPORT_REPEATED", 0, "ghost")}},

		"an id that no call can have is not repeated": {[]events.Claim{positive("c{1}", "", "a b", strings.Repeat("c", 2049), "\x00")}, []events.Violation{
			wrong("UNKNOWN_CALL", 0, ""), wrong("UNKNOWN_CALL", 0, ""), wrong("UNKNOWN_CALL", 0, ""), wrong("UNKNOWN_CALL", 0, ""), wrong("UNKNOWN_CALL", 0, ""),
		}},
		"the longest id is": {[]events.Claim{positive(long)}, []events.Violation{wrong("UNKNOWN_CALL", 0, long)}},

		"everything, in the order of the report": {
			[]events.Claim{positive("found"), positive("none", "error"), negative("none"), negative(), positive("ghost", "found", "open")},
			[]events.Violation{
				wrong("NO_EVIDENCE", 1, "none"), wrong("CALL_NOT_READY", 1, "error"), wrong("CLAIM_UNSUPPORTED", 3, ""),
				wrong("UNKNOWN_CALL", 4, "ghost"), wrong("CALL_NOT_READY", 4, "open"),
			},
		},
	} {
		report := &events.ProgressReport{RunID: "run", Step: 1, Claims: c.claims}
		if diff := cmp.Diff(c.want, Check(report, known, now)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(c.want, Rules{}.Check(report, known, now)); diff != "" {
			t.Errorf("%s, by the rules: (-want +got)\n%s", name, diff)
		}
	}
}

func TestAClaimHoldsUntilItsRecordExpires(t *testing.T) {
	report := &events.ProgressReport{Claims: []events.Claim{positive("found")}}
	if got := Check(report, known, expires.Add(-time.Millisecond)); got != nil {
		t.Errorf("just before: %v", got)
	}
	if diff := cmp.Diff([]events.Violation{wrong("CALL_EXPIRED", 0, "found")}, Check(report, known, expires)); diff != "" {
		t.Errorf("at the instant: %s", diff)
	}
}

// TestTheObservationFitsInAMessage: the largest report that is taken, with
// nothing in it that holds, is answered in less than the 1 MiB that a NATS
// server takes by default.
func TestTheObservationFitsInAMessage(t *testing.T) {
	report := &events.ProgressReport{RunID: strings.Repeat("r", 128), Step: 1 << 62}
	for i := range events.MaxClaims {
		var supports []string
		for j := range events.MaxSupports {
			supports = append(supports, fmt.Sprintf("%s%04d", strings.Repeat("/", 252), i*events.MaxSupports+j)) // 256 bytes: 262,144 in all
		}
		report.Claims = append(report.Claims, events.Claim{Text: strings.Repeat("x", 100), Supports: supports})
	}
	violations := Check(report, func(string) *harness.Record { return nil }, now)
	if len(violations) != 1024 {
		t.Fatalf("%d violations, want 1,024", len(violations))
	}
	data, err := json.Marshal(events.ProgressInvalid{RunID: report.RunID, Code: events.InvalidProgressProtocol, Step: report.Step, Violations: violations})
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 512<<10 {
		t.Errorf("%d bytes, want at most half a MiB", len(data))
	}
}

func TestTheRulesProjectAsTheFunctionDoes(t *testing.T) {
	run := &harness.Run{ID: "run", ExpiresAt: expires, Calls: map[events.Status]int64{events.StatusReady: 1, events.StatusError: 1}}
	got := Rules{}.Project(run, []harness.Record{ready(2, "a"), failed(4, "b")}, now, 10)
	want := &events.RunProgress{Observed: []events.Observation{observed(2, "a", events.EvidenceFound)}, LeftOut: map[string]int64{"ERROR": 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

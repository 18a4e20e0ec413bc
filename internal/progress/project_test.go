package progress

import (
	"slices"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"

	"github.com/google/go-cmp/cmp"
)

var (
	now     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	expires = now.Add(time.Hour)
)

func record(call uint64, id string, status events.Status, evidence events.Evidence) harness.Record {
	return harness.Record{
		RunID: "run", ToolCallID: id, Tool: "tool-" + id, Call: call,
		Status: status, Evidence: evidence, ExpiresAt: expires,
	}
}

func ready(call uint64, id string) harness.Record {
	return record(call, id, events.StatusReady, events.EvidenceFound)
}

func failed(call uint64, id string) harness.Record {
	return record(call, id, events.StatusError, events.EvidenceError)
}

func with(r harness.Record, change func(*harness.Record)) harness.Record {
	change(&r)
	return r
}

func observed(call uint64, id string, evidence events.Evidence) events.Observation {
	return events.Observation{ToolCallID: id, Tool: "tool-" + id, Call: call, Evidence: evidence}
}

func TestProjectAcceptsReadyRecordsOfTheRunInOrderOfReservationAndCountsTheRest(t *testing.T) {
	none := []events.Observation{}
	ofAnother := func(r *harness.Record) { r.RunID = "another" }
	expired := func(r *harness.Record) { r.ExpiresAt = now }
	tests := []struct {
		name      string
		settled   map[events.Status]int64
		completed []harness.Record
		now       time.Time
		max       int
		want      events.RunProgress
	}{
		{"a run without calls", nil, nil, now, 10, events.RunProgress{Observed: none}},
		{
			"both kinds of evidence, settled in another order than reserved",
			map[events.Status]int64{events.StatusReady: 3},
			[]harness.Record{ready(9, "c"), ready(2, "a"), record(4, "b", events.StatusReady, events.EvidenceNone)},
			now, 10,
			events.RunProgress{Observed: []events.Observation{
				observed(2, "a", events.EvidenceFound), observed(4, "b", events.EvidenceNone), observed(9, "c", events.EvidenceFound),
			}},
		},
		{
			"calls that failed",
			map[events.Status]int64{events.StatusReady: 1, events.StatusError: 2},
			[]harness.Record{failed(2, "a"), ready(4, "b"), failed(6, "c")},
			now, 10,
			events.RunProgress{
				Observed: []events.Observation{observed(4, "b", events.EvidenceFound)},
				LeftOut:  map[string]int64{"ERROR": 2},
			},
		},
		{
			"a record that the store does not have",
			map[events.Status]int64{events.StatusReady: 1},
			[]harness.Record{{RunID: "run", ToolCallID: "a", Call: 2}},
			now, 10, events.RunProgress{Observed: none, LeftOut: map[string]int64{"MISSING": 1}},
		},
		{
			"calls that the store does not even name",
			map[events.Status]int64{events.StatusReady: 2, events.StatusError: 1},
			[]harness.Record{ready(2, "a")},
			now, 10,
			events.RunProgress{
				Observed: []events.Observation{observed(2, "a", events.EvidenceFound)},
				LeftOut:  map[string]int64{"MISSING": 2},
			},
		},
		{
			"a record that expires at this very instant",
			map[events.Status]int64{events.StatusReady: 1},
			[]harness.Record{with(ready(2, "a"), expired)},
			now, 10, events.RunProgress{Observed: none, LeftOut: map[string]int64{"EXPIRED": 1}},
		},
		{
			"a record one millisecond before it expires",
			map[events.Status]int64{events.StatusReady: 1},
			[]harness.Record{ready(2, "a")},
			expires.Add(-time.Millisecond), 10,
			events.RunProgress{Observed: []events.Observation{observed(2, "a", events.EvidenceFound)}},
		},
		{
			"a run that has expired, whether or not the store still has its records",
			map[events.Status]int64{events.StatusReady: 3, events.StatusError: 1},
			[]harness.Record{ready(2, "a"), failed(4, "b"), {RunID: "run", ToolCallID: "c", Call: 6}},
			expires, 10, events.RunProgress{Observed: none, LeftOut: map[string]int64{"EXPIRED": 4}},
		},
		{
			"a record that has not been settled",
			map[events.Status]int64{events.StatusReady: 1},
			[]harness.Record{record(2, "a", events.StatusProjecting, "")},
			now, 10, events.RunProgress{Observed: none, LeftOut: map[string]int64{"PROJECTING": 1}},
		},
		{
			"a record of another run, READY or expired",
			map[events.Status]int64{events.StatusReady: 2},
			[]harness.Record{with(ready(2, "a"), ofAnother), with(with(ready(4, "b"), ofAnother), expired)},
			now, 10, events.RunProgress{Observed: none, LeftOut: map[string]int64{"FOREIGN": 2}},
		},
		{
			"exactly as many as may be told",
			map[events.Status]int64{events.StatusReady: 2},
			[]harness.Record{ready(2, "a"), ready(4, "b")},
			now, 2,
			events.RunProgress{Observed: []events.Observation{
				observed(2, "a", events.EvidenceFound), observed(4, "b", events.EvidenceFound),
			}},
		},
		{
			"more than may be told: the first reserved are, and what is refused takes no place",
			map[events.Status]int64{events.StatusReady: 3, events.StatusError: 2},
			[]harness.Record{ready(8, "d"), failed(2, "a"), ready(4, "b"), ready(6, "c"), failed(10, "e")},
			now, 1,
			events.RunProgress{
				Observed: []events.Observation{observed(4, "b", events.EvidenceFound)},
				LeftOut:  map[string]int64{"OVER_LIMIT": 2, "ERROR": 2},
			},
		},
		{
			"nothing may be told",
			map[events.Status]int64{events.StatusReady: 1},
			[]harness.Record{ready(2, "a")},
			now, 0, events.RunProgress{Observed: none, LeftOut: map[string]int64{"OVER_LIMIT": 1}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := &harness.Run{ID: "run", ExpiresAt: expires, Calls: tt.settled}
			given := slices.Clone(tt.completed)
			got := Project(run, tt.completed, tt.now, tt.max)
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(given, tt.completed); diff != "" {
				t.Errorf("the completed calls were changed:\n%s", diff)
			}
		})
	}
}

func TestNamesThatWouldNotFitInAMessageAreLeftOut(t *testing.T) {
	// 262,144 bytes of names: with ids of 2,040 bytes and tools of 8, 128 calls.
	calls := func(n int, idBytes int) []harness.Record {
		records := make([]harness.Record, n)
		for i := range records {
			records[i] = ready(uint64(i+2), strings.Repeat("c", idBytes))
			records[i].Tool = "tool-abc"
		}
		return records
	}
	for _, c := range []struct {
		n, idBytes, observed int
	}{{127, 2040, 127}, {128, 2040, 128}, {129, 2040, 128}, {300, 2040, 128}, {128, 2041, 127}, {10_000, 8, 10_000}} {
		run := &harness.Run{ID: "run", ExpiresAt: expires, Calls: map[events.Status]int64{events.StatusReady: int64(c.n)}}
		got := Project(run, calls(c.n, c.idBytes), now, 10_000)
		if len(got.Observed) != c.observed || got.LeftOut["OVER_LIMIT"] != int64(c.n-c.observed) || len(got.LeftOut) > 1 {
			t.Errorf("%d calls with ids of %d bytes: %d observed, left out %v, want %d observed", c.n, c.idBytes, len(got.Observed), got.LeftOut, c.observed)
		}
	}
}

func TestACallThatDoesNotFitIsFollowedByNone(t *testing.T) {
	long := ready(4, strings.Repeat("c", 262_144))
	run := &harness.Run{ID: "run", ExpiresAt: expires, Calls: map[events.Status]int64{events.StatusReady: 3, events.StatusError: 1}}
	got := Project(run, []harness.Record{ready(2, "a"), long, failed(6, "b"), ready(8, "c")}, now, 10)
	want := &events.RunProgress{
		Observed: []events.Observation{observed(2, "a", events.EvidenceFound)},
		LeftOut:  map[string]int64{"OVER_LIMIT": 2, "ERROR": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

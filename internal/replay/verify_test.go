package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"runledger/internal/harness"
	"runledger/internal/replay"
	"runledger/internal/store"
	"runledger/internal/stream"
)

func TestWhatARealProcessorDecidedIsDecidedTheSameAgain(t *testing.T) {
	m := recorded(t)
	report := verify(t, m)
	for _, d := range report.Differences {
		t.Errorf("%s", d)
	}
	if report.Facts != int64(len(m.runs)) || report.Checked != report.Facts || report.Events != int64(len(m.in)) || len(report.Unchecked) != 0 {
		t.Errorf("of %d facts and %d events: got %+v, want all of them checked", len(m.runs), len(m.in), report)
	}
	if report.Runs != 8 || report.Ended != 7 || report.Ignored != 1 || report.Letters != 4 {
		t.Errorf("got %+v, want 8 runs, 7 of them ended, one event that was known, and 4 kept for the operator", report)
	}
}

func TestEventsThatWaitLongAreReadAgain(t *testing.T) {
	m := recorded(t)
	cfg := config(m)
	cfg.Window = 1 // nothing is kept
	report, err := replay.Verify(t.Context(), cfg)
	if err != nil || !report.OK() || report.Checked != int64(len(m.runs)) {
		t.Errorf("got %+v, %v, want all facts checked", report, err)
	}
}

func TestMemoryDoesNotGrowWithRunsThatHaveEnded(t *testing.T) {
	m := generated(t, 2000, 1)
	report, runs, rest, events, err := replay.VerifyAndCount(t.Context(), config(m))
	if err != nil || !report.OK() || report.Ended != 2000 {
		t.Fatalf("got %+v, %v, want 2000 runs and no difference", report, err)
	}
	if runs != 0 || rest > 512 || events != 0 {
		t.Errorf("it holds %d open runs, %d that have ended and %d events, want none, at most 512, and none", runs, rest, events)
	}
}

// TestALateEventOfALongEndedRunIsJudgedByItsHistory ends more runs than are kept,
// and then tells of the first of them.
func TestALateEventOfALongEndedRunIsJudgedByItsHistory(t *testing.T) {
	m := generated(t, 700, 1)
	late := m.in[0] // its start, once more, under another id: refused, as the run is known
	late.Header = copies(m.in[:1])[0].Header
	late.Header["ce-id"] = []string{"again"}
	late.Sequence, late.Time = uint64(len(m.in)+1), m.in[len(m.in)-1].Time.Add(time.Second)
	m.in = append(m.in, late)
	m.stretch.EventsTo, m.stretch.Positions[0] = late.Sequence, late.Sequence
	report := verify(t, m)
	if report.DifferenceCount != 1 || report.Differences[0].What != replay.Unanswered || !strings.Contains(report.Differences[0].Why, "RUN_ALREADY_EXISTS") {
		t.Fatalf("got %+v, want the event named as unanswered, and the answer that it must have", report.Differences)
	}
	m.stretch.Positions[0]-- // not decided yet
	if report := verify(t, m); !report.OK() || report.Unchecked[replay.UncheckedUndecided] != 1 {
		t.Errorf("got %+v, want it counted as not decided yet", report)
	}
}

func TestAnyStretchOfTheRecordingHolds(t *testing.T) {
	m := recorded(t)
	for from := uint64(2); from <= m.stretch.EventsTo; from++ {
		part := m.clone()
		part.stretch.From = from
		// Everything that is read belongs to it: also what names an earlier event.
		if report := verify(t, part); !report.OK() || report.Checked != int64(len(m.runs)) {
			t.Errorf("from event %d: %d facts of %d are checked, and %v", from, report.Checked, len(m.runs), report.Differences)
		}
		part.stretch.FactsJudged = uint64(len(m.runs) + 1)
		report := verify(t, part)
		if !report.OK() {
			t.Errorf("from event %d: %s", from, report.Differences[0])
		}
		if report.Facts != report.Checked+report.State {
			t.Errorf("from event %d: got %+v, want each fact checked or of an earlier event", from, report)
		}
		// And where the facts begin later, too: what was before them is read run by run.
		caused := slices.IndexFunc(part.runs, func(f stream.Message) bool { return number(f.Header.Get("ce-causationsequence")) >= from })
		if caused < 0 {
			continue
		}
		part.stretch.FactsFrom = part.runs[caused].Sequence
		if late := verify(t, part); !late.OK() || late.Checked != report.Checked {
			t.Errorf("from event %d and fact %d: got %+v, want as many checked as %d", from, part.stretch.FactsFrom, late, report.Checked)
		}
	}
}

func number(text string) uint64 {
	n := uint64(0)
	for _, c := range text {
		n = 10*n + uint64(c-'0')
	}
	return n
}

func TestAChangeBeforeTheStretchIsNotItsDifference(t *testing.T) {
	m := recorded(t)
	facts := m.history("early")
	facts[1].Data = []byte(strings.Replace(string(facts[1].Data), `"tool":"calculate"`, `"tool":"think"`, 1))
	m.stretch.From = number(facts[3].Header.Get("ce-causationsequence"))
	m.stretch.FactsJudged = facts[3].Sequence
	report := verify(t, m)
	if !report.OK() || report.Unchecked[replay.UncheckedAfterDifference] == 0 {
		t.Errorf("got %+v, want the run's later facts counted as not checked, by name", report)
	}
}

func TestWhatHasAgedOutIsCountedByName(t *testing.T) {
	t.Run("events", func(t *testing.T) {
		m := recorded(t)
		facts := m.history("early")
		kept := number(facts[3].Header.Get("ce-causationsequence"))
		m.in = slices.DeleteFunc(m.in, func(e stream.Message) bool { return e.Sequence < kept })
		m.kept = kept
		report := verify(t, m)
		if !report.OK() || report.Unchecked[replay.UncheckedEventAged] < 3 {
			t.Errorf("got %+v, want facts of aged events counted, and no difference", report)
		}
		facts[1].Header["ce-id"] = []string{"early.x"} // the chain holds all the same
		if report := verify(t, m); report.OK() || report.Differences[0].Run != "early" {
			t.Errorf("got %+v, want the change found by the chain", report)
		}
	})
	t.Run("facts", func(t *testing.T) {
		m := recorded(t)
		m.stretch.FactsKept = m.history("early")[3].Sequence
		m.stretch.FactsFrom, m.stretch.FactsKeptAt = m.stretch.FactsKept, m.history("early")[3].Time
		m.runs = slices.DeleteFunc(m.runs, func(f stream.Message) bool { return f.Sequence < m.stretch.FactsKept })
		report := verify(t, m)
		for _, d := range report.Differences {
			t.Errorf("got %s, and those facts have aged out", d)
		}
		left := int64(len(m.history("early")))
		if got := report.Unchecked[replay.UncheckedHistoryAged]; left != 8 || got < left {
			t.Errorf("%d counted, want at least the %d facts of the run early that are left", got, left)
		}
	})
	t.Run("policy", func(t *testing.T) {
		m := recorded(t)
		clear(m.policies)
		report := verify(t, m)
		if report.DifferenceCount != 1 || report.Differences[0].What != replay.OtherPolicy || report.Checked != 0 || report.Unchecked[replay.UncheckedPolicyGone] == 0 {
			t.Errorf("got %+v, want the policy named, and everything counted as not checked for want of it", report)
		}
	})
}

// TestAnEventThatAgesOutMeanwhileIsCountedByName reads IN, and finds nothing more
// of it when the turn of its events comes.
func TestAnEventThatAgesOutMeanwhileIsCountedByName(t *testing.T) {
	m := recorded(t)
	m.lost = true
	cfg := config(m)
	cfg.Window = 1 // nothing is kept
	report, err := replay.Verify(t.Context(), cfg)
	if err != nil || !report.OK() {
		t.Fatalf("got %+v, %v, want no difference", report, err)
	}
	if got := report.Unchecked[replay.UncheckedEventAged]; report.Checked != 0 || got < int64(len(m.runs)) {
		t.Errorf("%d facts checked and %d counted, want none, and all %d facts", report.Checked, got, len(m.runs))
	}
	m.lost = false
	m.in = slices.DeleteFunc(m.in, func(e stream.Message) bool { return e.Sequence == 3 }) // somebody removed it: older ones are there
	if report := verify(t, m); !slices.ContainsFunc(report.Differences, func(d replay.Difference) bool { return strings.Contains(d.Why, "event 3, is not in IN") }) {
		t.Errorf("got %+v, want what the removed event led to named", report.Differences)
	}
}

func TestWhatWasFoundIsToldWithAnError(t *testing.T) {
	m := recorded(t)
	fact := m.history(m.runsIn()[0])[1]
	fact.Header["ce-id"] = []string{"other"}
	broken := errors.New("the server is gone")
	report, err := replay.Verify(t.Context(), func() replay.VerifyConfig {
		cfg := config(m)
		cfg.Streams = breaking{m, broken}
		return cfg
	}())
	if !errors.Is(err, broken) || report == nil || report.Facts == 0 || report.DifferenceCount != 1 {
		t.Errorf("got %+v, %v, want the difference that was found, and the error", report, err)
	}
}

// breaking is streams whose RUNS ends with an error.
type breaking struct {
	*memory
	err error
}

func (b breaking) Facts(ctx context.Context, from, to uint64) (replay.Cursor, error) {
	c, err := b.memory.Facts(ctx, from, to)
	return breakingCursor{c, b.err}, err
}

type breakingCursor struct {
	replay.Cursor
	err error
}

func (c breakingCursor) Next(ctx context.Context) ([]stream.Message, error) {
	batch, err := c.Cursor.Next(ctx)
	if len(batch) == 0 && err == nil {
		return nil, c.err
	}
	return batch, err
}

func TestAnEventOfARunThatWasGivenUpIsCountedByNameAndMustBeKept(t *testing.T) {
	g := newGenerator(t)
	g.start("run", 1)
	in := g.in("agent.me.run.tool.call", `{"run_id":"run","tool_call_id":"c","tool":"calculate","arguments":{"expression":"1"}}`)
	g.m.runs = g.m.runs[:1] // the call was not decided
	g.write(harness.Internal(in, g.now.Add(lag)))
	letter := stream.Message{
		Subject: "harness.v1.invalid.agent.me.2", Sequence: 1, Time: g.now,
		Header: map[string][]string{"Runledger-Reason": {string(harness.ReasonStoreConflict)}},
	}
	g.m.invalid = []stream.Message{letter}
	if report := verify(t, g.whole()); !report.OK() || report.Unchecked[replay.UncheckedGivenUp] != 1 || report.Checked != 1 {
		t.Errorf("got %+v, want the event counted as of a run that was given up", report)
	}
	g.m.invalid = nil
	if report := verify(t, g.whole()); report.DifferenceCount != 1 || report.Differences[0].Event != 2 || !strings.Contains(report.Differences[0].Why, "INTERNAL_ERROR") {
		t.Errorf("got %+v, want the event named: nobody keeps it", report)
	}
}

// runs is a store that has these runs.
type runs map[string]*harness.Run

func (r runs) LoadRuns(_ context.Context, ids []string) ([]*harness.Run, []error) {
	out, errs := make([]*harness.Run, len(ids)), make([]error, len(ids))
	for i, id := range ids {
		out[i] = r[id]
	}
	return out, errs
}

func TestTheEndOfARunIsComparedWithTheStore(t *testing.T) {
	m := recorded(t).only("poor")
	facts := m.history("poor")
	last := facts[len(facts)-1]
	at := harness.Run{ID: "poor", Sequence: uint64(len(facts)), Stream: last.Sequence, Digest: digestByTheBook(t, last)}
	try := func(run *harness.Run, now time.Time) *replay.Report {
		cfg := config(m)
		cfg.Store, cfg.Clock = runs{"poor": run}, func() time.Time { return now }
		report, err := replay.Verify(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	now := time.Now()
	if r := try(&at, now); !r.OK() || r.Store.Compared != 1 {
		t.Errorf("the same: got %+v", r)
	}
	other := at
	other.Digest = digestByTheBook(t, facts[0])
	if r := try(&other, now); r.DifferenceCount != 1 || r.Differences[0].What != replay.OtherStore || r.Differences[0].Sequence != at.Sequence {
		t.Errorf("another digest: got %+v", r)
	}
	if r := try(&other, now.Add(48*time.Hour)); !r.OK() || r.Store.Expired != 1 {
		t.Errorf("expired: got %+v", r)
	}
	behind := at
	behind.Sequence--
	if r := try(&behind, now); !r.OK() || r.Store.Behind != 1 {
		t.Errorf("behind: got %+v", r)
	}
	if r := try(nil, now); !r.OK() || r.Store.Missing != 1 {
		t.Errorf("missing: got %+v", r)
	}
	further := at
	further.Sequence, further.Stream = at.Sequence+1, m.stretch.FactsEnd+1
	if r := try(&further, now); !r.OK() || r.Store.Further != 1 {
		t.Errorf("went on: got %+v", r)
	}
	further.Stream = m.stretch.FactsEnd
	if r := try(&further, now); r.DifferenceCount != 1 || r.Differences[0].Sequence != at.Sequence+1 {
		t.Errorf("its end was cut off: got %+v", r)
	}
}

func TestAStoreThatDoesNotAnswerEndsTheVerification(t *testing.T) {
	cfg := config(recorded(t).only("poor"))
	cfg.Store, cfg.Clock = down{}, time.Now
	if _, err := replay.Verify(t.Context(), cfg); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want that the store is unavailable", err)
	}
}

type down struct{}

func (down) LoadRuns(_ context.Context, ids []string) ([]*harness.Run, []error) {
	errs := make([]error, len(ids))
	for i := range errs {
		errs[i] = store.ErrUnavailable
	}
	return make([]*harness.Run, len(ids)), errs
}

func TestVerifyConfigurationNamesTheWrongField(t *testing.T) {
	whole := config(recorded(t))
	for field, change := range map[string]func(*replay.VerifyConfig){
		"Streams": func(c *replay.VerifyConfig) { c.Streams = nil },
		"Clock":   func(c *replay.VerifyConfig) { c.Store = runs{} },
		"Skew":    func(c *replay.VerifyConfig) { c.Skew = -1 },
	} {
		cfg := whole
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want an error that names %s", err, field)
		}
	}
}

// TestDuplicatesOfARunsOwnStartAreLetGoOfAtOnce has an agent that sends its start
// again and again, large, while others work.
func TestDuplicatesOfARunsOwnStartAreLetGoOfAtOnce(t *testing.T) {
	g := newGenerator(t)
	g.start("hostile", 3)
	for range 5000 {
		g.now = g.now.Add(time.Millisecond)
		again := g.m.in[0]
		again.Data = []byte(`{"run_id":"hostile","pad":"` + strings.Repeat("x", 1000) + `"}`)
		again.Sequence, again.Time = uint64(len(g.m.in)+1), g.now
		g.m.in = append(g.m.in, again)
	}
	g.start("other", 1)
	report, _, _, held, err := replay.VerifyAndCount(t.Context(), config(g.whole()))
	if err != nil || !report.OK() || report.Ignored != 5000 || report.Events != 5002 {
		t.Errorf("got %+v, %v, want all duplicates passed over", report, err)
	}
	if held != 0 {
		t.Errorf("%d events are held, want none", held)
	}
}

// TestWhatWaitsLongestIsLetGoOfFirst has events of one agent that nothing ever
// answers in so small a window that nothing else would fit beside them.
func TestWhatWaitsLongestIsLetGoOfFirst(t *testing.T) {
	g := newGenerator(t)
	g.start("hostile", 3)
	call := g.in("agent.me.hostile.tool.call", `{"run_id":"hostile","tool_call_id":"c","tool":"calculate","arguments":{"expression":"1"}}`)
	for range 100 { // the event that made a record, again
		again := g.m.in[call.Sequence-1]
		again.Sequence = uint64(len(g.m.in) + 1)
		g.m.in = append(g.m.in, again)
	}
	for i := range 200 {
		run := fmt.Sprintf("r%d", i)
		g.start(run, 1)
		g.in("agent.me."+run+".run.finish", fmt.Sprintf(`{"run_id":%q,"outcome":"SUCCESS"}`, run))
	}
	m := &counting{memory: g.whole()}
	cfg := config(m.memory)
	cfg.Streams, cfg.Window = m, 8<<10
	report, err := replay.Verify(t.Context(), cfg)
	if err != nil || !report.OK() || report.Checked != report.Facts {
		t.Fatalf("got %+v, %v, want everything checked", report, err)
	}
	if m.single < 50 || m.single > 150 {
		t.Errorf("%d events were read once more, want the 100 that waited, but for a few, and few others", m.single)
	}
}

// counting counts the events that are read one by one.
type counting struct {
	*memory
	single int
}

func (c *counting) Event(ctx context.Context, sequence uint64) (stream.Message, error) {
	c.single++
	return c.memory.Event(ctx, sequence)
}

func TestMoreWaitingEventsOfOneRunThanAreHeldAreCountedByName(t *testing.T) {
	g := newGenerator(t)
	g.start("hostile", 3)
	call := g.in("agent.me.hostile.tool.call", `{"run_id":"hostile","tool_call_id":"c","tool":"calculate","arguments":{"expression":"1"}}`)
	for range 1<<17 + 1 {
		again := g.m.in[call.Sequence-1]
		again.Sequence = uint64(len(g.m.in) + 1)
		g.m.in = append(g.m.in, again)
	}
	g.start("other", 1)
	report := verify(t, g.whole())
	if !report.OK() || report.Unchecked[replay.UncheckedTooMany] < 1<<17 || report.Checked != 3 {
		t.Errorf("got %+v, want that many counted, and the facts before and of other runs checked", report)
	}
}

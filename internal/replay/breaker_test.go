package replay_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/replay"
	"runledger/internal/stream"
)

// wantOne requires that one thing was found, of that kind, and that its sentence
// holds the text.
func wantOne(t *testing.T, r *replay.Report, what replay.What, says string) {
	t.Helper()
	if r.DifferenceCount != 1 || r.Differences[0].What != what || !strings.Contains(r.Differences[0].String(), says) {
		t.Errorf("got %v, want one difference %s that says %q", r.Differences, what, says)
	}
}

// direct verifies without what other verifications compiled.
func direct(t *testing.T, m *memory) *replay.Report {
	t.Helper()
	report, err := replay.Verify(t.Context(), config(m))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestAChangedByteOfAPolicyIsNamedWithBothDigests(t *testing.T) {
	m := recorded(t)
	digest := policyOf(m)
	m.policies[digest] = append([]byte("# x\n"), m.policies[digest]...)
	r := direct(t, m)
	wantOne(t, r, replay.OtherPolicy, "POLICIES has something else under its digest")
	if got := r.Differences[0].Fields; len(got) != 1 || got[0].Expected != digest || got[0].Got != events.DigestBytes(m.policies[digest]) {
		t.Errorf("got %v, want the digest, and that of what is there", got)
	}
	if r.Checked != 0 || r.Unchecked[replay.UncheckedPolicyGone] == 0 {
		t.Errorf("got %+v, want nothing checked by it", r)
	}
	facts := m.history("early") // the chain is held all the same
	facts[1].Data = []byte(strings.Replace(string(facts[1].Data), `"tool":"calculate"`, `"tool":"think"`, 1))
	if r := direct(t, m); r.DifferenceCount != 2 || r.Differences[1].Run != "early" || !strings.Contains(r.Differences[1].Why, fmt.Sprintf("than fact 2 has (RUNS %d)", facts[1].Sequence)) {
		t.Errorf("got %v, want the broken chain named too, by fact 2", r.Differences)
	}
}

// agedByOne lets the first message of RUNS age out, of a run that is not judged.
func agedByOne(t *testing.T) *memory {
	t.Helper()
	m := recorded(t)
	m.stretch.Whole = false // nothing shows but by the runs themselves
	first := m.runs[0]
	m.remove(first.Sequence)
	m.stretch.FactsKept, m.stretch.FactsKeptAt = first.Sequence+1, first.Time.Add(-2*time.Minute)
	return m
}

func TestOnlyWhatIsOlderThanAllOfRUNSCountsAsAgedOut(t *testing.T) {
	for removed := 1; removed <= 3; removed++ {
		m := agedByOne(t)
		facts := m.history("poor")
		at := facts[removed].Sequence
		for range removed {
			m.remove(m.history("poor")[0].Sequence)
		}
		var of []replay.Difference
		for _, d := range verify(t, m).Differences {
			if d.Run == "poor" {
				of = append(of, d)
			}
		}
		if len(of) != 1 || of[0].What != replay.Missing || of[0].Sequence != 1 || of[0].Stream != at {
			t.Errorf("%d facts were removed: got %v, want fact 1 named as missing at RUNS %d", removed, of, at)
		}
		m.stretch.FactsKeptAt = m.in[len(m.in)-1].Time // all of it may be older
		if r := verify(t, m); r.Unchecked[replay.UncheckedHistoryAged] == 0 || slices.ContainsFunc(r.Differences, func(d replay.Difference) bool { return d.Run == "poor" }) {
			t.Errorf("%d facts may have aged out: got %+v, want them counted", removed, r)
		}
	}
}

func TestWhereINForgetsTooARunMayHaveBegunAsMuchEarlierAsRunsLast(t *testing.T) {
	m := agedByOne(t)
	m.remove(m.history("poor")[0].Sequence)
	m.kept = 2 // IN has lost its first event, and so may have lost an earlier start
	if r := verify(t, m); r.Unchecked[replay.UncheckedHistoryAged] == 0 {
		t.Errorf("got %+v, want the run counted as aged", r)
	}
	m.stretch.FactsKeptAt = m.stretch.FactsKeptAt.Add(-31 * 24 * time.Hour)
	if r := verify(t, m); !slices.ContainsFunc(r.Differences, func(d replay.Difference) bool { return d.Run == "poor" && d.What == replay.Missing }) {
		t.Errorf("got %v, want what is missing named: no run lasts that long", r.Differences)
	}
}

// TestAHistoryWithoutItsBeginningIsHeldByItsChain changes, removes and repeats
// what is left of a run whose first facts have aged out.
func TestAHistoryWithoutItsBeginningIsHeldByItsChain(t *testing.T) {
	aged := func() *memory {
		m := recorded(t).only("early")
		facts := m.history("early")
		m.stretch.FactsKept, m.stretch.FactsKeptAt, m.stretch.FactsFrom = facts[3].Sequence, facts[3].Time, facts[3].Sequence
		m.runs = slices.DeleteFunc(m.runs, func(f stream.Message) bool { return f.Sequence < m.stretch.FactsKept })
		return m
	}
	if r := verify(t, aged()); !r.OK() || r.Unchecked[replay.UncheckedHistoryAged] == 0 {
		t.Fatalf("got %+v, want no difference", r)
	}
	m := aged()
	f := m.history("early")
	f[1].Data = []byte(strings.Replace(string(f[1].Data), `"tool":"calculate"`, `"tool":"think"`, 1))
	wantOne(t, verify(t, m), replay.Changed, fmt.Sprintf("fact 6 (model.granted), RUNS %d", f[2].Sequence))
	m = aged()
	f = m.history("early")
	next := f[3].Sequence
	m.remove(f[2].Sequence)
	wantOne(t, verify(t, m), replay.Missing, fmt.Sprintf("fact 6, RUNS %d", next))
	m = aged()
	again := *m.history("early")[2]
	again.Sequence = m.runs[len(m.runs)-1].Sequence + 1
	m.stretch.FactsTo = again.Sequence
	m.runs = append(m.runs, again)
	wantOne(t, verify(t, m), replay.Added, fmt.Sprintf("RUNS %d", again.Sequence))
}

// TestAFactThatIsStoredInTheStretchIsJudgedWhateverEventItNames gives a fact of
// the stretch an old cause and other data, and puts in one as well.
func TestAFactThatIsStoredInTheStretchIsJudgedWhateverEventItNames(t *testing.T) {
	whole := recorded(t)
	whole.stretch.Whole = false
	facts := whole.history("early")
	whole.stretch.From, whole.stretch.FactsJudged = number(facts[2].Header.Get("ce-causationsequence")), facts[2].Sequence
	if r := verify(t, whole); !r.OK() {
		t.Fatalf("got %v, want no difference", r.Differences)
	}
	m := whole.clone()
	f := m.history("early")[4]
	f.Header["ce-causationsequence"] = []string{"1"}
	f.Data = []byte(strings.Replace(string(f.Data), `"tool":"calculate"`, `"tool":"think"`, 1))
	if r := verify(t, m); r.OK() || r.Differences[0].Run != "early" || r.Differences[0].Stream != f.Sequence {
		t.Errorf("got %v, want the changed fact named", r.Differences)
	}
	m = whole.clone()
	forged := copies([]stream.Message{*m.history("open")[1]})[0]
	forged.Sequence = m.runs[len(m.runs)-1].Sequence + 1
	forged.Header["ce-sequence"] = []string{fmt.Sprintf("%020d", len(m.history("open"))+1)}
	forged.Header["ce-causationsequence"] = []string{"1"}
	forged.Data = []byte(`{"forged":true}`)
	m.stretch.FactsTo = forged.Sequence
	m.runs = append(m.runs, forged)
	if r := verify(t, m); r.OK() || r.Differences[0].Run != "open" || r.Differences[0].Stream != forged.Sequence {
		t.Errorf("got %v, want the forged fact named", r.Differences)
	}
}

// TestAnEventFromBeforeTheStretchIsNotJudgedAsUnanswered puts in a fact that names
// an event which was answered before the stretch, outside the history.
func TestAnEventFromBeforeTheStretchIsNotJudgedAsUnanswered(t *testing.T) {
	m := recorded(t)
	m.stretch.Whole = false
	right := m.history("early")[5]
	asked := m.in[slices.IndexFunc(m.in, func(e stream.Message) bool { return strings.Contains(e.Subject, "agent.other.early.run.finish") })]
	for i := range m.runs { // room for one more
		if m.runs[i].Sequence > right.Sequence {
			m.runs[i].Sequence++
		}
	}
	forged := copies([]stream.Message{*right})[0]
	right.Sequence++
	m.stretch.FactsTo++
	m.stretch.From, m.stretch.FactsJudged = number(right.Header.Get("ce-causationsequence")), forged.Sequence
	forged.Header["ce-causationsequence"] = []string{fmt.Sprint(asked.Sequence)}
	m.runs = slices.Insert(m.runs, slices.IndexFunc(m.runs, func(f stream.Message) bool { return f.Sequence == right.Sequence }), forged)
	wantOne(t, verify(t, m), replay.Added, fmt.Sprintf("fact 6 (model.granted), RUNS %d, cause IN %d", forged.Sequence, asked.Sequence))
}

// TestWhereNoPositionIsKnownLaterDecisionsOfThePartitionShowWhatIsDecided is a
// copy of the streams, which counts in another IN.
func TestWhereNoPositionIsKnownLaterDecisionsOfThePartitionShowWhatIsDecided(t *testing.T) {
	whole := generated(t, 200, 1)
	whole.stretch.Positions = nil
	r := verify(t, whole)
	if !r.OK() || r.NoPosition != 1 || r.Checked != r.Facts {
		t.Fatalf("got %+v, want everything checked, and one partition without a position", r)
	}
	m := whole.clone()
	cut := m.history("run-000001")[3:]
	for _, sequence := range []uint64{cut[0].Sequence, cut[1].Sequence, cut[2].Sequence} {
		m.remove(sequence)
	}
	if r := verify(t, m); r.OK() || r.Differences[0].Run != "run-000001" || r.Differences[0].Sequence != 4 {
		t.Errorf("got %+v, want the cut tail named", r)
	}
	m = whole.clone() // one of the last runs may be in flight, though others were faster
	last := m.history("run-000197")
	var removed []uint64
	for _, f := range last[3:] {
		removed = append(removed, f.Sequence)
	}
	for _, sequence := range removed {
		m.remove(sequence)
	}
	if r := verify(t, m); !r.OK() || r.Unchecked[replay.UncheckedUndecided] == 0 {
		t.Errorf("got %+v, want its events counted as not decided yet", r)
	}
}

// TestAForgedDeadLetterDoesNotHideACutTail cuts off a run and keeps the event in
// INVALID as one that was given up.
func TestAForgedDeadLetterDoesNotHideACutTail(t *testing.T) {
	m := recorded(t).only("poor")
	cut := m.history("poor")[2:]
	cause := number(cut[0].Header.Get("ce-causationsequence"))
	removed := map[uint64]bool{}
	for _, f := range cut {
		removed[f.Sequence] = true
	}
	m.runs = slices.DeleteFunc(m.runs, func(f stream.Message) bool { return removed[f.Sequence] })
	m.invalid = append(m.invalid, letterOf("agent.me", cause, harness.ReasonStoreConflict))
	wantOne(t, verify(t, m), replay.Unanswered, "its agent was not told INTERNAL_ERROR")
}

func letterOf(principal string, event uint64, reason harness.Reason) stream.Message {
	return stream.Message{
		Subject: fmt.Sprintf("harness.v1.invalid.%s.%d", principal, event), Sequence: 999, Time: time.Now(),
		Header: map[string][]string{"Runledger-Reason": {string(reason)}},
	}
}

// TestAnInternalErrorBesideTheRightAnswerIsPutInUnlessTheEventIsKept tells the
// agent INTERNAL_ERROR before and after the right answer.
func TestAnInternalErrorBesideTheRightAnswerIsPutInUnlessTheEventIsKept(t *testing.T) {
	for _, before := range []bool{true, false} {
		g := newGenerator(t)
		g.start("run", 1)
		in := g.in("agent.me.run.tool.call", `{"run_id":"run","tool_call_id":"c","tool":"no_such_tool","arguments":{}}`)
		g.write(harness.Internal(in, g.now.Add(lag)))
		if before {
			g.m.runs[1], g.m.runs[2] = g.m.runs[2], g.m.runs[1]
			g.m.runs[1].Sequence, g.m.runs[2].Sequence = 2, 3
		}
		r := verify(t, g.whole())
		if r.DifferenceCount != 1 || r.Differences[0].What != replay.Added || r.FactsDiffer != 1 || r.Checked != 2 {
			t.Errorf("before %v: got %+v, want it named as put in", before, r)
		}
		g.m.invalid = []stream.Message{letterOf("agent.me", in.Sequence, harness.ReasonStoreConflict)}
		if r := verify(t, g.whole()); !r.OK() || r.Unchecked[replay.UncheckedGivenUp] != 1 || r.FactsUnchecked != 1 {
			t.Errorf("before %v, and the event is kept: got %+v, want it counted as given up", before, r)
		}
	}
}

func TestAnInternalErrorThatIsToldTwiceIsPutIn(t *testing.T) {
	g := newGenerator(t)
	g.start("run", 1)
	in := g.in("agent.me.run.tool.call", `{"run_id":"run","tool_call_id":"c","tool":"no_such_tool","arguments":{}}`)
	g.m.runs = g.m.runs[:1] // the call was not decided
	g.write(harness.Internal(in, g.now.Add(lag)))
	g.write(harness.Internal(in, g.now.Add(lag)))
	g.m.invalid = []stream.Message{letterOf("agent.me", in.Sequence, harness.ReasonStoreConflict)}
	wantOne(t, verify(t, g.whole()), replay.Added, "RUNS 3, cause IN 2 (tool.call): its agent was told so before")
}

func TestEachDeadLetterMustBelongToAnEventThatLeadsToIt(t *testing.T) {
	whole := recorded(t)
	answered := number(whole.history("early")[1].Header.Get("ce-causationsequence"))
	for name, c := range map[string]struct {
		letter stream.Message
		says   string
	}{
		"of an answered event":    {letterOf("agent.me", answered, harness.ReasonUnknownCall), "nothing led to it"},
		"of no event":             {letterOf("agent.me", 99999, harness.ReasonStoreConflict), "the event is not in IN"},
		"whose subject is none":   {stream.Message{Subject: "harness.v1.invalid.agent.me.x", Sequence: 999}, "names no event"},
		"once more, of an agent":  {letterOf("agent.x", number(whole.invalid[0].Header.Get("Runledger-Sequence")), harness.ReasonLateAgain), "the event led to message 1"},
		"of a reason on its ways": {letterOf("agent.me", answered, "\x1b[31mX"), "nothing led to it"},
	} {
		m := whole.clone()
		m.invalid = append(m.invalid, c.letter)
		r := verify(t, m)
		wantOne(t, r, replay.LetterPutIn, c.says)
		if len(r.Differences) > 0 && strings.ContainsRune(r.Differences[0].String(), 0x1b) {
			t.Errorf("%s: it prints a control character", name)
		}
	}
	m := whole.clone() // given up by one owner, and decided by another
	m.invalid = append(m.invalid, letterOf("agent.me", answered, harness.ReasonStoreConflict))
	if r := verify(t, m); !r.OK() || r.Unchecked[replay.UncheckedGivenUp] != 1 {
		t.Errorf("got %+v, want it counted as given up", r)
	}
}

// TestPurgedLettersExcuseOnlyWhatIsOlderThanTheFirstThatIsLeft removes each
// letter where the first one that is left is older than its event, and younger.
func TestPurgedLettersExcuseOnlyWhatIsOlderThanTheFirstThatIsLeft(t *testing.T) {
	whole := recorded(t)
	for i := range whole.invalid {
		m := whole.clone()
		m.invalid = slices.Delete(m.invalid, i, i+1)
		m.stretch.LettersLost, m.stretch.LettersKeptAt = true, m.in[0].Time.Add(-2*time.Minute)
		if r := verify(t, m); r.DifferenceCount != 1 || r.Differences[0].What != replay.Unanswered || !r.LettersPurged {
			t.Errorf("letter %d: got %+v, want it named: none that is so young was purged", i, r)
		}
		m.stretch.LettersKeptAt = time.Now()
		if r := verify(t, m); !r.OK() || r.Unchecked[replay.UncheckedLetterGone] != 1 {
			t.Errorf("letter %d: got %+v, want it counted", i, r)
		}
	}
}

func TestEveryDispatchIsHeldToItsReservation(t *testing.T) {
	whole := recorded(t)
	if r := verify(t, whole); r.Dispatches != int64(len(whole.dispatch)) || r.Dispatches < 9 {
		t.Fatalf("%d of %d dispatches are the same, want all, and some", r.Dispatches, len(whole.dispatch))
	}
	for i := range whole.dispatch {
		subject := whole.dispatch[i].Subject
		for name, change := range map[string]func(*memory){
			"its data":     func(m *memory) { m.dispatch[i].Data = append(m.dispatch[i].Data, ' ') },
			"an attribute": func(m *memory) { m.dispatch[i].Header["ce-id"] = []string{"x"} },
			"one more":     func(m *memory) { m.dispatch[i].Header["ce-x"] = []string{"x"} },
			"its executor": func(m *memory) { m.dispatch[i].Subject = strings.Replace(subject, ".airline.", ".other.", 1) },
			"its call":     func(m *memory) { m.dispatch[i].Subject += "9" },
			"its run": func(m *memory) {
				m.dispatch[i].Subject = strings.Replace(subject, ".dispatch.airline.", ".dispatch.airline.x", 1)
			},
			"how often it is": func(m *memory) { again(m, i) },
		} {
			m := whole.clone()
			change(m)
			if r := verify(t, m); r.OK() || r.Differences[0].What != replay.OtherDispatch {
				t.Errorf("%s: of dispatch %s was changed, and what was found is %v", name, subject, r.Differences)
			}
		}
	}
}

// again dispatches the same call once more.
func again(m *memory, i int) {
	d := copies(m.dispatch[i : i+1])[0]
	d.Sequence = m.dispatch[len(m.dispatch)-1].Sequence + 1
	m.stretch.Dispatches.To = d.Sequence
	m.dispatch = append(m.dispatch, d)
}

func TestAnOpenCallMustBeDispatchedAndASettledOneNeedNot(t *testing.T) {
	g := newGenerator(t)
	g.start("run", 2)
	g.in("agent.me.run.tool.call", `{"run_id":"run","tool_call_id":"c","tool":"calculate","arguments":{"expression":"1"}}`)
	m := g.whole()
	m.stretch.Dispatches = &replay.DispatchStretch{From: 1, To: math.MaxUint64, At: g.now.Add(-2 * time.Minute)}
	wantOne(t, verify(t, m), replay.OtherDispatch, "run run, fact 2 (tool.reserved), RUNS 2, cause IN 2: the call is open")
	m.stretch.Dispatches.At = g.now.Add(10 * time.Second) // its time is over, or nearly
	if r := verify(t, m); !r.OK() {
		t.Errorf("got %v, want no difference: nobody may run it any more", r.Differences)
	}
	m.stretch.Dispatches.At, m.stretch.Dispatches.Largest = g.now.Add(-2*time.Minute), 1000
	if r := verify(t, m); !r.OK() {
		t.Errorf("got %v, want no difference: it does not fit into a message", r.Differences)
	}
	g.in("executor.airline.run.tool.result", `{"run_id":"run","tool_call_id":"c","dispatch_id":"run.2","outcome":"SUCCEEDED","result":{"sum":1}}`)
	m = g.whole()
	m.stretch.Dispatches = &replay.DispatchStretch{From: 1, To: math.MaxUint64, At: g.now.Add(-2 * time.Minute)}
	if r := verify(t, m); !r.OK() {
		t.Errorf("got %v, want no difference: it has settled", r.Differences)
	}
}

// TestADispatchOfACallFromBeforeTheStretchIsHeldToo takes every stretch.
func TestADispatchOfACallFromBeforeTheStretchIsHeldToo(t *testing.T) {
	whole := recorded(t)
	for _, from := range []uint64{2, 40, whole.stretch.EventsTo} {
		m := whole.clone()
		m.stretch.From, m.stretch.FactsJudged = from, math.MaxUint64
		if r := verify(t, m); !r.OK() || r.Dispatches != int64(len(m.dispatch)) {
			t.Errorf("from event %d: %d of %d dispatches are the same, and %v", from, r.Dispatches, len(m.dispatch), r.Differences)
		}
		m.dispatch[0].Data = append(m.dispatch[0].Data, ' ')
		wantOne(t, verify(t, m), replay.OtherDispatch, "not what its reservation leads to")
		m = whole.clone()
		m.stretch.From, m.stretch.FactsJudged = from, math.MaxUint64
		again(m, 0)
		wantOne(t, verify(t, m), replay.OtherDispatch, "dispatched before")
	}
}

// TestWhatWasErasedFromBothStreamsLeavesGapsThatAreNamed erases a whole run, of
// which nothing else tells.
func TestWhatWasErasedFromBothStreamsLeavesGapsThatAreNamed(t *testing.T) {
	m := recorded(t)
	of := func(x stream.Message) bool { return strings.Contains(x.Subject+".", ".poor.") }
	n := len(m.in) + len(m.runs)
	m.runs, m.in, m.dispatch = slices.DeleteFunc(m.runs, of), slices.DeleteFunc(m.in, of), slices.DeleteFunc(m.dispatch, of)
	if n -= len(m.in) + len(m.runs); n < 10 {
		t.Fatalf("%d messages were erased, want a whole run", n)
	}
	r := verify(t, m)
	if r.OK() || slices.ContainsFunc(r.Differences, func(d replay.Difference) bool { return d.What != replay.Gap }) {
		t.Errorf("got %v, want gaps", r.Differences)
	}
	m.stretch.Whole = false
	if r := verify(t, m); !r.OK() {
		t.Errorf("got %v, want none where only a part is read", r.Differences)
	}
}

func TestGapsAreNamedByWhatIsNotThere(t *testing.T) {
	m := recorded(t)
	m.stretch.Whole = true
	m.in = slices.DeleteFunc(m.in, func(e stream.Message) bool { return strings.HasSuffix(e.Subject, ".tool.bla") }) // its letter is there
	r := verify(t, m)
	if r.DifferenceCount != 2 || r.Differences[0].What != replay.Gap || r.Differences[1].What != replay.LetterPutIn {
		t.Errorf("got %v, want the gap, and the letter without its event", r.Differences)
	}
	m = recorded(t)
	m.stretch.EventsEnd = m.stretch.EventsTo + 2 // the last two were taken away
	wantOne(t, verify(t, m), replay.Gap, fmt.Sprintf("IN does not have the 2 messages %d to %d,", m.stretch.EventsTo+1, m.stretch.EventsTo+2))
	m = recorded(t)
	m.stretch.FactsEnd++
	wantOne(t, verify(t, m), replay.Gap, fmt.Sprintf("RUNS does not have the message %d,", m.stretch.FactsEnd))
	m = recorded(t)
	m.stretch.Positions[3] = m.stretch.EventsEnd + 7
	wantOne(t, verify(t, m), replay.Gap, fmt.Sprintf("partition 3 is decided up to event %d, and IN ends with %d", m.stretch.EventsEnd+7, m.stretch.EventsEnd))
	m = recorded(t) // what has aged out is none
	first := m.runs[3]
	m.runs = m.runs[3:]
	m.stretch.FactsKept, m.stretch.FactsKeptAt = first.Sequence, first.Time
	if r := verify(t, m); slices.ContainsFunc(r.Differences, func(d replay.Difference) bool { return d.What == replay.Gap }) {
		t.Errorf("got %v, want no gap", r.Differences)
	}
}

func TestFactsThatWereStoredLongAfterTheirTimeAreCounted(t *testing.T) {
	m := recorded(t).only("early")
	for _, f := range m.history("early")[2:] {
		f.Time = f.Time.Add(time.Hour)
	}
	if r := verify(t, m); !r.OK() || r.StoredLate != int64(len(m.history("early"))-2) {
		t.Errorf("got %+v, want all but two counted", r)
	}
}

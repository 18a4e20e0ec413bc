package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/replay"
	"runledger/internal/stream"
)

// place says where a fact stands, as the message itself tells.
type place struct {
	run, kind string
	sequence  uint64 // 0 outside a history
	stream    uint64
}

func placeOf(m *stream.Message) place {
	tokens := strings.Split(m.Subject, ".")
	p := place{run: tokens[4], kind: tokens[5] + "." + tokens[6], stream: m.Sequence}
	_, _ = fmt.Sscanf(m.Header.Get("ce-sequence"), "%020d", &p.sequence)
	return p
}

func (p place) String() string {
	return fmt.Sprintf("run %s, fact %d (%s), RUNS %d", p.run, p.sequence, p.kind, p.stream)
}

// only keeps what is about one run.
func (m *memory) only(run string) *memory {
	c := m.clone()
	foreign := func(e stream.Message) bool { return !strings.Contains(e.Subject+".", "."+run+".") }
	c.runs, c.in, c.dispatch = slices.DeleteFunc(c.runs, foreign), slices.DeleteFunc(c.in, foreign), slices.DeleteFunc(c.dispatch, foreign)
	c.stretch.Whole = false
	return c
}

// history gives the facts of a run's history, in order.
func (m *memory) history(run string) []*stream.Message {
	var out []*stream.Message
	for i := range m.runs {
		if p := placeOf(&m.runs[i]); p.run == run && p.sequence > 0 {
			out = append(out, &m.runs[i])
		}
	}
	return out
}

// runsIn are the runs that have a history.
func (m *memory) runsIn() []string {
	var out []string
	for i := range m.runs {
		if p := placeOf(&m.runs[i]); p.sequence == 1 {
			out = append(out, p.run)
		}
	}
	return out
}

// wantNamed requires that something was found, and that the first of it is this.
func wantNamed(t *testing.T, m *memory, what replay.What, p place) replay.Difference {
	t.Helper()
	report := verify(t, m)
	if report.OK() {
		t.Errorf("%s %s: nothing was found", what, p)
		return replay.Difference{}
	}
	d := report.Differences[0]
	if d.What != what || d.Run != p.run || d.Sequence != p.sequence || d.Stream != p.stream {
		t.Errorf("got %s\nwant %s %s", d, what, p)
	}
	return d
}

func TestEachPartOfTheRecordingAloneHolds(t *testing.T) {
	whole := recorded(t)
	runs := whole.runsIn()
	if len(runs) != 8 {
		t.Fatalf("%d runs, want 8", len(runs))
	}
	for _, run := range runs {
		if report := verify(t, whole.only(run)); !report.OK() {
			t.Errorf("run %s: %s", run, report.Differences[0])
		}
	}
}

// TestEveryAttributeOfEveryFactIsHeld changes one character of one attribute at
// a time. What is believed of a fact is its instant alone: the chain holds that,
// by the fact that follows.
func TestEveryAttributeOfEveryFactIsHeld(t *testing.T) {
	whole := recorded(t)
	for _, run := range whole.runsIn() {
		part := whole.only(run)
		facts := part.history(run)
		for i := range part.runs {
			p := placeOf(&part.runs[i])
			for name, values := range part.runs[i].Header {
				if !strings.HasPrefix(name, "ce-") {
					continue
				}
				m := part.clone()
				m.runs[i].Header[name] = []string{changedCharacter(name, values[0])}
				report := verify(t, m)
				last := p.sequence == uint64(len(facts)) || p.sequence == 0
				switch {
				case name == "ce-time" && last:
					continue // see TestTheLastInstantOfARun…
				case report.OK():
					t.Errorf("%s: attribute %s was changed to %q, and nothing was found", p, name, m.runs[i].Header[name])
				case name == "ce-causationsequence": // it may name the other event
				case name == "ce-time" && p.sequence == uint64(len(facts))-1: // told with the last fact, as one of the two
				case report.Differences[0].Run != p.run || report.Differences[0].Stream != p.stream:
					t.Errorf("%s: attribute %s was changed, and what was found first is\n%s", p, name, report.Differences[0])
				}
			}
		}
	}
}

// changedCharacter changes the last character that counts.
func changedCharacter(name, value string) string {
	at := len(value) - 1
	if name == "ce-time" {
		at-- // before the Z
	}
	other := byte('1')
	if value[at] == '1' {
		other = '2'
	}
	return value[:at] + string(other) + value[at+1:]
}

func TestEveryMemberOfTheDataOfEveryFactIsHeld(t *testing.T) {
	whole := recorded(t)
	for _, run := range whole.runsIn() {
		part := whole.only(run)
		for i := range part.runs {
			p := placeOf(&part.runs[i])
			data := string(part.runs[i].Data)
			for at := range data {
				if data[at] != ':' || data[at-1] != '"' {
					continue
				}
				m := part.clone()
				value := data[at+1]
				other := byte('1')
				switch value {
				case '"':
					m.runs[i].Data = []byte(data[:at+2] + "x" + data[at+2:])
				case '1':
					other = '2'
					fallthrough
				default:
					m.runs[i].Data[at+1] = other
				}
				report := verify(t, m)
				if strings.HasSuffix(data[:at], `"policy"`) { // of a policy that nobody has nothing can be decided again, but the chain holds
					if report.DifferenceCount != 2 || report.Differences[0].What != replay.OtherPolicy || report.Differences[0].Stream != p.stream ||
						!strings.Contains(report.Differences[1].Why, fmt.Sprintf("than fact 1 has (RUNS %d)", p.stream)) {
						t.Errorf("%s: the policy was changed, and what was found is %+v", p, report.Differences)
					}
					continue
				}
				if report.OK() || report.Differences[0].Run != p.run || report.Differences[0].Stream != p.stream {
					t.Errorf("%s: data were changed at %.40q, and what was found is %+v", p, data[at-min(at, 20):], report.Differences)
				}
			}
		}
	}
}

func TestAnAlteredLimitIsNamedWithBothValues(t *testing.T) {
	m := recorded(t)
	started := m.history("early")[0]
	started.Data = []byte(strings.Replace(string(started.Data), `"tool_calls":3`, `"tool_calls":4`, 1))
	d := wantNamed(t, m, replay.Changed, placeOf(started))
	if want := []replay.Field{{Name: "data.limits.tool_calls", Expected: "3", Got: "4"}}; !slices.Equal(d.Fields, want) {
		t.Errorf("got %v, want %v", d.Fields, want)
	}
	if d.Verb != events.VerbRunStart {
		t.Errorf("got the cause %s, want %s", d.Verb, events.VerbRunStart)
	}
	if report := verify(t, m); report.DifferenceCount != 1 {
		t.Errorf("got %d differences, want the one: what follows is as it was", report.DifferenceCount)
	}
}

func TestEveryRemovedFactIsNamed(t *testing.T) {
	whole := recorded(t)
	for i := range whole.runs {
		p := placeOf(&whole.runs[i])
		m := whole.only(p.run)
		last, next := uint64(len(m.history(p.run))), uint64(0)
		if p.sequence > 0 && p.sequence < last {
			next = m.history(p.run)[p.sequence].Sequence
		}
		m.remove(p.stream)
		switch {
		case p.sequence == 0:
			report := verify(t, m)
			if report.DifferenceCount != 1 || report.Differences[0].What != replay.Unanswered || string(report.Differences[0].Kind) != p.kind {
				t.Errorf("%s was removed: got %+v, want its event named as unanswered", p, report.Differences)
			}
		case p.sequence == last:
			report := verify(t, m)
			if report.DifferenceCount != 1 || report.Differences[0].Sequence != p.sequence || string(report.Differences[0].Kind) != p.kind {
				t.Errorf("%s was removed: got %+v, want it named", p, report.Differences)
			}
		default: // named where the next one stands
			wantNamed(t, m, replay.Missing, place{run: p.run, sequence: p.sequence, stream: next})
		}
	}
}

func TestEveryCutTailIsFound(t *testing.T) {
	whole := recorded(t)
	for _, run := range whole.runsIn() {
		for kept := range whole.history(run) {
			m := whole.only(run)
			facts := m.history(run)
			removed := map[uint64]bool{}
			for _, f := range facts[kept:] {
				removed[f.Sequence] = true
			}
			m.runs = slices.DeleteFunc(m.runs, func(f stream.Message) bool { return removed[f.Sequence] })
			report := verify(t, m)
			if report.OK() || report.Differences[0].Run != run || kept > 0 && report.Differences[0].Sequence > uint64(kept)+1 {
				t.Errorf("run %s was cut off after fact %d: got %+v", run, kept, report.Differences)
			}
		}
	}
}

func TestEveryFactThatIsPutInTwiceIsNamed(t *testing.T) {
	whole := recorded(t)
	for i := range whole.runs {
		p := placeOf(&whole.runs[i])
		m := whole.only(p.run)
		again := *m.fact(p.stream)
		again.Sequence = m.runs[len(m.runs)-1].Sequence + 1
		m.stretch.FactsTo = max(m.stretch.FactsTo, again.Sequence)
		m.runs = append(m.runs, again)
		wantNamed(t, m, replay.Added, place{run: p.run, sequence: p.sequence, stream: again.Sequence})
	}
}

// TestEveryFactThatIsPutInBeforeTheRightOneIsNamed puts a fact that says
// something else where another one belongs, which then follows.
func TestEveryFactThatIsPutInBeforeTheRightOneIsNamed(t *testing.T) {
	whole := recorded(t)
	for i := range whole.runs {
		p := placeOf(&whole.runs[i])
		if p.sequence == 0 {
			continue
		}
		m := whole.only(p.run)
		for j := range m.runs { // room for one more
			if m.runs[j].Sequence >= p.stream {
				m.runs[j].Sequence++
			}
		}
		m.stretch.FactsTo++
		at := slices.IndexFunc(m.runs, func(f stream.Message) bool { return f.Sequence == p.stream+1 })
		forged := copies(m.runs[at : at+1])[0]
		forged.Sequence = p.stream
		forged.Data = []byte(strings.Replace(string(forged.Data), `":`, `x":`, 1))
		m.runs = slices.Insert(m.runs, at, forged)
		wantNamed(t, m, replay.Added, p)
		if report := verify(t, m); report.DifferenceCount != 1 {
			t.Errorf("%s: got %d differences, want the one: %v", p, report.DifferenceCount, report.Differences)
		}
	}
}

func TestSwappedFactsAreNamedAsOutOfPlace(t *testing.T) {
	whole := recorded(t)
	for _, run := range whole.runsIn() {
		for i := 1; i+1 < len(whole.history(run)); i++ {
			m := whole.only(run)
			facts := m.history(run)
			a, b := facts[i], facts[i+1]
			p := placeOf(a)
			a.Sequence, b.Sequence = b.Sequence, a.Sequence
			p.stream = a.Sequence
			slices.SortFunc(m.runs, func(x, y stream.Message) int { return int(x.Sequence) - int(y.Sequence) })
			d := wantNamed(t, m, replay.Misplaced, p)
			if d.Why == "" {
				t.Error("want why")
			}
		}
	}
}

// TestAChainThatWasWrittenAnewIsFoundWhereItBegins changes one fact and gives
// every later one of its run the digest that then follows.
func TestAChainThatWasWrittenAnewIsFoundWhereItBegins(t *testing.T) {
	m := recorded(t)
	facts := m.history("early")
	changed := facts[1]
	changed.Data = []byte(strings.Replace(string(changed.Data), `"tool":"calculate"`, `"tool":"think"`, 1))
	for i := 1; i+1 < len(facts); i++ {
		facts[i+1].Header["ce-previousdigest"] = []string{digestByTheBook(t, facts[i])}
	}
	d := wantNamed(t, m, replay.Changed, placeOf(changed))
	if want := []replay.Field{{Name: "data.tool", Expected: `"calculate"`, Got: `"think"`}}; !slices.Equal(d.Fields, want) {
		t.Errorf("got %v, want %v", d.Fields, want)
	}
	if report := verify(t, m); report.DifferenceCount != 1 {
		t.Errorf("got %d differences, want the one", report.DifferenceCount)
	}
}

// TestTheLastInstantOfARunIsHeldByWhatIsAroundIt: no fact follows the last one,
// so its time may only lie between that of the fact before it and the instant at
// which the stream stored it, give or take the skew of clocks.
func TestTheLastInstantOfARunIsHeldByWhatIsAroundIt(t *testing.T) {
	for name, by := range map[string]time.Duration{"earlier": -time.Second, "later": replay.DefaultSkew + time.Second} {
		m := recorded(t)
		facts := m.history("poor")
		last := facts[len(facts)-1]
		at, err := time.Parse(events.TimeFormat, last.Header.Get("ce-time"))
		if err != nil {
			t.Fatal(err)
		}
		last.Header["ce-time"] = []string{at.Add(by).Format(events.TimeFormat)}
		if report := verify(t, m); report.OK() || report.Differences[0].Stream != last.Sequence {
			t.Errorf("%s: got %+v, want the last fact named", name, report.Differences)
		}
	}
}

// TestAnInstantBeforeThatOfTheCauseOrOfTheFactBeforeIsNamed: each fact here is
// decided 5 ms after its event, and the events of a run are far apart.
func TestAnInstantBeforeThatOfTheCauseOrOfTheFactBeforeIsNamed(t *testing.T) {
	earlier := func(m *memory, by time.Duration) place {
		last := &m.runs[len(m.runs)-1]
		at, err := time.Parse(events.TimeFormat, last.Header.Get("ce-time"))
		if err != nil {
			t.Fatal(err)
		}
		last.Header["ce-time"] = []string{at.Add(-by).Format(events.TimeFormat)}
		return placeOf(last)
	}
	g := newGenerator(t)
	g.start("run", 1)
	g.now = g.now.Add(time.Second)
	g.in("agent.me.run.tool.call", `{"run_id":"run","tool_call_id":"c","tool":"calculate","arguments":{"expression":"1"}}`)
	m := g.whole().clone()
	p := earlier(m, lag+time.Millisecond)
	if d := wantNamed(t, m, replay.Changed, p); !strings.Contains(d.Why, "before that of its cause") {
		t.Errorf("got %s, want that it lies before its cause", d)
	}
	g.in("agent.me.run.run.finish", `{"run_id":"run","outcome":"SUCCESS"}`)
	m = g.whole().clone()
	p = earlier(m, 2*time.Millisecond)
	if d := wantNamed(t, m, replay.Changed, p); !strings.Contains(d.Why, "before that of the fact before it") {
		t.Errorf("got %s, want that it lies before the fact before it", d)
	}
}

// TestASecondAnswerThatTheRulesThemselvesWouldGiveIsNamed answers an event once
// more, by the rules and with a good link, as whoever has this program could.
func TestASecondAnswerThatTheRulesThemselvesWouldGiveIsNamed(t *testing.T) {
	g := newGenerator(t)
	g.start("run", 1)
	in := g.in("agent.me.run.tool.call", `{"run_id":"run","tool_call_id":"c","tool":"no_such_tool","arguments":{}}`)
	if report := verify(t, g.whole()); !report.OK() || report.Checked != 2 {
		t.Fatalf("got %+v, want two facts checked", report)
	}
	g.write(g.rules.Decide(g.states["run"], in, g.now.Add(lag)).Fact)
	wantNamed(t, g.whole(), replay.Added, place{run: "run", kind: "tool.rejected", sequence: 3, stream: 3})
}

func TestAnAttributeOrSubjectThatIsPutInOrTakenAwayIsNamed(t *testing.T) {
	whole := recorded(t)
	for name, change := range map[string]func(*stream.Message){
		"an attribute more":   func(f *stream.Message) { f.Header["ce-comment"] = []string{"x"} },
		"one in another case": func(f *stream.Message) { f.Header["CE-Comment"] = []string{"x"} },
		"one with two values": func(f *stream.Message) { f.Header["ce-id"] = append(f.Header["ce-id"], "x") },
		"an attribute less":   func(f *stream.Message) { delete(f.Header, "ce-partitionkey") },
		"another agent":       func(f *stream.Message) { f.Subject = strings.Replace(f.Subject, ".me.", ".you.", 1) },
	} {
		m := whole.only("poor")
		fact := m.history("poor")[2]
		p := placeOf(fact)
		change(fact)
		if d := wantNamed(t, m, replay.Changed, p); len(d.Fields) == 0 {
			t.Errorf("%s: got %s, want the field named", name, d)
		}
	}
}

func TestAFactOfANewerVersionIsRefusedByName(t *testing.T) {
	m := recorded(t)
	fact := m.history("poor")[2]
	fact.Header["ce-rulesversion"] = []string{"2"}
	d := wantNamed(t, m, replay.Newer, placeOf(fact))
	if !strings.Contains(d.Why, `want "1", got "2"`) {
		t.Errorf("got %q, want both versions in it", d.Why)
	}
}

func TestARulesVersionThatIsNoneIsNotCalledNewer(t *testing.T) {
	for _, version := range []string{"0", "", "x", "01", "-1"} {
		m := recorded(t)
		fact := m.history("poor")[2]
		fact.Header["ce-rulesversion"] = []string{version}
		d := wantNamed(t, m, replay.Unreadable, placeOf(fact))
		if want := fmt.Sprintf(`want "1", got %q`, version); !strings.Contains(d.Why, want) {
			t.Errorf("got %q, want %s in it", d.Why, want)
		}
	}
}

func TestAnEventWhoseDeadLetterIsGoneOrSaysSomethingElseIsNamed(t *testing.T) {
	whole := recorded(t)
	if len(whole.invalid) != 4 {
		t.Fatalf("%d dead letters, want 4", len(whole.invalid))
	}
	for i := range whole.invalid {
		m := whole.clone()
		var sequence uint64
		if _, err := fmt.Sscan(m.invalid[i].Header.Get("Runledger-Sequence"), &sequence); err != nil {
			t.Fatal(err)
		}
		m.invalid[i].Header["Runledger-Reason"] = []string{"RUN_MISMATCH"}
		if report := verify(t, m); report.DifferenceCount != 1 || report.Differences[0].Event != sequence {
			t.Errorf("reason of letter %d: got %+v, want event %d named", i, report.Differences, sequence)
		}
		m.invalid = slices.Delete(m.invalid, i, i+1)
		if report := verify(t, m); report.DifferenceCount != 1 || report.Differences[0].Event != sequence {
			t.Errorf("letter %d is gone: got %+v, want event %d named", i, report.Differences, sequence)
		}
		m.stretch.LettersLost = true // an operator has purged some
		if report := verify(t, m); !report.OK() || report.Unchecked[replay.UncheckedLetterGone] != 1 {
			t.Errorf("letters were purged: got %+v, want it counted as not checked", report)
		}
	}
}

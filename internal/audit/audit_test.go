package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"runledger/internal/events"
	"runledger/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tape is what the streams of a case hold.
type tape struct {
	t        *testing.T
	facts    []*nats.Msg
	dispatch []*nats.Msg
	in       []*nats.Msg
	invalid  []*nats.Msg
	digests  map[string]string
	settled  map[string]*events.RunProgress // by run: what its calls came to
	inbound  uint64
}

func newTape(t *testing.T) *tape {
	return &tape{t: t, digests: map[string]string{}, settled: map[string]*events.RunProgress{}}
}

func (p *tape) fact(run string, sequence uint64, payload events.Payload) {
	if s, ok := payload.(*events.ToolSettled); ok {
		p.settle(run, s)
	}
	p.add(&events.Fact{Agent: "a", Run: run, Sequence: sequence, PreviousDigest: p.digests[run], Payload: payload})
}

func (p *tape) outside(run, key string, payload events.Payload) {
	p.add(&events.Fact{Agent: "a", Run: run, OutsideKey: key, Payload: payload})
}

func (p *tape) add(f *events.Fact) {
	p.t.Helper()
	p.inbound++
	f.Time, f.Rules = time.Unix(int64(p.inbound), 0), events.RulesVersion
	if f.Cause.ID == "" {
		f.Cause = events.Cause{ID: fmt.Sprint("e", p.inbound), Source: "/agents/a é", Sequence: p.inbound, Decision: true}
	}
	encoded, err := f.Encode()
	if err != nil {
		p.t.Fatal(err)
	}
	subjects, err := events.NewSubjects("p.q")
	if err != nil {
		p.t.Fatal(err)
	}
	if f.Sequence > 0 {
		p.digests[f.Run] = encoded.Digest
	}
	p.facts = append(p.facts, &nats.Msg{Subject: f.Subject(subjects), Header: nats.Header(encoded.Header), Data: encoded.Data})
}

func (p *tape) send(executor, run string, sequence uint64, toolCallID string) {
	p.dispatch = append(p.dispatch, &nats.Msg{
		Subject: fmt.Sprintf("p.q.dispatch.%s.%s.%d", executor, run, sequence),
		Data:    fmt.Appendf(nil, `{"run_id":%q,"tool_call_id":%q,"dispatch_id":"%s.%d","arguments":{}}`, run, toolCallID, run, sequence),
	})
}

// settle notes what the run's progress will have to tell.
func (p *tape) settle(run string, s *events.ToolSettled) {
	progress := p.progress(run)
	if s.Status == events.StatusReady {
		progress.Observed = append(progress.Observed, events.Observation{ToolCallID: s.ToolCallID, Call: s.Call, Evidence: s.Evidence})
		slices.SortFunc(progress.Observed, func(a, b events.Observation) int { return cmp.Compare(a.Call, b.Call) })
		return
	}
	progress.LeftOut["ERROR"]++
}

func (p *tape) progress(run string) *events.RunProgress {
	if p.settled[run] == nil {
		p.settled[run] = &events.RunProgress{LeftOut: map[string]int64{}}
	}
	return p.settled[run]
}

// end writes the three last facts of a run, from the sequence on.
func (p *tape) end(run string, sequence uint64, usage ...events.Usage) {
	p.fact(run, sequence, ending())
	p.fact(run, sequence+1, p.progress(run))
	p.fact(run, sequence+2, terminated(usage...))
}

func started() events.Payload { return &events.RunStarted{} }
func ending() events.Payload {
	return &events.RunEnding{Outcome: events.OutcomeSuccess}
}
func terminated(usage ...events.Usage) events.Payload {
	last := &events.RunTerminated{Outcome: events.OutcomeSuccess}
	for _, u := range usage {
		last.Usage = u
	}
	return last
}
func reserved(id string) events.Payload {
	return &events.ToolReserved{ToolCallID: id, Tool: "t", Executor: "x"}
}
func ready(id string, call uint64) events.Payload {
	return &events.ToolSettled{ToolCallID: id, Tool: "t", Call: call, Status: events.StatusReady, Evidence: events.EvidenceFound, Result: []byte(`{"a":1}`)}
}
func rejected(id string, code events.Code) events.Payload {
	return &events.ToolRejected{ToolCallID: id, Code: code}
}

// countTape writes the tape to fresh streams and counts them.
func countTape(t *testing.T, js jetstream.JetStream, p *tape) *Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for name, subjects := range map[string][]string{"RUNS": {"p.q.fact.>", "p.q.outside.>"}, "DISPATCH": {"p.q.dispatch.>"}, "IN": {"p.q.part.>"}, "INVALID": {"p.q.invalid.>"}} {
		_ = js.DeleteStream(ctx, name)
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: subjects, Storage: jetstream.MemoryStorage}); err != nil {
			t.Fatal(err)
		}
	}
	for _, msg := range slices.Concat(p.facts, p.dispatch, p.in, p.invalid) {
		if _, err := js.PublishMsg(ctx, msg); err != nil {
			t.Fatal(err)
		}
	}
	report, err := count(ctx, js, "p.q", 0)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func jetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(testenv.StartNATS(t).Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestWholeHistoriesAreCountedWithoutViolation(t *testing.T) {
	p := newTape(t)
	p.fact("r1", 1, started())
	p.fact("r2", 1, started())
	p.fact("r1", 2, reserved("c1"))
	p.send("x", "r1", 2, "c1")
	p.fact("r1", 3, reserved("c2"))
	p.send("x", "r1", 3, "c2")
	p.fact("r1", 4, rejected("c3", events.CodeNotReadOnly))
	p.fact("r1", 5, &events.ToolSettled{ToolCallID: "c2", Call: 3, Status: events.StatusReady, Evidence: events.EvidenceNone, Result: []byte("[]")})
	p.fact("r1", 6, ready("c1", 2))
	p.fact("r2", 2, reserved("c1"))
	p.fact("r2", 3, &events.RunEnding{Outcome: events.OutcomeTimedOut})
	p.fact("r2", 4, &events.ToolSettled{ToolCallID: "c1", Call: 2, Status: events.StatusError, Evidence: events.EvidenceError, Code: events.CodeRunTerminated})
	p.fact("r2", 5, &events.RunProgress{LeftOut: map[string]int64{"ERROR": 1}})
	p.fact("r2", 6, &events.RunTerminated{Outcome: events.OutcomeTimedOut})
	p.outside("r2", "in-90", rejected("c9", events.CodeRunNotActive))
	p.outside("r3", "in-91", &events.RunRejected{RunID: "r3", Code: events.CodeInvalidLimits})
	p.fact("r1", 7, ending())
	p.fact("r1", 8, &events.RunProgress{Observed: []events.Observation{
		{ToolCallID: "c1", Call: 2, Evidence: events.EvidenceFound}, {ToolCallID: "c2", Call: 3, Evidence: events.EvidenceNone},
	}})
	p.fact("r1", 9, terminated())
	report := countTape(t, jetStream(t), p)
	report.Seconds = 1.5
	got, err := report.JSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"runs":2,"calls":5,"reserved":3,"ready":2,"error":1,"evidence_found":1,"no_evidence":1,` +
		`"rejected":{"NOT_READ_ONLY":1,"RUN_NOT_ACTIVE":1},"terminated":{"SUCCESS":1,"TIMED_OUT":1},` +
		`"facts":17,"sequence_gaps":0,"duplicate_dispatches":0,"seconds":1.5}`
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if !report.OK() {
		t.Errorf("violations: %q", report.Violations)
	}
}

func TestEmptyStreamsAreCounted(t *testing.T) {
	got, err := countTape(t, jetStream(t), newTape(t)).JSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"runs":0,"calls":0,"reserved":0,"ready":0,"error":0,"evidence_found":0,"no_evidence":0,"rejected":{},"terminated":{},"facts":0,"sequence_gaps":0,"duplicate_dispatches":0,"seconds":0}`
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestEventRefusedTwiceIsOneCallAndAViolationOnlyIfItIsOneMessage(t *testing.T) {
	cause := events.Cause{ID: "same", Source: "/s", Sequence: 70, Decision: true}
	again := cause
	again.Sequence = 71 // published again by the agent
	p := newTape(t)
	p.add(&events.Fact{Agent: "a", Run: "r", OutsideKey: "in-70", Cause: cause, Payload: rejected("c", events.CodeRunNotFound)})
	p.add(&events.Fact{Agent: "a", Run: "r", OutsideKey: "in-71", Cause: again, Payload: rejected("c", events.CodeRunNotFound)})
	report := countTape(t, jetStream(t), p)
	if report.Calls != 1 || report.Rejected["RUN_NOT_FOUND"] != 1 || !report.OK() {
		t.Errorf("got %+v, want one refused call and no violation", report)
	}
}

func TestEachBrokenPromiseIsFound(t *testing.T) {
	js := jetStream(t)
	whole := func(p *tape) { // a run with one settled call, up to its last fact but one
		p.fact("r", 1, started())
		p.fact("r", 2, reserved("c"))
		p.send("x", "r", 2, "c")
		p.fact("r", 3, ready("c", 2))
	}
	end := func(p *tape, sequence uint64) { p.end("r", sequence) }
	for _, c := range []struct {
		name       string
		write      func(p *tape)
		want       []string
		gaps, dups int64
	}{
		{"gap", func(p *tape) { whole(p); end(p, 5) }, []string{"fact 5 (run.ending) of run r follows 3: a gap"}, 1, 0},
		{"repeat", func(p *tape) { whole(p); p.fact("r", 3, rejected("d", events.CodeNotReadOnly)); end(p, 4) }, []string{"fact 3 (tool.rejected) of run r follows 3: a repeat"}, 1, 0},
		{"two starts", func(p *tape) { whole(p); p.fact("r", 4, started()); end(p, 5) }, []string{"fact 4 (run.started) of run r: the run was started before"}, 0, 0},
		{"start comes late", func(p *tape) {
			p.fact("r", 1, rejected("d", events.CodeNotReadOnly))
			p.fact("r", 2, started())
			end(p, 3)
		}, []string{"fact 2 (run.started) of run r: want run.started as the first fact"}, 0, 0},
		{"two ends", func(p *tape) { whole(p); end(p, 4); p.fact("r", 7, terminated()) }, []string{"fact 7 (run.terminated) of run r: the run was terminated before"}, 0, 0},
		{"after the end", func(p *tape) { whole(p); end(p, 4); p.fact("r", 7, ending()) }, []string{"fact 7 (run.ending) of run r comes after run.terminated"}, 0, 0},
		{"no end", whole, []string{"run r never terminated; its last fact is 3"}, 0, 0},
		{"reserved twice", func(p *tape) { whole(p); p.fact("r", 4, reserved("c")); p.fact("r", 5, ready("c", 4)); end(p, 6) },
			[]string{`fact 4 (tool.reserved) of run r reserves "c", which was reserved by fact 2`}, 0, 0},
		{"settled twice", func(p *tape) { whole(p); p.fact("r", 4, ready("c", 2)); end(p, 5) }, []string{
			"fact 4 (tool.settled) of run r settles call 2, which was settled before",
			"fact 6 (run.progress) of run r observes call 2 after call 2", "fact 6 (run.progress) of run r tells of 2 calls, and 1 were settled",
		}, 0, 0},
		{"settled without reservation", func(p *tape) { whole(p); p.fact("r", 4, ready("d", 9)); end(p, 5) }, []string{
			"fact 4 (tool.settled) of run r settles call 9, which has no reservation",
			"fact 6 (run.progress) of run r observes call 9", "fact 6 (run.progress) of run r tells of 2 calls, and 1 were settled",
		}, 0, 0},
		{"settled as another", func(p *tape) {
			p.fact("r", 1, started())
			p.fact("r", 2, reserved("c"))
			p.fact("r", 3, ready("d", 2))
			end(p, 4)
		},
			[]string{`fact 3 (tool.settled) of run r settles call 2 as "d", and it was reserved as "c"`, "fact 5 (run.progress) of run r observes call 2"}, 0, 0},
		{"never settled", func(p *tape) { p.fact("r", 1, started()); p.fact("r", 2, reserved("c")); end(p, 3) }, []string{"fact 5 (run.terminated) of run r: 1 calls were never settled"}, 0, 0},
		{"no such status", func(p *tape) {
			p.fact("r", 1, started())
			p.fact("r", 2, reserved("c"))
			p.fact("r", 3, &events.ToolSettled{ToolCallID: "c", Call: 2, Status: "PROJECTING"})
			end(p, 4)
		}, []string{`fact 3 (tool.settled) of run r: want status READY or ERROR, got "PROJECTING"`}, 0, 0},
		{"error as evidence", func(p *tape) {
			p.fact("r", 1, started())
			p.fact("r", 2, reserved("c"))
			p.fact("r", 3, &events.ToolSettled{ToolCallID: "c", Call: 2, Status: events.StatusError, Evidence: events.EvidenceFound})
			end(p, 4)
		}, []string{"fact 3 (tool.settled) of run r: status ERROR with evidence EVIDENCE_FOUND"}, 0, 0},
		{"dispatch without reservation", func(p *tape) { whole(p); end(p, 4); p.send("x", "r", 3, "d") }, []string{"call 3 of run r was dispatched at 2 of DISPATCH without a reservation"}, 0, 0},
		{"dispatch of an unknown run", func(p *tape) { p.send("x", "q", 2, "d") }, []string{"call 2 of run q was dispatched at 1 of DISPATCH without a reservation"}, 0, 0},
		{"dispatched twice", func(p *tape) { whole(p); end(p, 4); p.send("x", "r", 2, "c") }, []string{"call 2 of run r was dispatched again at 2 of DISPATCH, first at 1"}, 0, 1},
		{"dispatched to two", func(p *tape) { whole(p); end(p, 4); p.send("y", "r", 2, "c") }, []string{"call 2 of run r was dispatched again at 2 of DISPATCH, first at 1"}, 0, 1},
		{"dispatched to another", func(p *tape) {
			p.fact("r", 1, started())
			p.fact("r", 2, reserved("c"))
			p.fact("r", 3, ready("c", 2))
			end(p, 4)
			p.send("y", "r", 2, "c")
		}, []string{"call 2 of run r was reserved for executor x and dispatched to y"}, 0, 0},
		{"dispatched as another call", func(p *tape) {
			p.fact("r", 1, started())
			p.fact("r", 2, reserved("c"))
			p.fact("r", 3, ready("c", 2))
			end(p, 4)
			p.send("x", "r", 2, "d")
		}, []string{`call 2 of run r was reserved as "c" and dispatched as "d"`}, 0, 0},
		{"a byte of a fact was changed", func(p *tape) {
			whole(p)
			end(p, 4)
			p.facts[1].Data = []byte(strings.Replace(string(p.facts[1].Data), `"request_bytes":0`, `"request_bytes":1`, 1))
		}, []string{"fact 3 (tool.settled) of run r breaks the chain"}, 0, 0},
		{"an attribute of a fact was changed", func(p *tape) {
			whole(p)
			end(p, 4)
			p.facts[2].Header["ce-time"] = []string{"1970-01-01T00:00:09.000Z"}
		},
			[]string{"fact 4 (run.ending) of run r breaks the chain"}, 0, 0},
		{"the first fact names one before it", func(p *tape) { p.digests["r"] = "sha256:0"; whole(p); end(p, 4) }, []string{"fact 1 (run.started) of run r breaks the chain"}, 0, 0},
		{"another agent's fact", func(p *tape) {
			whole(p)
			end(p, 4)
			p.facts[2].Subject = strings.Replace(p.facts[2].Subject, ".a.", ".b.", 1)
		}, []string{"fact 3 (tool.settled) of run r stands under agent b, and the run began under a"}, 0, 0},
		{"decided twice", func(p *tape) {
			p.outside("r", "in-1", rejected("c", events.CodeRunNotFound))
			p.inbound--
			p.outside("r", "late-1", rejected("c", events.CodeRunNotFound))
		}, []string{"event 1 of IN was decided twice, at 1 and 2 of RUNS"}, 0, 0},
		{"sequence outside a history", func(p *tape) {
			p.outside("r", "in-1", rejected("c", events.CodeRunNotFound))
			p.facts[0].Header["ce-sequence"] = []string{"00000000000000000001"}
		}, []string{"message 1 of RUNS on \"p.q.outside.a.r.tool.rejected.in-1\" cannot be read: want a sequence exactly where"}, 0, 0},
		{"short sequence", func(p *tape) { whole(p); end(p, 4); p.facts[5].Header["ce-sequence"] = []string{"6"} }, []string{"message 6 of RUNS", "run r never terminated"}, 0, 0},
		{"another type", func(p *tape) { whole(p); end(p, 4); p.facts[5].Header["ce-type"] = []string{"x"} }, []string{"message 6 of RUNS", "run r never terminated"}, 0, 0},
		{"no JSON", func(p *tape) { whole(p); end(p, 4); p.facts[5].Data = []byte("{") }, []string{"message 6 of RUNS", "run r never terminated"}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTape(t)
			c.write(p)
			report := countTape(t, js, p)
			expect(t, report, c.want)
			if report.SequenceGaps != c.gaps || report.DuplicateDispatches != c.dups {
				t.Errorf("got %d gaps and %d duplicate dispatches, want %d and %d", report.SequenceGaps, report.DuplicateDispatches, c.gaps, c.dups)
			}
		})
	}
}

// expect compares the beginnings of the violations.
func expect(t *testing.T, report *Report, want []string) {
	t.Helper()
	if len(report.Violations) != len(want) || report.ViolationCount != int64(len(want)) || report.OK() {
		t.Fatalf("got %d: %q, want %q", report.ViolationCount, report.Violations, want)
	}
	for i, begins := range want {
		if !strings.HasPrefix(report.Violations[i], begins) {
			t.Errorf("got %q, want it to begin with %q", report.Violations[i], begins)
		}
	}
}

func TestDigestIsThatOfTheProtocol(t *testing.T) {
	// printf 'id=1:1\nsource=4:a é\n\n{"x":1}' | sha256sum; the length counts bytes
	got := digest(map[string]string{"source": "a é", "id": "1"}, []byte(`{"x":1}`))
	if want := "sha256:0943393d2b23dfe0e8b97ea19bc94017be51153b548306b8ffebf51fa87cb06d"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAttributesAreDecoded(t *testing.T) {
	got, err := attributes(map[string][]string{"Ce-Source": {"a%20%C3%a9"}, "Nats-Sequence": {"4"}})
	if err != nil || len(got) != 1 || got["source"] != "a é" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"%", "%4", "%zz"} {
		if _, err := attributes(map[string][]string{"ce-id": {bad}}); err == nil {
			t.Errorf("%q: want an error", bad)
		}
	}
}

package audit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"runledger/internal/events"
)

// ask publishes an event of agent a into IN, in binary mode.
func (p *tape) ask(run, id string) {
	p.in = append(p.in, &nats.Msg{
		Subject: "p.q.part.3.in.agent.a." + run + ".tool.call",
		Header:  nats.Header{"CE-Id": {id}, "ce-source": {"/a"}},
	})
}

// keep puts an event of IN into INVALID.
func (p *tape) keep(sequence int, reason string) {
	p.invalid = append(p.invalid, &nats.Msg{
		Subject: fmt.Sprintf("p.q.invalid.agent.a.%d", sequence), Header: nats.Header{"Runledger-Reason": {reason}},
	})
}

// refuse answers the event of IN with that sequence.
func (p *tape) refuse(run string, sequence uint64, code events.Code) {
	p.add(&events.Fact{
		Agent: "a", Run: run, OutsideKey: fmt.Sprintf("in-%d", sequence),
		Cause: events.Cause{ID: "e", Source: "/a", Sequence: sequence, Decision: true}, Payload: rejected("c", code),
	})
}

func TestEveryEventHasExactlyOneAnswer(t *testing.T) {
	js := jetStream(t)
	for _, c := range []struct {
		name  string
		write func(p *tape)
		want  []string
	}{
		{"decided", func(p *tape) { p.ask("r", "e"); p.refuse("r", 1, events.CodeRunNotFound) }, nil},
		{"kept", func(p *tape) { p.ask("r", "e"); p.keep(1, "UNDECODABLE") }, nil},
		{"a tick wants none", func(p *tape) { p.in = append(p.in, &nats.Msg{Subject: "p.q.part.3.tick.r"}) }, nil},
		{"neither", func(p *tape) { p.ask("r", "e") }, []string{`event 1 of IN on "p.q.part.3.in.agent.a.r.tool.call" has no answer`}},
		{"the same event again needs no second", func(p *tape) {
			p.ask("r", "e")
			p.ask("r", "e")
			p.refuse("r", 1, events.CodeRunNotFound)
		}, nil},
		{"the same id of another run is another event", func(p *tape) {
			p.ask("r", "e")
			p.ask("q", "e")
			p.refuse("r", 1, events.CodeRunNotFound)
		}, []string{`event 2 of IN on "p.q.part.3.in.agent.a.q.tool.call" has no answer`}},
		{"the same event in both content modes", func(p *tape) {
			p.ask("r", "e")
			p.in = append(p.in, &nats.Msg{Subject: p.in[0].Subject, Data: []byte(`{"source":"/a","id":"e"}`)})
			p.refuse("r", 2, events.CodeRunNotFound)
		}, nil},
		{"what is no event stands alone", func(p *tape) {
			garbage := &nats.Msg{Subject: "p.q.part.3.in.agent.a.r.tool.call", Data: []byte("x")}
			p.in = append(p.in, garbage, garbage)
			p.keep(1, "UNDECODABLE")
		}, []string{`event 2 of IN on "p.q.part.3.in.agent.a.r.tool.call" has no answer`}},
		{"both", func(p *tape) { p.ask("r", "e"); p.keep(1, "X"); p.refuse("r", 1, events.CodeRunNotFound) },
			[]string{"event 1 of IN was decided, at 1 of RUNS, and kept as dead"}},
		{"given up: kept, and told so", func(p *tape) { p.ask("r", "e"); p.keep(1, "X"); p.refuse("r", 1, events.CodeInternal) }, nil},
		{"told that it was given up, and not kept", func(p *tape) { p.ask("r", "e"); p.refuse("r", 1, events.CodeInternal) },
			[]string{"event 1 of IN was answered INTERNAL_ERROR and not kept"}},
		{"kept twice", func(p *tape) { p.ask("r", "e"); p.keep(1, "X"); p.keep(1, "X") },
			[]string{"event 1 of IN was kept as dead twice, at 1 and 2 of INVALID"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTape(t)
			c.write(p)
			report := countTape(t, js, p)
			if c.want != nil {
				expect(t, report, c.want)
			} else if !report.OK() {
				t.Errorf("violations: %q", report.Violations)
			}
		})
	}
}

func TestEventsAndDeadLettersAreCounted(t *testing.T) {
	p := newTape(t)
	for _, id := range []string{"e1", "e2", "e3"} {
		p.ask("r", id)
	}
	p.keep(1, "UNDECODABLE")
	p.keep(2, "UNDECODABLE")
	p.keep(3, "LATE_AGAIN")
	report := countTape(t, jetStream(t), p)
	if report.Events != 3 || report.DeadLetters["UNDECODABLE"] != 2 || report.DeadLetters["LATE_AGAIN"] != 1 {
		t.Errorf("got %d events, dead letters %v, want 3, and 2 UNDECODABLE and 1 LATE_AGAIN", report.Events, report.DeadLetters)
	}
}

func TestAnAnswerThatComesLaterIsWaitedFor(t *testing.T) {
	js := jetStream(t)
	p := newTape(t)
	p.ask("r", "e")
	countTape(t, js, p) // writes the event
	go func() {
		p.refuse("r", 1, events.CodeRunNotFound)
		_, _ = js.PublishMsg(context.Background(), p.facts[0])
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	report, err := Count(ctx, js, "p.q")
	if err != nil || !report.OK() || report.Calls != 1 {
		t.Errorf("got %+v, %v, want the answer and no violation", report, err)
	}
}

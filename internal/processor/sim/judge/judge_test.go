package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// tale is a small history that is told to a judge, message by message.
type tale struct {
	t       *testing.T
	j       *Judge
	now     time.Time
	in      uint64
	runs    uint64
	history uint64
	digest  string
}

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func newTale(t *testing.T) *tale {
	t.Helper()
	return &tale{t: t, now: noon, j: New(map[string]Policy{"p": {
		Tools: map[string]time.Duration{"read": 5 * time.Second}, TTL: time.Hour, MaxRepairs: 2, MaxRepeats: 3, Grace: time.Second, Observed: 5,
	}})}
}

func (s *tale) batch() Batch { return Batch{Process: "p1", Earliest: s.now, Latest: s.now} }

// event tells of an event of run r by agent a, and gives its sequence.
func (s *tale) event(id, verb, data string) uint64 {
	s.in++
	s.j.Inbound(Message{
		Subject: "x.part.0.in.agent.a.r." + verb, Header: map[string][]string{"ce-id": {id}, "ce-source": {"/a"}},
		Data: []byte(data), Sequence: s.in, Time: s.now,
	})
	return s.in
}

// fact tells of the next fact of run r, with headers that are as they should be
// unless change changes them.
func (s *tale) fact(cause uint64, id, kind string, decision bool, data string, change func(*Message)) {
	s.runs++
	s.history++
	header := map[string][]string{
		"ce-sequence": {fmt.Sprintf("%020d", s.history)}, "ce-time": {s.now.Format(time.RFC3339Nano)}, "ce-decision": {fmt.Sprint(decision)},
		"ce-causationsequence": {fmt.Sprint(cause)}, "ce-causationid": {id}, "ce-causationsource": {"/a"},
	}
	if s.digest != "" {
		header["ce-previousdigest"] = []string{s.digest}
	}
	m := Message{Subject: "x.fact.a.r." + kind, Header: header, Data: []byte(data), Sequence: s.runs, Time: s.now}
	if change != nil {
		change(&m)
	}
	s.digest = digestOf(m)
	s.j.Fact(m, s.batch())
}

const (
	startData = `{"run_id":"r","session_id":"s","deadline":"2030-01-01T12:01:00.000Z","limits":{"model_calls":1,"tool_calls":1,"calls_per_tool":1,"input_tokens":1,"output_tokens":1,"total_tokens":1,"run_bytes":1000}}`
	callData  = `{"run_id":"r","tool_call_id":"c1","tool":"read","arguments":{}}`
)

// started tells of a run that has started.
func (s *tale) started() {
	cause := s.event("e1", "run.start", startData)
	s.fact(cause, "e1", "run.started", true, strings.Replace(startData, `"run_id":"r",`,
		`"run_id":"r","agent":"a","policy":"p","expires_at":"2030-01-01T13:01:00.000Z",`, 1), nil)
}

// reserved tells of a call that was reserved under its own event.
func (s *tale) reserved(event, call string, change func(*Message)) {
	data := strings.Replace(callData, "c1", call, 1)
	cause := s.event(event, "tool.call", data)
	s.fact(cause, event, "tool.reserved", true, fmt.Sprintf(
		`{"tool_call_id":%q,"tool":"read","executor":"x","deadline":%q,"request_bytes":%d,"request_digest":%q,"arguments_digest":%q}`,
		call, s.now.Add(5*time.Second).Format(time.RFC3339Nano), len(data), digestOfBytes([]byte(data)), digestOfBytes([]byte("{}"))), change)
}

func (s *tale) projected(sequence uint64) {
	want := s.j.runs["r"].at(sequence)
	want.Repeats = want.repetitions()
	s.j.Projected("r", Stored{Run: want.Run, Done: want.done})
}

func (s *tale) dispatched() {
	s.j.Dispatch(Message{Subject: "x.dispatch.x.r.2", Sequence: 1, Time: s.now}, s.batch())
}

func (s *tale) timer() { s.j.Scheduled("r", s.now.Add(5*time.Second), s.now.Add(5*time.Second)) }

func (s *tale) moved() { s.j.Moved(0, s.in, s.now, s.batch()) }

// TestTheJudgeSeesWhatMustNotBe tells histories in which one thing is wrong.
func TestTheJudgeSeesWhatMustNotBe(t *testing.T) {
	for _, c := range []struct {
		name string
		want string // a part of the first violation; empty for none
		tell func(s *tale)
	}{
		{"nothing wrong", "", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.timer()
			s.projected(2)
			s.dispatched()
			s.moved()
			s.j.Ran("r", "r.2", "x.dispatch.x.r.2")
		}},
		{"a gap in the sequence", "want fact 2, got fact 3", func(s *tale) {
			s.started()
			s.history++
			s.reserved("e2", "c1", nil)
		}},
		{"a broken chain", "the chain breaks", func(s *tale) {
			s.started()
			s.digest = "sha256:0"
			s.reserved("e2", "c1", nil)
		}},
		{"a budget passed", "passes the limit of 1 tool calls", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.reserved("e3", "c2", nil)
		}},
		{"two reservations of one key", "reserves c1 a second time", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.reserved("e3", "c1", nil)
		}},
		{"a decision while something is due", "while call 2 is overdue", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.now = s.now.Add(6 * time.Second)
			s.fact(s.event("e3", "run.cancel", `{}`), "e3", "run.ending", true, `{"outcome":"CANCELLED","reason":"USER_REQUESTED"}`, nil)
		}},
		{"a fact before its cause", "before its cause", func(s *tale) {
			s.started()
			s.now = s.now.Add(time.Second)
			s.reserved("e2", "c1", func(m *Message) { m.Header["ce-time"] = []string{noon.Format(time.RFC3339Nano)} })
		}},
		{"dispatch before the record stands", "was dispatched before its record stood", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.dispatched()
		}},
		{"dispatch without reservation", "was dispatched without a reservation", func(s *tale) {
			s.started()
			s.dispatched()
		}},
		{"two dispatches", "was dispatched twice", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.projected(2)
			s.dispatched()
			s.dispatched()
		}},
		{"dispatch past the deadline", "after its deadline", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.projected(2)
			s.now = s.now.Add(5 * time.Second)
			s.dispatched()
		}},
		{"two runs of one dispatch", "ran 2 times", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.projected(2)
			s.dispatched()
			s.j.Ran("r", "r.2", "x.dispatch.x.r.2")
			s.j.Ran("r", "r.2", "x.dispatch.x.r.2")
		}},
		{"the position moves before the projection", "fact 2 is not projected", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.timer()
			s.projected(1)
			s.moved()
		}},
		{"the position moves before the dispatch", "call 2 is not dispatched", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			s.timer()
			s.projected(2)
			s.moved()
		}},
		{"the position passes an event without answer", "which has no answer", func(s *tale) {
			s.event("e1", "tool.call", callData)
			s.moved()
		}},
		{"nothing wakes the run", "nothing will wake the run", func(s *tale) {
			s.started()
			s.projected(1)
			s.moved()
		}},
		{"the store goes back", "the store goes back from fact 2 to 1", func(s *tale) {
			s.started()
			s.reserved("e2", "c1", nil)
			want := s.j.runs["r"].at(1)
			s.j.Projected("r", Stored{Before: 2, Run: want.Run})
		}},
		{"the store says something else than the facts", "tool calls is 7, the facts say 0", func(s *tale) {
			s.started()
			wrong := s.j.runs["r"].at(1).Run
			wrong.Repeats, wrong.ToolCalls = []int{}, 7
			s.j.Projected("r", Stored{Run: wrong})
		}},
		{"a run that never ends", "for ever", func(s *tale) {
			s.started()
			s.j.End()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTale(t)
			c.tell(s)
			got := strings.Join(s.j.Violations(), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("want a violation with %q, got:\n%s", c.want, got)
			}
		})
	}
}

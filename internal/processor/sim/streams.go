package sim

import (
	"strings"
	"time"

	"runledger/internal/processor/sim/judge"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// log is one simulated stream. The run stands at one place in the subjects of
// RUNS, the only stream that is read by filter.
type log struct {
	messages []stream.Message
	last     map[string]int   // index of the last message, by subject
	byRun    map[string][]int // indices
}

func newLog() log { return log{last: make(map[string]int), byRun: make(map[string][]int)} }

func (l *log) append(subject string, header nats.Header, data []byte, at time.Time) stream.Message {
	n := len(l.messages)
	m := stream.Message{Subject: subject, Header: header, Data: data, Sequence: uint64(n + 1), Time: at}
	l.messages = append(l.messages, m)
	l.last[subject] = n
	run := tokenOf(subject, 3)
	l.byRun[run] = append(l.byRun[run], n)
	return m
}

// lastOf gives the last message under a filter.
func (l *log) lastOf(filter string) *stream.Message {
	if !strings.HasSuffix(filter, ".>") {
		if n, ok := l.last[filter]; ok {
			return &l.messages[n]
		}
		return nil
	}
	indices := l.byRun[tokenOf(filter, 3)]
	for i := len(indices) - 1; i >= 0; i-- {
		if m := &l.messages[indices[i]]; stream.Matches(filter, m.Subject) {
			return m
		}
	}
	return nil
}

// under gives the messages under a filter from a sequence on.
func (l *log) under(filter string, from uint64) []stream.Message {
	var found []stream.Message
	for _, n := range l.byRun[tokenOf(filter, 3)] {
		if m := l.messages[n]; m.Sequence >= from && stream.Matches(filter, m.Subject) {
			found = append(found, m)
		}
	}
	return found
}

// tokenOf gives the i-th token of a subject, empty where it has none.
func tokenOf(subject string, i int) string {
	for ; i > 0; i-- {
		_, rest, more := strings.Cut(subject, ".")
		if !more {
			return ""
		}
		subject = rest
	}
	token, _, _ := strings.Cut(subject, ".")
	return token
}

// publish is the simulated server: it stores a message if the expectation holds.
// batch is that of the process that publishes.
func (w *world) publish(msg *nats.Msg, expect stream.Expect, batch judge.Batch) (uint64, error) {
	kind := tokenOf(msg.Subject, 1)
	if kind == "timer" {
		return w.schedule(msg, batch.Process)
	}
	l := w.stream(kind)
	if filter, sequence, fenced := expect.Fence(msg.Subject); fenced {
		last := uint64(0)
		if m := l.lastOf(filter); m != nil {
			last = m.Sequence
		}
		if last != sequence {
			w.tell("%s is refused %s", batch.Process, msg.Subject)
			return 0, stream.ErrStale
		}
	}
	m := l.append(msg.Subject, msg.Header, msg.Data, w.clock)
	w.tell("%s stores %s %s", batch.Process, msg.Subject, w.summary(&m))
	told := judge.Message{Subject: m.Subject, Header: m.Header, Data: m.Data, Sequence: m.Sequence, Time: m.Time}
	switch kind {
	case "dispatch":
		w.judge.Dispatch(told, batch)
		w.executors.deliver(&m)
	case "invalid":
		w.judge.Invalid(told, batch)
	default:
		w.judge.Fact(told, batch)
	}
	return m.Sequence, nil
}

func (w *world) stream(kind string) *log {
	switch kind {
	case "dispatch":
		return &w.dispatch
	case "invalid":
		return &w.invalid
	default:
		return &w.runs
	}
}

// summary says in the trace what a message is.
func (w *world) summary(m *stream.Message) string {
	if w.trace == nil {
		return ""
	}
	var parts []string
	for _, name := range []string{"ce-sequence", "ce-causationsequence", "ce-decision", "ce-time", "Runledger-Sequence", "Runledger-Reason"} {
		if values := m.Header[name]; len(values) > 0 {
			parts = append(parts, strings.TrimPrefix(name, "ce-")+"="+strings.TrimLeft(values[0], "0"))
		}
	}
	data := string(m.Data)
	if len(data) > 160 {
		data = data[:160] + "…"
	}
	return strings.Join(parts, " ") + " " + data
}

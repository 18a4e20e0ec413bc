package sim

import (
	"context"
	"strings"
	"time"

	"runledger/internal/processor"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// log is one simulated stream.
type log struct{ messages []stream.Message }

func (l *log) append(subject string, header nats.Header, data []byte, at time.Time) uint64 {
	sequence := uint64(len(l.messages) + 1)
	l.messages = append(l.messages, stream.Message{Subject: subject, Header: header, Data: data, Sequence: sequence, Time: at})
	return sequence
}

// last gives the last message under a filter.
func (l *log) last(filter string) *stream.Message {
	for i := len(l.messages) - 1; i >= 0; i-- {
		if matches(filter, l.messages[i].Subject) {
			return &l.messages[i]
		}
	}
	return nil
}

// matches reports whether a subject is under a filter with * and a final >.
func matches(filter, subject string) bool {
	want, have := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case token == ">":
			return len(have) > i
		case i >= len(have), token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}

// answer is a publish whose outcome the simulated server has decided.
type answer struct {
	sequence uint64
	err      error
}

// Wait implements processor.Pending.
func (a answer) Wait(context.Context) (uint64, error) { return a.sequence, a.err }

// ports is what one process of the simulation works with. Once it has crashed
// every call fails and nothing it does has an effect.
type ports struct {
	w       *world
	crashed bool
}

// Publish implements processor.Publisher.
func (p *ports) Publish(msg *nats.Msg, expect stream.Expect) processor.Pending {
	if err := p.enter(); err != nil {
		return answer{err: err}
	}
	w := p.w
	if w.chance(w.faults.LostRequest) {
		if w.chance(0.5) { // it is on its way still, and lands later
			w.adrift = append(w.adrift, func() { _, _ = w.publish(msg, expect) })
		}
		return answer{err: stream.ErrUnanswered}
	}
	sequence, err := w.publish(msg, expect)
	if w.chance(w.faults.LostReply) {
		return answer{err: stream.ErrUnanswered}
	}
	return answer{sequence, err}
}

// Last implements processor.History.
func (p *ports) Last(_ context.Context, filter string) (*stream.Message, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	return p.w.runs.last(filter), nil
}

// From implements processor.History.
func (p *ports) From(_ context.Context, filter string, sequence uint64, fn func(stream.Message) error) error {
	if err := p.enter(); err != nil {
		return err
	}
	for _, m := range p.w.runs.messages {
		if m.Sequence >= sequence && matches(filter, m.Subject) {
			if err := fn(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// Inbound implements processor.History.
func (p *ports) Inbound(_ context.Context, sequence uint64) (stream.Message, error) {
	if err := p.enter(); err != nil {
		return stream.Message{}, err
	}
	if sequence == 0 || sequence > uint64(len(p.w.in.messages)) {
		return stream.Message{}, stream.ErrNotFound
	}
	return p.w.in.messages[sequence-1], nil
}

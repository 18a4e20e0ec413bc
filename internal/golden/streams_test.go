package golden

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"runledger/internal/processor"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// streams are those of a recording, in memory, to be read and continued. Time
// stands at the last message, so that what was open is open still.
type streams struct {
	messages map[string][]stream.Message
	now      time.Time
}

// answer is a publish that has been answered.
type answer struct {
	sequence uint64
	err      error
}

func (a answer) Wait(context.Context) (uint64, error) { return a.sequence, a.err }

// Publish implements processor.Publisher.
func (s *streams) Publish(msg *nats.Msg, expect stream.Expect) processor.Pending {
	name := map[string]string{
		"fact": stream.StreamRuns, "outside": stream.StreamRuns, "dispatch": stream.StreamDispatch, "invalid": stream.StreamInvalid,
		"timer": stream.StreamTimers,
	}[strings.Split(msg.Subject, ".")[2]]
	if filter, want, fenced := expect.Fence(msg.Subject); fenced {
		got := uint64(0)
		if m := last(s.messages[name], filter); m != nil {
			got = m.Sequence
		}
		if got != want {
			return answer{err: stream.ErrStale}
		}
	}
	return answer{sequence: s.add(name, msg)}
}

func (s *streams) add(name string, msg *nats.Msg) uint64 {
	sequence := uint64(1)
	if n := len(s.messages[name]); n > 0 {
		sequence = s.messages[name][n-1].Sequence + 1
	}
	s.messages[name] = append(s.messages[name], stream.Message{
		Subject: msg.Subject, Header: msg.Header, Data: msg.Data, Sequence: sequence, Time: s.now,
	})
	return sequence
}

// Last implements processor.History.
func (s *streams) Last(_ context.Context, filter string) (*stream.Message, error) {
	return last(s.messages[stream.StreamRuns], filter), nil
}

func last(messages []stream.Message, filter string) *stream.Message {
	for i := range slices.Backward(messages) {
		if stream.Matches(filter, messages[i].Subject) {
			return &messages[i]
		}
	}
	return nil
}

// From implements processor.History.
func (s *streams) From(_ context.Context, filter string, sequence uint64, fn func(stream.Message) error) error {
	for _, m := range s.messages[stream.StreamRuns] {
		if m.Sequence >= sequence && stream.Matches(filter, m.Subject) {
			if err := fn(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// Inbound implements processor.History.
func (s *streams) Inbound(_ context.Context, sequence uint64) (stream.Message, error) {
	for _, m := range s.messages[stream.StreamIn] {
		if m.Sequence == sequence {
			return m, nil
		}
	}
	return stream.Message{}, stream.ErrNotFound
}

// Get implements processor.Policies.
func (s *streams) Get(_ context.Context, digest string) ([]byte, error) {
	for _, m := range s.messages[streamPolicies] {
		if strings.HasSuffix(digest, m.Subject[strings.LastIndexAny(m.Subject, ".-:")+1:]) {
			return m.Data, nil
		}
	}
	return nil, fmt.Errorf("%w: policy %s", stream.ErrNotFound, digest)
}

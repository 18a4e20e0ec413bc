package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// JetStream reads the streams of an installation: all of it, or one run. It
// reads only.
type JetStream struct {
	js       jetstream.JetStream
	subjects events.Subjects
	prefix   string
	run      string
	history  *stream.History
	policies *stream.Policies
	log      zerolog.Logger
	patience time.Duration // without any message, where more must come
}

// patience is for how long a replay waits for messages that are there. Servers may
// go and come back meanwhile.
const patience = time.Minute

// NewJetStream reads what is below the prefix of all subjects. run limits it to
// one run; "" is all.
func NewJetStream(js jetstream.JetStream, prefix, run string, log zerolog.Logger) (*JetStream, error) {
	subjects, err := events.NewSubjects(prefix)
	if err != nil {
		return nil, err
	}
	if run != "" && !events.ValidName(run) {
		return nil, fmt.Errorf("run: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", run)
	}
	return &JetStream{js: js, subjects: subjects, prefix: prefix, run: run, history: stream.NewHistory(js, log), policies: stream.NewPolicies(js, nil), log: log, patience: patience}, nil
}

// clockMargin is how far the clocks of two stream leaders may be apart, when a
// sequence of one stream is looked for by an instant of another.
const clockMargin = time.Minute

// Check holds that IN and RUNS were made for the prefix: below another one they
// hold nothing, which says nothing.
func (s *JetStream) Check(ctx context.Context) error {
	for _, name := range []string{stream.StreamIn, stream.StreamRuns} {
		if _, err := s.look(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// look finds a stream, and holds IN and RUNS against the prefix.
func (s *JetStream) look(ctx context.Context, name string) (jetstream.Stream, error) {
	st, err := s.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("look at stream %s: %w", name, err)
	}
	if name == stream.StreamIn || name == stream.StreamRuns {
		if err := stream.CheckPrefix(st.CachedInfo().Config, s.prefix); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// next gives the first message of a stream from a sequence on.
func next(ctx context.Context, st jetstream.Stream, sequence uint64) (*jetstream.RawStreamMsg, error) {
	name := st.CachedInfo().Config.Name
	m, err := st.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(">"))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, fmt.Errorf("%w in %s from %d on", stream.ErrNotFound, name, sequence)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s from %d on: %w", name, sequence, err)
	}
	return m, nil
}

func (s *JetStream) lastOf(ctx context.Context, name, filter string) (uint64, error) {
	m, err := s.history.LastOf(ctx, name, filter)
	if err != nil || m == nil {
		return 0, err
	}
	return m.Sequence, nil
}

func (s *JetStream) factFilter() string {
	if s.run == "" {
		return s.subjects.Everything()
	}
	return s.subjects.AllOf(s.run)
}

// eventFilters are those of the intents and results, and of the ticks.
func (s *JetStream) eventFilters() []string {
	if s.run == "" {
		return []string{s.subjects.Stored()}
	}
	return s.subjects.StoredOf(s.run)
}

// Facts implements [Streams].
func (s *JetStream) Facts(ctx context.Context, from, to uint64) (Cursor, error) {
	return s.cursor(ctx, stream.StreamRuns, s.factFilter(), from, to)
}

// Events implements [Streams].
func (s *JetStream) Events(ctx context.Context, from, to uint64) (Cursor, error) {
	var both merged
	for _, filter := range s.eventFilters() {
		last, err := s.lastOf(ctx, stream.StreamIn, filter)
		if err != nil {
			both.Close()
			return nil, err
		}
		c, err := s.cursor(ctx, stream.StreamIn, filter, from, min(last, to))
		if err != nil {
			both.Close()
			return nil, err
		}
		both.cursors = append(both.cursors, c)
	}
	if len(both.cursors) == 1 {
		return both.cursors[0], nil
	}
	both.ahead = make([][]stream.Message, len(both.cursors))
	return &both, nil
}

// Event implements [Streams].
func (s *JetStream) Event(ctx context.Context, sequence uint64) (stream.Message, error) {
	return s.history.Inbound(ctx, sequence)
}

// EventsKept implements [Streams].
func (s *JetStream) EventsKept(ctx context.Context) (uint64, error) {
	in, err := s.look(ctx, stream.StreamIn)
	if err != nil {
		return 0, err
	}
	return max(in.CachedInfo().State.FirstSeq, 1), nil
}

// errEnough ends a reading that has what it needs.
var errEnough = errors.New("enough was read")

// Said implements [Streams].
func (s *JetStream) Said(ctx context.Context, run string, before uint64, fn func(stream.Message) error) error {
	waiting, stop := newWait(ctx, s.patience)
	defer stop()
	err := s.history.From(waiting.ctx, s.subjects.AllOf(run), 1, func(m stream.Message) error {
		waiting.again()
		if m.Sequence >= before {
			return errEnough
		}
		return fn(m)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return waiting.tell(err, stream.StreamRuns)
}

// DeadLetter implements [Streams].
func (s *JetStream) DeadLetter(ctx context.Context, subject string) (*stream.Message, error) {
	return s.history.LastOf(ctx, stream.StreamInvalid, subject)
}

// Letters implements [Streams].
func (s *JetStream) Letters(ctx context.Context) (Cursor, error) {
	last, err := s.lastOf(ctx, stream.StreamInvalid, ">")
	if err != nil {
		return nil, err
	}
	return s.cursor(ctx, stream.StreamInvalid, ">", 1, last)
}

// Dispatches implements [Streams].
func (s *JetStream) Dispatches(ctx context.Context, from, to uint64) (Cursor, error) {
	return s.cursor(ctx, stream.StreamDispatch, s.dispatchFilter(), from, to)
}

// First implements [Streams].
func (s *JetStream) First(ctx context.Context, name, filter string) (*stream.Message, error) {
	st, err := s.look(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := st.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(filter))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the first of %s in %s: %w", filter, name, err)
	}
	return &stream.Message{Subject: m.Subject, Header: m.Header, Data: m.Data, Sequence: m.Sequence, Time: m.Time}, nil
}

// Get implements [Policies].
func (s *JetStream) Get(ctx context.Context, digest string) ([]byte, error) {
	return s.policies.Get(ctx, digest)
}

// Digests implements [Policies].
func (s *JetStream) Digests(ctx context.Context) ([]string, error) {
	return s.policies.Digests(ctx)
}

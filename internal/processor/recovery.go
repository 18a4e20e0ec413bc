package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
	"runledger/internal/stream"

	"github.com/rs/zerolog"
)

// Recovery makes a run again from its facts and the events that these name: the
// one way, for a worker that finds its store behind and for an operator who
// writes the store anew. It has nothing to publish with.
type Recovery struct {
	Subjects events.Subjects
	History  History
	Log      zerolog.Logger
}

// Run gives what writes the run anew in the store: all of it, with the complete
// bytes of its records and their first expiry. Its Run is nil where the stream
// has no fact of it. One that has expired at now is ErrExpired, and is not read
// to its end.
func (r Recovery) Run(ctx context.Context, runID string, now time.Time) (store.Projection, error) {
	h := &hotRun{id: runID}
	err := r.History.From(ctx, r.Subjects.HistoryOfAny(runID), 1, func(m stream.Message) error {
		if err := r.replay(ctx, h, m); err != nil {
			return err
		}
		if !now.Before(h.state.Run.ExpiresAt) {
			return ErrExpired
		}
		return nil
	})
	if err != nil || h.state.Run == nil {
		return store.Projection{}, err
	}
	return h.projection(), nil
}

// ErrExpired says that the records of a run have expired: nothing is to be
// written of it.
var ErrExpired = errors.New("the records of the run have expired")

// OfOneRun reports whether an error of [Recovery.Run] or of the store concerns
// that run alone, so that trying again does not help and the others go on.
func OfOneRun(err error) bool {
	_, alone := reasonOf(err)
	return alone
}

// Rebuilding is one run that is made again fact by fact, by a caller who reads
// the streams in order and so needs no look-up for each event.
type Rebuilding struct {
	recovery Recovery
	hot      hotRun
}

// Begin begins with the run's first fact.
func (r Recovery) Begin(runID string) *Rebuilding {
	return &Rebuilding{recovery: r, hot: hotRun{id: runID}}
}

// Take applies the run's next fact as the stream has it. cause gives the event
// that the fact names, where its bytes are needed; the error is
// stream.ErrNotFound where it has aged out.
func (b *Rebuilding) Take(m stream.Message, cause func(sequence uint64) (*events.Inbound, error)) error {
	return b.recovery.take(&b.hot, m, cause)
}

// Run gives the run as far as it is made, nil before its first fact.
func (b *Rebuilding) Run() *harness.Run { return b.hot.state.Run }

// Projection gives what writes the run anew as far as it is made.
func (b *Rebuilding) Projection() store.Projection { return b.hot.projection() }

// replay applies one stored fact, with the bytes of the event that caused it.
func (r Recovery) replay(ctx context.Context, h *hotRun, m stream.Message) error {
	return r.take(h, m, func(sequence uint64) (*events.Inbound, error) { return r.cause(ctx, sequence) })
}

func (r Recovery) take(h *hotRun, m stream.Message, cause func(uint64) (*events.Inbound, error)) error {
	f, digest, err := events.DecodeFact(r.Subjects, m.Subject, m.Header, m.Data)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	var b brought
	if bringsBytes(f.Payload) {
		in, err := cause(f.Cause.Sequence)
		switch {
		case errors.Is(err, stream.ErrNotFound):
			r.Log.Warn().Err(err).Msg("event has aged out; its bytes are lost to the record")
		case err != nil:
			return err
		default:
			b = broughtBy(in)
		}
	}
	return h.apply(f, harness.Stored{Sequence: m.Sequence, Digest: digest}, b)
}

// bringsBytes reports whether a record keeps something of the fact's event.
func bringsBytes(payload events.Payload) bool {
	switch p := payload.(type) {
	case *events.ToolReserved:
		return true
	case *events.ToolSettled:
		return p.RawStored
	}
	return false
}

// cause reads an inbound event again.
func (r Recovery) cause(ctx context.Context, sequence uint64) (*events.Inbound, error) {
	m, err := r.History.Inbound(ctx, sequence)
	if err != nil {
		return nil, fmt.Errorf("read event %d: %w", sequence, err)
	}
	in, err := events.Decode(r.Subjects, events.Message{
		Subject: m.Subject, Header: m.Header, Data: m.Data, Sequence: m.Sequence, Time: m.Time,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: event %d: %w", errUnreadable, sequence, err)
	}
	return in, nil
}

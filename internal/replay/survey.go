package replay

import (
	"context"
	"errors"
	"strings"
	"time"

	"runledger/internal/stream"
)

// Survey says which stretch there is to replay from an instant or event on, as
// the streams stand now. IN itself says how many partitions it has.
func (s *JetStream) Survey(ctx context.Context, since Since) (Stretch, error) {
	var out Stretch
	in, err := s.look(ctx, stream.StreamIn)
	if err != nil {
		return out, err
	}
	partitions, err := stream.PartitionsOf(in.CachedInfo().Config)
	if err != nil {
		return out, err
	}
	// Positions first: see Stretch.
	if out.Positions, err = stream.Positions(ctx, s.js, partitions, stream.Made(in.CachedInfo())); err != nil {
		return out, err
	}
	if out.Dispatches, err = s.dispatchStretch(ctx); err != nil {
		return out, err
	}
	runs, err := s.look(ctx, stream.StreamRuns)
	if err != nil {
		return out, err
	}
	state := runs.CachedInfo().State
	out.FactsFrom, out.FactsKept, out.FactsEnd = 1, max(state.FirstSeq, 1), state.LastSeq
	out.FactsKeptAt = state.FirstTime
	if out.FactsTo, err = s.lastOf(ctx, stream.StreamRuns, s.factFilter()); err != nil {
		return out, err
	}
	if in, err = s.look(ctx, stream.StreamIn); err != nil { // it has gone on
		return out, err
	}
	out.Whole, out.EventsEnd = s.run == "", in.CachedInfo().State.LastSeq
	for _, filter := range s.eventFilters() {
		last, err := s.lastOf(ctx, stream.StreamIn, filter)
		if err != nil {
			return out, err
		}
		out.EventsTo = max(out.EventsTo, last)
	}
	if err := s.lettersKept(ctx, &out); err != nil {
		return out, err
	}
	err = s.begin(ctx, &out, since)
	return out, err
}

// lettersKept finds out which dead letters an operator has purged, or have aged
// out.
func (s *JetStream) lettersKept(ctx context.Context, out *Stretch) error {
	invalid, err := s.look(ctx, stream.StreamInvalid)
	if err != nil {
		return err
	}
	state := invalid.CachedInfo().State
	out.LettersLost = state.FirstSeq > 1
	if state.Msgs > 0 {
		out.LettersKeptAt = state.FirstTime
	}
	return nil
}

// dispatchStretch finds what DISPATCH has.
func (s *JetStream) dispatchStretch(ctx context.Context) (*DispatchStretch, error) {
	st, err := s.look(ctx, stream.StreamDispatch)
	if err != nil {
		return nil, err
	}
	info := st.CachedInfo()
	out := &DispatchStretch{From: 1, At: info.TimeStamp, Largest: s.js.Conn().MaxPayload()}
	if info.State.FirstSeq > 1 && info.State.Msgs > 0 {
		out.KeptAt = info.State.FirstTime
	}
	out.To, err = s.lastOf(ctx, stream.StreamDispatch, s.dispatchFilter())
	return out, err
}

func (s *JetStream) dispatchFilter() string {
	if s.run == "" {
		return ">"
	}
	return strings.TrimSuffix(s.subjects.Dispatch("*", s.run, 0), "0") + "*"
}

// begin finds where the stretch begins. Facts of its first events were stored
// after these.
func (s *JetStream) begin(ctx context.Context, out *Stretch, since Since) error {
	at := since.Time
	var err error
	switch {
	case since.Event > 0:
		out.From = since.Event
		in, err := s.look(ctx, stream.StreamIn)
		if err != nil {
			return err
		}
		first, err := next(ctx, in, since.Event)
		if errors.Is(err, stream.ErrNotFound) { // nothing has come since
			out.FactsFrom, out.Dispatches.From = out.FactsEnd+1, out.Dispatches.To+1
			return nil
		}
		if err != nil {
			return err
		}
		at = first.Time
	case !at.IsZero():
		if out.From, err = s.SequenceAt(ctx, stream.StreamIn, at); err != nil {
			return err
		}
	default:
		return nil
	}
	if out.FactsFrom, err = s.SequenceAt(ctx, stream.StreamRuns, at.Add(-clockMargin)); err != nil {
		return err
	}
	if out.FactsJudged, err = s.SequenceAt(ctx, stream.StreamRuns, at); err != nil {
		return err
	}
	if at.After(out.Dispatches.KeptAt) {
		out.Dispatches.KeptAt = at
	}
	out.Dispatches.From, err = s.SequenceAt(ctx, stream.StreamDispatch, at)
	return err
}

// SequenceAt gives the sequence of the first message that a stream stored at
// that instant or later; one past its last where there is none.
func (s *JetStream) SequenceAt(ctx context.Context, name string, at time.Time) (uint64, error) {
	st, err := s.look(ctx, name)
	if err != nil {
		return 0, err
	}
	low, high := max(st.CachedInfo().State.FirstSeq, 1), st.CachedInfo().State.LastSeq+1
	for low < high {
		middle := low + (high-low)/2
		m, err := next(ctx, st, middle)
		switch {
		case errors.Is(err, stream.ErrNotFound):
			high = middle
		case err != nil:
			return 0, err
		case m.Time.Before(at):
			low = m.Sequence + 1
		default:
			high = middle
		}
	}
	return low, nil
}

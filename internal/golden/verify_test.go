package golden

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/replay"
	"runledger/internal/stream"
)

// TestStreamsOfEveryVersionAreVerified decides everything again that a version
// has decided, before and after this one continued it.
func TestStreamsOfEveryVersionAreVerified(t *testing.T) {
	for _, version := range versions(t) {
		w := open(t, version, true)
		w.verify(version + " as it was recorded")
		w.send("in.agent.alice.open.run.finish", "run.finish", `{"run_id":"open","outcome":"SUCCESS"}`)
		w.send("in.agent.alice.open.tool.call", "tool.call", `{"run_id":"open","tool_call_id":"x","tool":"read","arguments":{}}`)
		w.verify(version + " continued")
	}
}

func (w *world) verify(what string) {
	w.t.Helper()
	runs, in := w.streams.messages[stream.StreamRuns], w.streams.messages[stream.StreamIn]
	end := runs[len(runs)-1].Sequence
	stretch := replay.Stretch{
		From: 1, FactsFrom: 1, FactsTo: end, FactsEnd: end, EventsTo: in[len(in)-1].Sequence, FactsKept: 1, Positions: map[int]uint64{},
		Dispatches: &replay.DispatchStretch{From: 1, To: math.MaxUint64, At: w.streams.now},
	}
	for p := range 16 {
		stretch.Positions[p] = stretch.EventsTo
	}
	report, err := replay.Verify(context.Background(), replay.VerifyConfig{
		Prefix: events.DefaultPrefix, Streams: verified{w.streams}, Policies: w.streams, Stretch: stretch, Store: w.records,
		Clock: func() time.Time { return w.streams.now },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range report.Differences {
		w.t.Errorf("%s: %+v", what, d)
	}
	if report.Checked != int64(len(runs)) || report.Store.Compared != 4 {
		w.t.Errorf("%s: got %d of %d facts decided again, and %d of 4 runs compared with the store", what, report.Checked, len(runs), report.Store.Compared)
	}
}

// verified reads streams as a verification does.
type verified struct{ *streams }

// cursor hands out everything at once.
type cursor []stream.Message

func (c *cursor) Next(context.Context) ([]stream.Message, error) {
	batch := *c
	*c = nil
	return batch, nil
}

func (*cursor) Close() {}

func (v verified) between(name string, from, to uint64) (replay.Cursor, error) {
	var c cursor
	for _, m := range v.messages[name] {
		if m.Sequence >= from && m.Sequence <= to {
			c = append(c, m)
		}
	}
	return &c, nil
}

func (v verified) Facts(_ context.Context, from, to uint64) (replay.Cursor, error) {
	return v.between(stream.StreamRuns, from, to)
}

func (v verified) Events(_ context.Context, from, to uint64) (replay.Cursor, error) {
	return v.between(stream.StreamIn, from, to)
}

func (v verified) Event(ctx context.Context, sequence uint64) (stream.Message, error) {
	return v.Inbound(ctx, sequence)
}

func (verified) EventsKept(context.Context) (uint64, error) { return 1, nil }

func (v verified) Said(ctx context.Context, run string, before uint64, fn func(stream.Message) error) error {
	return v.From(ctx, "*.*.*.*."+run+".>", 1, func(m stream.Message) error {
		if m.Sequence >= before {
			return nil
		}
		return fn(m)
	})
}

func (v verified) DeadLetter(_ context.Context, subject string) (*stream.Message, error) {
	return last(v.messages[stream.StreamInvalid], subject), nil
}

func (v verified) Letters(context.Context) (replay.Cursor, error) {
	return v.between(stream.StreamInvalid, 0, math.MaxUint64)
}

func (v verified) Dispatches(_ context.Context, from, to uint64) (replay.Cursor, error) {
	return v.between(stream.StreamDispatch, from, to)
}

func (v verified) First(_ context.Context, name, _ string) (*stream.Message, error) {
	if all := v.messages[name]; len(all) > 0 {
		return &all[0], nil
	}
	return nil, nil
}

// Digests implements replay.Policies.
func (s *streams) Digests(context.Context) ([]string, error) {
	var digests []string
	for _, m := range s.messages[streamPolicies] {
		digests = append(digests, fmt.Sprint("sha256:", m.Subject[strings.LastIndex(m.Subject, "-")+1:]))
	}
	slices.Sort(digests)
	return digests, nil
}

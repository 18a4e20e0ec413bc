package demo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nats-io/nats.go/jetstream"

	"runledger/internal/events"
	"runledger/internal/stream"
)

// maxTimeline bounds the facts of one timeline.
const maxTimeline = 10_000

// Timeline is the facts of one run, in order, without their chain of digests.
type Timeline struct {
	Run   string
	Facts []*events.Fact
}

// FetchTimeline reads the facts of a run from RUNS, up to the last one now.
func FetchTimeline(ctx context.Context, js jetstream.JetStream, prefix, run string) (*Timeline, error) {
	if prefix == "" {
		prefix = events.DefaultPrefix
	}
	subjects, err := events.NewSubjects(prefix)
	if err != nil {
		return nil, err
	}
	if !events.ValidName(run) {
		return nil, fmt.Errorf("run: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", run)
	}
	consumer, err := js.OrderedConsumer(ctx, stream.StreamRuns, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{subjects.HistoryOfAny(run)},
	})
	if err != nil {
		return nil, fmt.Errorf("timeline of run %s: %w", run, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, fmt.Errorf("timeline of run %s: %w", run, err)
	}
	defer messages.Stop()
	t := &Timeline{Run: run}
	for left := consumer.CachedInfo().NumPending; left > 0; {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, fmt.Errorf("timeline of run %s: %w", run, err)
		}
		fact, _, err := events.DecodeFact(subjects, msg.Subject(), msg.Headers(), msg.Data())
		if err != nil {
			return nil, fmt.Errorf("timeline of run %s: %w", run, err)
		}
		if t.Facts = append(t.Facts, fact); len(t.Facts) == maxTimeline {
			break
		}
		left--
	}
	if len(t.Facts) == 0 {
		return nil, fmt.Errorf("timeline of run %s: %w", run, ErrNoFacts)
	}
	return t, nil
}

// ErrNoFacts says that the stream has no facts of a run.
var ErrNoFacts = errors.New("the stream has no facts of this run")

// WriteTimeline writes a run for a person to read: one line a fact.
func WriteTimeline(w io.Writer, t *Timeline) error {
	p := newPalette()
	rows := make([][]cell, 0, len(t.Facts))
	for _, f := range t.Facts {
		rows = append(rows, t.row(p, f))
	}
	return writeText(w, t.heading(p)+aligned("  ", rows))
}

// heading is the run, its agent and its end, on one line.
func (t *Timeline) heading(p palette) string {
	first, last := t.Facts[0], t.Facts[len(t.Facts)-1]
	end := p.warn.Render("still running")
	if f, ok := last.Payload.(*events.RunTerminated); ok {
		style := p.bad
		if f.Outcome == events.OutcomeSuccess {
			style = p.good
		}
		end = style.Render(string(f.Outcome)) + p.faint.Render(" after "+seconds(last.Time.Sub(first.Time)))
	}
	return p.title.Render(t.Run) + p.faint.Render("  agent "+first.Agent+"  ") + end + "\n"
}

func (t *Timeline) row(p palette, f *events.Fact) []cell {
	what, detail := describe(p, f)
	return []cell{
		{text: fmt.Sprint(f.Sequence), style: p.faint, right: true},
		{text: seconds(f.Time.Sub(t.Facts[0].Time)), style: p.faint, right: true},
		{text: string(f.Kind()), style: p.plain},
		{text: shorten(what), style: p.title},
		detail,
	}
}

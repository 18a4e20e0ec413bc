//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// span is when something was broken and when all of it was mended.
type span struct{ broken, mended time.Time }

// pace is how work went on, by the instants at which the stream stored facts. A
// fault may be made several times: then each figure is the worst of them.
type pace struct {
	strikes  int
	lasted   time.Duration // from the first strike to the end of the last
	next     time.Duration // from broken to the next fact
	standing time.Duration // longest time between two facts, from the first strike on
	again    time.Duration // from mended to the next fact
	last     time.Duration // from mended until the last run that was open when it broke went on; at most 0: before
	lastRun  string        // which run that was, and between which facts it stood
}

// stored is one fact.
type stored struct {
	run, kind string
	at        time.Time
}

// paceOf measures by all facts that are stored now.
func paceOf(ctx context.Context, js jetstream.JetStream, spans []span) (pace, error) {
	facts, err := readFacts(ctx, js)
	if err != nil {
		return pace{}, err
	}
	p := pace{strikes: len(spans), lasted: spans[len(spans)-1].mended.Sub(spans[0].broken)}
	for i, s := range spans {
		if err := p.add(facts, s); err != nil {
			return p, fmt.Errorf("strike %d: %w", i+1, err)
		}
	}
	previous := spans[0].broken
	for _, f := range facts {
		if f.at.After(previous) {
			p.standing, previous = max(p.standing, f.at.Sub(previous)), f.at
		}
	}
	return p, nil
}

// add measures one strike.
func (p *pace) add(facts []stored, s span) error {
	open := map[string]string{} // runs that had begun and not ended, with the kind of their last fact
	var next, again, last time.Time
	var lastRun string
	for _, f := range facts {
		if f.at.Before(s.broken) {
			if open[f.run] = f.kind; f.kind == "run.terminated" {
				delete(open, f.run)
			}
			continue
		}
		if next.IsZero() {
			next = f.at
		}
		if again.IsZero() && f.at.After(s.mended) {
			again = f.at
		}
		if before, is := open[f.run]; is { // goes on, once
			last, lastRun = f.at, fmt.Sprintf("%s, after %s, with %s", f.run, before, f.kind)
			delete(open, f.run)
		}
	}
	if again.IsZero() {
		return errors.New("no fact was stored after it was mended")
	}
	for run, kind := range open {
		return fmt.Errorf("run %s never went on after %s", run, kind)
	}
	p.next = max(p.next, next.Sub(s.broken))
	p.again = max(p.again, again.Sub(s.mended))
	if took := last.Sub(s.mended); !last.IsZero() && took > p.last {
		p.last, p.lastRun = took, lastRun
	}
	return nil
}

func (p pace) wantWithin(again, last time.Duration) error {
	if p.again > again {
		return fmt.Errorf("the next fact came %v after all was mended, want at most %v", p.again, again)
	}
	if p.last > last {
		return fmt.Errorf("the last of the open runs went on %v after all was mended, want at most %v: %s", p.last, last, p.lastRun)
	}
	return nil
}

// readFacts reads the instants of all facts, in order.
func readFacts(ctx context.Context, js jetstream.JetStream) ([]stored, error) {
	stream, err := js.Stream(ctx, "RUNS")
	if err != nil {
		return nil, err
	}
	last := stream.CachedInfo().State.LastSeq
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{HeadersOnly: true})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	var facts []stored
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return nil, err
		}
		run, kind := nameFact(msg.Subject())
		facts = append(facts, stored{run, kind, meta.Timestamp})
		if meta.Sequence.Stream >= last {
			return facts, nil
		}
	}
}

// nameFact takes run and kind from the subject of a fact:
// harness.v1.fact.<agent>.<run>.<kind>, or outside.<agent>.<run>.<kind>.<key>.
func nameFact(subject string) (run, kind string) {
	parts := strings.Split(subject, ".")
	if len(parts) < 7 {
		return "", ""
	}
	return parts[4], parts[5] + "." + parts[6]
}

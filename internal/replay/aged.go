package replay

import (
	"context"
	"fmt"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"
)

// mayHaveAged reports whether the first facts of a run may have aged out of RUNS.
// What ages out was stored before all that is left: a run whose start came later
// has all its facts, or somebody has taken them. Where IN has forgotten events
// too, an earlier start may have been among them; but then not by more than the
// longest time that a run may take.
func (v *verifier) mayHaveAged(ctx context.Context, run string) (bool, error) {
	if v.cfg.Stretch.FactsKept <= 1 {
		return false, nil
	}
	start, err := v.cfg.Streams.First(ctx, stream.StreamIn, v.startsOf(run))
	if err != nil {
		return false, err
	}
	kept, err := v.cfg.Streams.EventsKept(ctx)
	if err != nil {
		return false, err
	}
	if start == nil {
		return kept > 1, nil
	}
	horizon := v.cfg.Stretch.FactsKeptAt.Add(clockMargin)
	if kept > 1 {
		longest, known, err := v.longestRun(ctx)
		if err != nil || !known {
			return true, err
		}
		horizon = horizon.Add(longest)
	}
	return !start.Time.After(horizon), nil
}

// startsOf filters the starts of one run in IN.
func (v *verifier) startsOf(run string) string {
	return strings.TrimSuffix(v.subjects.StoredOf(run)[0], ">") + string(events.VerbRunStart)
}

// longestRun gives the most that a run of any policy may last.
func (v *verifier) longestRun(ctx context.Context) (longest time.Duration, known bool, err error) {
	all, err := v.everyRules(ctx)
	for _, rules := range all {
		longest = max(longest, rules.Policy.LongestRun)
	}
	return longest, len(all) > 0, err
}

// link is the last fact of a run whose beginning has aged out. No rules can be
// asked about it, but the chain is there.
type link struct {
	sequence uint64 // 0 before the first
	digest   string
	stream   uint64
	closed   bool
}

// linked takes a fact of a run whose beginning has aged out: from the first one
// that is there, each must have the next number and the digest of the one before.
func (v *verifier) linked(r *trial, h head, m *stream.Message) {
	d := Difference{Run: r.id, Sequence: h.sequence, Kind: h.kind, Stream: m.Sequence, Event: h.cause}
	last := r.link
	f, digest, err := events.DecodeFact(v.subjects, m.Subject, m.Header, m.Data)
	switch {
	case err != nil:
		d.What, d.Why = Unreadable, err.Error()
	case last.sequence == 0:
	case last.closed:
		d.What, d.Why = Added, fmt.Sprintf("the run has terminated with fact %d", last.sequence)
	case f.Sequence <= last.sequence:
		d.What, d.Why = Added, fmt.Sprintf("the history stands at fact %d, so this one is there twice", last.sequence)
	case f.Sequence > last.sequence+1:
		d.What, d.Sequence, d.Kind = Missing, last.sequence+1, ""
		d.Why = fmt.Sprintf("fact %d follows fact %d", f.Sequence, last.sequence)
	case f.PreviousDigest != last.digest:
		d.What, d.Why = Changed, wrongLink(last.sequence, last.stream)
	}
	if d.What == "" {
		r.link = link{sequence: f.Sequence, digest: digest, stream: m.Sequence, closed: h.kind == events.KindRunTerminated}
		v.report.factUnchecked(UncheckedHistoryAged)
		v.in.drop(r.id)
		return
	}
	v.differ(d)
	if d.What == Missing { // this one is as it was
		v.report.factUnchecked(UncheckedAfterDifference)
	} else {
		v.report.FactsDiffer++
	}
	if d.What != Added {
		v.breakOff(r)
	}
}

// wrongLink says that a fact does not name the digest of the one before it.
func wrongLink(before, stream uint64) string {
	return fmt.Sprintf("it names another digest than fact %d has (RUNS %d): one of the two was changed", before, stream)
}

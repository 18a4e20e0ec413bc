package replay

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"runledger/internal/events"
	"runledger/internal/stream"
)

// suspect is a fact that is not what the rules give. Whether it was changed or
// put in, or the one before it was changed, shows by the next fact of its run.
type suspect struct {
	head    head
	message stream.Message
	want    *expectation // nil where the rules give none
	in      *events.Inbound
	why     string
	early   bool // why is that its time lies before that of the fact before it
}

// changed reports the suspect as one that stands where another belongs, or that
// nothing led to.
func (s *suspect) changed() Difference {
	d := Difference{
		What: Changed, Run: s.head.run, Sequence: s.head.sequence, Kind: s.head.kind, Stream: s.message.Sequence, Event: s.head.cause, Why: s.why,
	}
	if s.in != nil {
		d.Verb = s.in.Verb
	}
	if s.want == nil {
		d.What = Added
		return d
	}
	d.Fields = s.want.fields(&s.message)
	switch {
	case s.want.fact.Kind() != s.head.kind:
		d.Why = "the rules give " + describe(s.want.fact)
	case s.chained():
		d.Why = fmt.Sprintf("it names another digest than fact %d has: one of the two was changed", s.head.sequence-1)
	case d.Why == "":
		d.Why = "the rules give another fact"
	}
	return d
}

// chained reports whether the suspect differs only in the digest of the fact
// before it: then that fact may be the one that was changed.
func (s *suspect) chained() bool {
	if s.want == nil || s.why != "" && !s.early {
		return false
	}
	m, right := s.message, s.want.encoded.Header[headerPrevious]
	if len(right) != 1 || slices.Equal(m.Header[headerPrevious], right) {
		return false
	}
	m.Header = maps.Clone(m.Header)
	m.Header[headerPrevious] = right
	return s.want.equals(&m)
}

// headerPrevious holds the digest of the fact before.
const headerPrevious = "ce-previousdigest"

// resolve tells what was wrong, now that the next fact of the run is there; nil
// where none follows. Where it can, it takes the run past the suspect as if that
// were the fact that belongs there.
func (v *verifier) resolve(ctx context.Context, r *trial, next *stream.Message) error {
	if r.gap != nil {
		v.differ(*r.gap)
		r.gap = nil
	}
	s := r.suspect
	if s == nil {
		return v.catchUp(ctx, r)
	}
	r.suspect = nil
	chained := s.chained()
	switch {
	case chained && next != nil && s.leadsTo(v.subjects, next): // it is right, but for what it says of the one before
		v.blame(r, s)
		v.report.Checked++
	case chained && r.blamed == r.last.sequence: // nobody can tell any more
		v.report.factUnchecked(UncheckedAfterDifference)
	default:
		v.differ(s.changed())
		v.report.FactsDiffer++
		r.blamed = s.head.sequence
	}
	if s.want == nil || s.why != "" && !(chained && s.early) || s.want.fact.Kind() != s.head.kind {
		v.breakOff(r)
		return nil
	}
	if s.early {
		r.state.Run.At = s.want.fact.Time // one of the two is wrong, and both must pass
	}
	if err := v.accept(ctx, r, s.want, &s.message, s.in); err != nil || r.beyond != "" {
		return err
	}
	return v.catchUp(ctx, r)
}

// leadsTo reports whether the next fact names the digest of the suspect as it
// is. From then on the chain is as the suspect has it.
func (s *suspect) leadsTo(subjects events.Subjects, next *stream.Message) bool {
	_, stored, err := events.DecodeFact(subjects, s.message.Subject, s.message.Header, s.message.Data)
	if err != nil || len(next.Header[headerPrevious]) != 1 || next.Header[headerPrevious][0] != stored {
		return false
	}
	s.want.encoded.Digest = stored
	return true
}

// blame reports the fact before the suspect: the chain goes on from the suspect
// as it is, and what is wrong with it is only what it says of that fact. Of all
// that a fact says, its instant alone is believed, so that was changed.
func (v *verifier) blame(r *trial, s *suspect) {
	if r.blamed == r.last.sequence { // reported already, and the chain was written anew from there
		r.blamed = s.head.sequence
		return
	}
	d := Difference{
		What: Changed, Run: r.id, Sequence: r.state.Run.Sequence, Stream: r.state.Run.Stream,
		Why: fmt.Sprintf("fact %d names another digest of it, and the chain goes on from there: its time was changed", s.head.sequence),
	}
	if r.last.sequence == d.Sequence && r.cause != nil { // else it lies before the stretch
		d.Kind, d.Event, d.Verb = r.last.kind, r.cause.Sequence, r.cause.Verb
		v.report.Checked-- // it was counted as the same
		v.report.FactsDiffer++
	}
	d.Fields = []Field{{"digest", shown(attributeText(s.message.Header[headerPrevious])), shown(r.state.Run.Digest)}}
	v.differ(d)
}

// afterwards takes a fact of a run that is not judged any more.
func (v *verifier) afterwards(r *trial, h head, m *stream.Message) {
	v.report.factUnchecked(r.beyond)
	v.in.drop(r.id)
	if r.gap != nil && !h.outside && h.sequence == r.gap.Sequence {
		r.gap.What, r.gap.Kind = Misplaced, h.kind
		r.gap.Why = fmt.Sprintf("it stands at RUNS %d, and fact %d of the run before it, at RUNS %d", m.Sequence, h.sequence+1, r.gap.Stream)
		r.gap.Stream, r.gap.Event = m.Sequence, h.cause
		v.differ(*r.gap)
		r.gap = nil
	}
}

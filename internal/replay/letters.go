package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/processor"
	"runledger/internal/stream"
)

// lettered holds, by event, the message of INVALID that it led to; 0 where nobody
// can say whether it leads to one. It is nil where INVALID is not gone through.
type lettered map[uint64]uint64

// excuse says that nobody can tell what the event leads to.
func (l lettered) excuse(event uint64) {
	if _, known := l[event]; !known && l != nil {
		l[event] = 0
	}
}

// letterOf reads the dead letter of an event, nil if there is none.
func (v *verifier) letterOf(ctx context.Context, in *events.Inbound) (*stream.Message, error) {
	kept, err := v.cfg.Streams.DeadLetter(ctx, v.subjects.Invalid(in.Role, in.Principal, in.Sequence))
	if kept != nil && v.letters != nil {
		v.letters[in.Sequence] = kept.Sequence
	}
	return kept, err
}

// letterLost reports whether the dead letter of an event may be among the first
// messages of INVALID, which are gone. It was stored after the event.
func (v *verifier) letterLost(in *events.Inbound) bool {
	s := v.cfg.Stretch
	return s.LettersLost && (s.LettersKeptAt.IsZero() || !in.Time.After(s.LettersKeptAt.Add(clockMargin)))
}

// letter holds that an event is kept for the operator, for that reason.
func (v *verifier) letter(ctx context.Context, r *trial, in *events.Inbound, rules *harness.Rules, want harness.Reason) error {
	kept, err := v.letterOf(ctx, in)
	if err != nil {
		return err
	}
	if kept == nil {
		return v.noLetter(in, want)
	}
	got := reasonOf(kept)
	if got != want && !isGivenUp(got) { // whether the record had expired depends on the instant
		later := rules.Decide(&r.state, in, harness.Now(kept.Time, r.state.Run, in))
		if later.DeadLetter == got {
			want = got
		}
	}
	switch {
	case got == want:
		v.report.Events++
		v.report.Letters++
	case isGivenUp(got):
		v.report.unchecked(UncheckedGivenUp, 1)
	default:
		v.differ(Difference{
			What: Unanswered, Run: in.Run, Event: in.Sequence, Verb: in.Verb,
			Why: fmt.Sprintf("INVALID keeps the event as %.40q, and the rules as %s", got, want),
		})
	}
	return nil
}

func (v *verifier) noLetter(in *events.Inbound, want harness.Reason) error {
	if v.letterLost(in) {
		v.report.unchecked(UncheckedLetterGone, 1)
		return nil
	}
	v.differ(Difference{
		What: Unanswered, Run: in.Run, Event: in.Sequence, Verb: in.Verb,
		Why: fmt.Sprintf("the event must be kept in INVALID as %s, and is not", want),
	})
	return nil
}

func reasonOf(m *stream.Message) harness.Reason {
	return harness.Reason(m.Header.Get(processor.HeaderReason))
}

// undecodable holds that what is no event is kept for the operator.
func (v *verifier) undecodable(ctx context.Context, m stream.Message) error {
	in := &events.Inbound{Sequence: m.Sequence, Time: m.Time, Address: events.Address{Role: "unknown", Principal: "unknown"}}
	if address, err := v.subjects.ParseInbound(m.Subject); err == nil {
		in.Address = address
	}
	kept, err := v.letterOf(ctx, in)
	switch {
	case err != nil:
		return err
	case kept == nil:
		return v.noLetter(in, harness.ReasonUndecodable)
	case reasonOf(kept) != harness.ReasonUndecodable:
		v.differ(Difference{
			What: Unanswered, Event: m.Sequence,
			Why: fmt.Sprintf("INVALID keeps the event as %.40q, and it is %s", reasonOf(kept), harness.ReasonUndecodable),
		})
		return nil
	}
	v.report.Events++
	v.report.Letters++
	return nil
}

// checkLetters goes through INVALID: each letter must be the one that an event of
// the stretch leads to.
func (v *verifier) checkLetters(ctx context.Context) error {
	if !v.cfg.Stretch.Whole {
		return nil
	}
	letters, err := v.cfg.Streams.Letters(ctx)
	if err != nil {
		return err
	}
	defer letters.Close()
	for {
		messages, err := letters.Next(ctx)
		if err != nil {
			return fmt.Errorf("read %s: %w", stream.StreamInvalid, err)
		}
		if len(messages) == 0 {
			return nil
		}
		for i := range messages {
			if err := v.checkLetter(ctx, &messages[i]); err != nil {
				return err
			}
		}
	}
}

// checkLetter judges a dead letter by what was found of its event.
func (v *verifier) checkLetter(ctx context.Context, m *stream.Message) error {
	put := func(event uint64, why string) {
		v.differ(Difference{What: LetterPutIn, Event: event, Why: fmt.Sprintf("message %d of INVALID, %s: %s", m.Sequence, shown(string(reasonOf(m))), why)})
	}
	event, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 10, 64)
	if err != nil || event == 0 {
		put(0, "its subject names no event")
		return nil //nolint:nilerr // it is told
	}
	if event < v.cfg.Stretch.From {
		return nil
	}
	at, known := v.letters[event]
	switch {
	case known && (at == 0 || at == m.Sequence):
		return nil
	case known:
		put(event, fmt.Sprintf("the event led to message %d", at))
		return nil
	}
	e, err := v.in.read(ctx, event)
	switch {
	case errors.Is(err, errGone):
		put(event, "the event is not in IN")
		return nil
	case errors.Is(err, errAged):
		return nil
	case err != nil:
		return err
	case event > v.cfg.Stretch.EventsTo, !v.isDecided(v.subjects.PartitionOf(e.Subject), e.Sequence, 0):
		return nil // it has come since, or is being decided
	}
	address, err := v.subjects.ParseInbound(e.Subject)
	if r := v.runs[address.Run]; err == nil && r != nil && r.beyond != "" {
		return nil // its events were not judged
	}
	if isGivenUp(reasonOf(m)) { // and decided all the same: whoever gave it up was stopped, or another was faster
		v.report.unchecked(UncheckedGivenUp, 1)
		return nil
	}
	put(event, "nothing led to it")
	return nil
}

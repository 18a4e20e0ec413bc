package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/stream"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
)

// Defaults of a [VerifyConfig].
const (
	DefaultSkew        = time.Minute
	DefaultDifferences = 20
)

// storedLate is by how much a fact may lie before the instant at which it was
// stored without being counted: it may have been written afterwards.
const storedLate = 5 * time.Minute

// resting is how many runs that have ended are kept for late events before they
// are read again.
const resting = 512

// VerifyConfig says what is verified.
type VerifyConfig struct {
	Prefix   string // of all subjects
	Streams  Streams
	Policies Policies
	Stretch  Stretch

	Store Runs             // nil compares nothing
	Clock func() time.Time // says what has expired in the store; may be nil without Store

	Skew        time.Duration // by which the clocks of processors may be ahead of the stream's; 0 is DefaultSkew
	Differences int           // kept at most; 0 is DefaultDifferences
	Window      int64         // bytes of events that wait for their facts in memory; 0 is 64 MiB

	Progress func(Progress) // called now and then, by one goroutine; may be nil
}

// Progress says how far a replay is.
type Progress struct {
	Done, Of uint64 // messages of RUNS
	Found    int64  // differences, or runs written
}

// Validate names the field that is wrong, what it got and what it wants.
func (c VerifyConfig) Validate() error {
	switch {
	case c.Streams == nil || c.Policies == nil:
		return errors.New("verify: Streams and Policies must be set")
	case c.Store != nil && c.Clock == nil:
		return errors.New("verify: Clock must be set where Store is")
	case c.Skew < 0 || c.Differences < 0 || c.Window < 0:
		return fmt.Errorf("verify: Skew, Differences and Window: want 0 for the default or more, got %v, %d and %d", c.Skew, c.Differences, c.Window)
	}
	return nil
}

// Verify decides a stretch of the streams again and compares every fact. It
// changes nothing. The error says that it could not be done (a stream or
// store does not answer); what was found until then is in the report.
func Verify(ctx context.Context, cfg VerifyConfig) (*Report, error) {
	v, err := newVerifier(cfg)
	if err != nil {
		return nil, err
	}
	err = v.verify(ctx, v.finish)
	return &v.report, err
}

type verifier struct {
	cfg      VerifyConfig
	subjects events.Subjects
	in       *inbound
	book     *rulebook
	runs     map[string]*trial        // open, as far as is read
	resting  *lru.LRU[string, *trial] // ended, or never begun
	store    *storeCheck
	report   Report

	policies   map[string]bool // digests of which a difference is reported
	letters    lettered
	dispatches *dispatchCheck // nil where nothing is looked at
	lastFact   uint64         // message of RUNS
}

func newVerifier(cfg VerifyConfig) (*verifier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Skew = cmp.Or(cfg.Skew, DefaultSkew)
	cfg.Differences = cmp.Or(cfg.Differences, DefaultDifferences)
	cfg.Window = cmp.Or(cfg.Window, defaultWindow)
	subjects, err := events.NewSubjects(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	rest, err := lru.NewLRU[string, *trial](resting, nil)
	if err != nil {
		return nil, err
	}
	v := &verifier{cfg: cfg, subjects: subjects, book: newRulebook(cfg.Policies), runs: make(map[string]*trial), resting: rest, policies: make(map[string]bool)}
	if cfg.Stretch.Whole {
		v.letters = make(lettered)
	}
	v.in = newInbound(cfg.Streams, subjects, cfg.Window)
	v.in.ticked = func(run string) bool { return v.runs[run] != nil }
	v.in.unnamed, v.in.known, v.in.tooMany = v.unnamed, v.known, v.tooMany
	v.in.at, v.lastFact = max(cfg.Stretch.From, 1)-1, max(cfg.Stretch.FactsFrom, 1)-1
	v.in.gap = func(ctx context.Context, after, next uint64) error { return v.gap(ctx, stream.StreamIn, after, next) }
	if cfg.Store != nil {
		v.store = &storeCheck{runs: cfg.Store, now: cfg.Clock(), factsEnd: cfg.Stretch.FactsEnd}
		v.report.Store = &v.store.report
	}
	if cfg.Stretch.Dispatches != nil {
		v.dispatches = newDispatchCheck(*cfg.Stretch.Dispatches)
	}
	v.report.LettersPurged = cfg.Stretch.LettersLost
	return v, nil
}

func (v *verifier) verify(ctx context.Context, finish func(context.Context) error) error {
	if d := v.dispatches; d != nil {
		cursor, err := v.cfg.Streams.Dispatches(ctx, d.stretch.From, d.stretch.To)
		if err != nil {
			return err
		}
		d.cursor = cursor
		defer cursor.Close()
	}
	return sideBySide{
		streams: v.cfg.Streams, stretch: v.cfg.Stretch, in: v.in, progress: v.cfg.Progress,
		found: func() int64 { return v.report.DifferenceCount },
	}.read(ctx, v.fact, finish)
}

func (v *verifier) fact(ctx context.Context, m *stream.Message) error {
	v.report.Facts++
	if err := v.gap(ctx, stream.StreamRuns, v.lastFact, m.Sequence); err != nil {
		return err
	}
	v.lastFact = m.Sequence
	if err := v.dispatches.upTo(ctx, m.Time); err != nil {
		return err
	}
	h, err := readHead(v.subjects, m)
	if err != nil {
		return v.unreadable(ctx, h, m, err)
	}
	if m.Time.Sub(h.time) > storedLate {
		v.report.StoredLate++
	}
	if h.cause < v.cfg.Stretch.From && m.Sequence < v.cfg.Stretch.FactsJudged {
		return v.earlier(ctx, h, m)
	}
	if err := v.in.upTo(ctx, h.cause); err != nil {
		return err
	}
	r, err := v.trial(ctx, h, m.Sequence)
	switch {
	case err != nil:
		return err
	case r.beyond == UncheckedHistoryAged && !h.outside:
		v.linked(r, h, m)
		return nil
	case r.beyond != "":
		v.afterwards(r, h, m)
		return nil
	}
	if err := v.admit(ctx, r, h); err != nil {
		return err
	}
	if h.outside {
		return v.outside(ctx, r, h, m)
	}
	return v.history(ctx, r, h, m)
}

// unreadable reports a message that is no fact, or one of a newer version. Where
// it names a run, what follows of that is not judged: something else stood there.
func (v *verifier) unreadable(ctx context.Context, h head, m *stream.Message, why error) error {
	d := Difference{What: Unreadable, Run: h.run, Sequence: h.sequence, Kind: h.kind, Stream: m.Sequence, Event: h.cause, Why: why.Error()}
	if errors.Is(why, events.ErrNewer) {
		d.What, d.Why = Newer, d.Why+"; use that to verify it"
	}
	if h.run == "" || h.outside {
		v.report.FactsDiffer++
		v.differ(d)
		return nil
	}
	r, err := v.trial(ctx, head{outside: true, run: h.run}, m.Sequence)
	if err != nil {
		return err
	}
	if err := v.resolve(ctx, r, nil); err != nil {
		return err
	}
	if r.beyond != "" {
		v.report.factUnchecked(r.beyond)
		return nil
	}
	d.Sequence = r.next()
	v.report.FactsDiffer++
	v.differ(d)
	v.breakOff(r)
	return nil
}

// admit puts an event from before the stretch in line that a fact in it names,
// unless it was answered before.
func (v *verifier) admit(ctx context.Context, r *trial, h head) error {
	if h.cause >= v.cfg.Stretch.From || v.in.find(h.run, h.cause) != nil || r.state.Run != nil && h.cause <= r.state.Run.Inbound {
		return nil
	}
	m, err := v.in.read(ctx, h.cause)
	if errors.Is(err, stream.ErrNotFound) {
		return nil // whoever looks for the fact's cause tells it
	}
	if err != nil {
		return err
	}
	if address, err := v.subjects.ParseInbound(m.Subject); err == nil && address.Run == h.run {
		v.in.admit(h.run, m)
	}
	return nil
}

// earlier takes a fact of an event before the stretch: it builds state, where
// the run is known. Where it is not, its history is read once it is needed.
func (v *verifier) earlier(ctx context.Context, h head, m *stream.Message) error {
	v.report.State++
	r := v.runs[h.run]
	if r == nil {
		r, _ = v.resting.Peek(h.run)
	}
	if r == nil && !h.outside && h.sequence == 1 {
		r = v.begin(h.run)
	}
	switch {
	case r == nil || r.beyond != "":
		return nil
	case h.outside:
		r.tell(h.kind, m.Subject)
		return nil
	}
	if err := v.recorded(ctx, r, m); err != nil {
		if !errors.Is(err, errHistory) {
			return err
		}
		r.beyond = UncheckedAfterDifference
		return nil
	}
	return v.ended(ctx, r)
}

func (v *verifier) differ(d Difference) {
	v.report.DifferenceCount++
	if len(v.report.Differences) < v.cfg.Differences {
		v.report.Differences = append(v.report.Differences, d)
	}
}

// finish judges what is left when RUNS has been read: events that no fact
// answered, and histories that break off.
func (v *verifier) finish(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(v.runs)) {
		if err := v.resolve(ctx, v.runs[id], nil); err != nil {
			return err
		}
	}
	if err := v.in.upTo(ctx, v.cfg.Stretch.EventsTo); err != nil {
		return err
	}
	if err := v.checkEnds(ctx); err != nil {
		return err
	}
	v.report.Events += v.in.passed
	v.report.Ignored += v.in.passed
	for _, id := range slices.Sorted(maps.Keys(v.in.pending)) {
		r, err := v.trial(ctx, head{outside: true, run: id}, v.cfg.Stretch.FactsTo+1)
		if err != nil {
			return err
		}
		if err := v.rest(ctx, r); err != nil {
			return err
		}
	}
	if err := v.checkDispatches(ctx); err != nil {
		return err
	}
	if err := v.checkLetters(ctx); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(v.runs)) {
		r := v.runs[id]
		v.checkEnd(r)
		if v.store != nil && r.beyond == "" && r.state.Run != nil && r.state.Run.Phase != harness.PhaseTerminated {
			if err := v.compareStore(ctx, r); err != nil {
				return err
			}
		}
	}
	if v.store == nil {
		return nil
	}
	return v.flushStore(ctx)
}

package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runledger/internal/harness"
	"runledger/internal/store"
)

// Runs reads runs from the store: for each the run, nil if it has none, or an
// error.
type Runs interface {
	LoadRuns(ctx context.Context, runIDs []string) ([]*harness.Run, []error)
}

// storeBatch is how many runs are read from the store at once.
const storeBatch = 256

// storeCheck compares where runs end with what the store has of them: nothing
// follows their last fact, so nothing else holds its digest.
type storeCheck struct {
	runs     Runs
	now      time.Time
	factsEnd uint64
	waiting  []lastFact
	report   StoreReport
}

type lastFact struct {
	run      string
	sequence uint64
	stream   uint64
	digest   string
}

// compareStore queues a run as it stands.
func (v *verifier) compareStore(ctx context.Context, r *trial) error {
	run := r.state.Run
	if !v.store.now.Before(run.ExpiresAt) {
		v.store.report.Expired++
		return nil
	}
	v.store.waiting = append(v.store.waiting, lastFact{run: r.id, sequence: run.Sequence, stream: run.Stream, digest: run.Digest})
	if len(v.store.waiting) < storeBatch {
		return nil
	}
	return v.flushStore(ctx)
}

func (v *verifier) flushStore(ctx context.Context) error {
	s := v.store
	if len(s.waiting) == 0 {
		return nil
	}
	ids := make([]string, len(s.waiting))
	for i, f := range s.waiting {
		ids[i] = f.run
	}
	runs, errs := s.runs.LoadRuns(ctx, ids)
	for i, f := range s.waiting {
		if errors.Is(errs[i], store.ErrUnavailable) {
			return fmt.Errorf("compare with the store: %w", errs[i])
		}
		if errs[i] != nil {
			s.report.Failed++
			continue
		}
		if d, differs := s.compare(f, runs[i]); differs {
			v.differ(d)
		}
	}
	s.waiting = s.waiting[:0]
	return nil
}

func (s *storeCheck) compare(f lastFact, run *harness.Run) (d Difference, differs bool) {
	d = Difference{What: OtherStore, Run: f.run, Sequence: f.sequence, Stream: f.stream}
	switch {
	case run == nil:
		s.report.Missing++
	case run.Sequence < f.sequence:
		s.report.Behind++
	case run.Sequence > f.sequence && run.Stream > s.factsEnd:
		s.report.Further++
	case run.Sequence > f.sequence:
		d.Sequence, d.Stream = run.Sequence, run.Stream
		d.Why = fmt.Sprintf("the store has the run at fact %d, and RUNS ends its history with fact %d: its end was cut off", run.Sequence, f.sequence)
		return d, true
	case run.Digest != f.digest:
		d.Why = "the run's last fact has another digest in the store: it was changed afterwards, in one or the other"
		d.Fields = []Field{{"digest", shown(run.Digest), shown(f.digest)}}
		return d, true
	default:
		s.report.Compared++
	}
	return d, false
}

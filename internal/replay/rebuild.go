package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/processor"
	"runledger/internal/store"
	"runledger/internal/stream"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// Defaults of a [RebuildConfig].
const (
	defaultBatchRuns  = 64
	defaultBatchBytes = 16 << 20
	defaultReads      = 8
	defaultHoldBytes  = 256 << 20
)

// RebuildConfig says what is written anew, and where. It has nothing to publish
// with, so nothing can be decided or dispatched by it.
type RebuildConfig struct {
	Subjects events.Subjects
	History  RebuildHistory
	Store    Projector
	Clock    func() time.Time
	Log      zerolog.Logger

	BatchRuns  int   // written at once, at most; 0 is 64
	BatchBytes int64 // of requests and responses written at once, unless one run alone has more; 0 is 16 MiB
	Reads      int   // runs that are read, and so held, at once; 0 is 8

	HoldBytes int64 // of requests and responses of open runs while all is read in one go; 0 is 256 MiB

	Progress func(Progress) // called now and then, by one goroutine; may be nil
}

// RebuildHistory reads what the streams hold.
type RebuildHistory interface {
	processor.History
	// LastOf reads the last message of another stream under a filter, nil if
	// there is none.
	LastOf(ctx context.Context, stream, filter string) (*stream.Message, error)
}

// Projector is the part of the store that writes.
type Projector interface {
	Project(ctx context.Context, projections []store.Projection) []error
}

// Validate names the field that is wrong, what it got and what it wants.
func (c RebuildConfig) Validate() error {
	switch {
	case c.History == nil || c.Store == nil || c.Clock == nil:
		return errors.New("rebuild: History, Store and Clock must be set")
	case c.BatchRuns < 0 || c.BatchBytes < 0 || c.Reads < 0 || c.HoldBytes < 0:
		return fmt.Errorf("rebuild: BatchRuns, BatchBytes, Reads and HoldBytes: want 0 for the default or more, got %d, %d, %d and %d", c.BatchRuns, c.BatchBytes, c.Reads, c.HoldBytes)
	}
	return nil
}

// Rebuilt says what a rebuilding did.
type Rebuilt struct {
	Runs    int64 `json:"runs"`    // written, or found standing further
	Records int64 `json:"records"` // of these runs
	Bytes   int64 `json:"bytes"`   // of their requests and responses
	Expired int64 `json:"expired"` // runs whose records have expired: left so
	Unknown int64 `json:"unknown"` // runs of which the stream has no fact

	EndedEarly bool `json:"ended_early,omitempty"` // not all that was asked for was looked at

	FailedCount int64    `json:"failed_count"`
	Failed      []string `json:"failed,omitempty"` // the first runs that cannot be made again, each with why
}

// maxFailed bounds the runs that are named.
const maxFailed = 20

// Rebuilder writes runs in the store anew from their facts. Doing so twice
// changes nothing, and it may be done beside processors that run: the store
// takes no run back to where it stood before.
type Rebuilder struct {
	cfg      RebuildConfig
	recovery processor.Recovery
	done     Rebuilt
}

// NewRebuilder prepares to write.
func NewRebuilder(cfg RebuildConfig) (*Rebuilder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.BatchRuns = cmp.Or(cfg.BatchRuns, defaultBatchRuns)
	cfg.BatchBytes = cmp.Or(cfg.BatchBytes, defaultBatchBytes)
	cfg.Reads = cmp.Or(cfg.Reads, defaultReads)
	cfg.HoldBytes = cmp.Or(cfg.HoldBytes, defaultHoldBytes)
	return &Rebuilder{cfg: cfg, recovery: processor.Recovery{Subjects: cfg.Subjects, History: cfg.History, Log: cfg.Log}}, nil
}

// Done says what was done so far.
func (b *Rebuilder) Done() Rebuilt { return b.done }

// Runs writes these runs. Only an error that concerns all of them ends it; one
// that concerns a run alone is named in what was done.
func (b *Rebuilder) Runs(ctx context.Context, ids []string) error {
	for len(ids) > 0 {
		n := min(b.cfg.Reads, len(ids))
		made, err := b.read(ctx, ids[:n])
		if err != nil {
			return err
		}
		if err := b.write(ctx, made); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// read makes some runs again, side by side.
func (b *Rebuilder) read(ctx context.Context, ids []string) ([]store.Projection, error) {
	made, errs := make([]store.Projection, len(ids)), make([]error, len(ids))
	now := b.cfg.Clock()
	var group errgroup.Group
	for i, id := range ids {
		group.Go(func() error {
			made[i], errs[i] = b.recovery.Run(ctx, id, now)
			return nil
		})
	}
	_ = group.Wait() // what failed stands in errs, run by run
	var out []store.Projection
	for i, err := range errs {
		switch {
		case errors.Is(err, processor.ErrExpired):
			b.done.Expired++
		case ofOneRun(err):
			b.fail(ids[i], err)
		case err != nil:
			return nil, fmt.Errorf("make run %s again: %w", ids[i], err)
		case made[i].Run == nil:
			b.done.Unknown++
		default:
			out = append(out, made[i])
		}
	}
	return out, nil
}

// timer gives the schedule that was set last for a run and stands in TIMERS;
// zero if none does, and then the processor sets the next.
func (b *Rebuilder) timer(ctx context.Context, id string) (time.Time, error) {
	m, err := b.cfg.History.LastOf(ctx, stream.StreamTimers, b.cfg.Subjects.Timers(id))
	if err != nil || m == nil {
		return time.Time{}, err
	}
	at, err := strconv.ParseInt(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 10, 64)
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // no schedule of ours
	}
	return time.UnixMilli(at).UTC(), nil
}

// timers finds the schedules of runs, side by side.
func (b *Rebuilder) timers(ctx context.Context, made []store.Projection) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.cfg.Reads)
	for _, p := range made {
		group.Go(func() (err error) {
			p.Run.TimerAt, err = b.timer(ctx, p.Run.ID)
			return err
		})
	}
	return group.Wait()
}

// write projects runs in batches that are bounded in number and bytes.
func (b *Rebuilder) write(ctx context.Context, made []store.Projection) error {
	if err := b.timers(ctx, made); err != nil {
		return err
	}
	for len(made) > 0 {
		n, size := 0, int64(0)
		for n < len(made) && n < b.cfg.BatchRuns {
			more := bytesOf(&made[n])
			if n > 0 && size+more > b.cfg.BatchBytes {
				break
			}
			size += more
			n++
		}
		for i, err := range b.cfg.Store.Project(ctx, made[:n]) {
			switch {
			case err == nil:
				b.done.Runs++
				b.done.Records += int64(len(made[i].Records))
				b.done.Bytes += bytesOf(&made[i])
			case ofOneRun(err):
				b.fail(made[i].Run.ID, err)
			default:
				return fmt.Errorf("write run %s: %w", made[i].Run.ID, err)
			}
		}
		made = made[n:]
	}
	return nil
}

// ofOneRun reports whether an error concerns one run alone. A processor holds
// before what a newer version wrote, as it must not decide by it; here that run is
// left as it is, and named.
func ofOneRun(err error) bool { return processor.OfOneRun(err) || errors.Is(err, events.ErrNewer) }

func (b *Rebuilder) fail(id string, err error) {
	b.done.FailedCount++
	if len(b.done.Failed) < maxFailed {
		b.done.Failed = append(b.done.Failed, fmt.Sprintf("run %s: %v", id, err))
	}
}

func bytesOf(p *store.Projection) int64 {
	size := int64(0)
	for _, c := range p.Records {
		size += int64(len(c.Record.Request) + len(c.Record.RawResponse) + len(c.Record.AgentResult))
	}
	return size
}

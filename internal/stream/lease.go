package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrLeaseLost says that the partition is another's now, or may be: it could
// not be renewed in time. The work's context has been cancelled.
var ErrLeaseLost = errors.New("lease is lost")

// Lease is the right to work on one partition, for as long as the context of
// the work lives. It may be used by many goroutines.
type Lease struct {
	partition int
	group     *Partitions
	publisher *Publisher
	record    leaseRecord // but for the position
	lose      context.CancelCauseFunc

	// One write at a time. It is a channel, not a mutex, so that waiting for
	// it ends with a context.
	writing chan struct{}

	mu       sync.Mutex
	position uint64
	revision uint64
	unsure   bool      // a write was not answered: the revision may be out of date
	renewed  time.Time // when the last successful write began
	lost     bool
}

// Partition is the number of the partition, from 0.
func (l *Lease) Partition() int { return l.partition }

// Stream tells which IN the position counted in when this process took the
// lease, as whoever wrote it was configured (PartitionsConfig.Stream); empty
// where the position was 0 then.
func (l *Lease) Stream() string { return l.record.Stream }

// Position is the stream sequence of IN up to which the partition is done, as
// this process last knew it written; 0 where nothing is.
func (l *Lease) Position() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position
}

// Move writes a new position, and renews the lease with it. It never goes
// backwards; the same position again only renews.
//
// It costs one round trip and one message to every other process, so call it
// once a batch. After ErrUnanswered the position may be written or not, and Move
// may be called again, with this position or a later one. ErrLeaseLost is final.
func (l *Lease) Move(ctx context.Context, position uint64) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.end()
	l.mu.Lock()
	current := l.position
	l.mu.Unlock()
	if position < current {
		return fmt.Errorf("move partition %d: got position %d, want at least %d: positions never go back", l.partition, position, current)
	}
	return l.write(ctx, position, l.record)
}

// renew writes what is written already. A move under way does the same, so it
// is not waited for.
func (l *Lease) renew(ctx context.Context) error {
	select {
	case l.writing <- struct{}{}:
	default:
		return nil
	}
	defer l.end()
	return l.write(ctx, l.Position(), l.record)
}

// release gives the partition back: no owner, the position kept.
func (l *Lease) release(ctx context.Context) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.end()
	return l.write(ctx, l.Position(), leaseRecord{Stream: l.record.Stream})
}

func (l *Lease) begin(ctx context.Context) error {
	select {
	case l.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("move partition %d: %w", l.partition, ctx.Err())
	}
}

func (l *Lease) end() { <-l.writing }

// write is one compare-and-set, after finding out where an unanswered one left
// things. The caller has begun.
func (l *Lease) write(ctx context.Context, position uint64, record leaseRecord) error {
	for {
		l.mu.Lock()
		lost, unsure, revision := l.lost, l.unsure, l.revision
		l.mu.Unlock()
		if lost {
			return fmt.Errorf("partition %d: %w", l.partition, ErrLeaseLost)
		}
		if unsure {
			if err := l.ask(ctx); err != nil {
				return err
			}
			continue
		}
		began := time.Now()
		record.Position = position
		if record.Stream == "" && position > 0 {
			record.Stream = l.group.cfg.Stream
		}
		next, err := l.group.set(ctx, l.publisher, l.partition, record, revision)
		switch {
		case err == nil:
			l.wrote(position, next, began)
			return nil
		case errors.Is(err, ErrStale):
			// Taken by another, or an unanswered write of our own has landed
			// late: the bucket knows.
			l.doubt()
			if err := l.ask(ctx); err != nil {
				return err
			}
		default:
			l.doubt()
			return fmt.Errorf("write lease of partition %d: %w", l.partition, err)
		}
	}
}

func (l *Lease) wrote(position, revision uint64, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.position, l.revision, l.renewed, l.unsure = position, revision, began, false
}

func (l *Lease) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsure = true
}

// ask reads the lease from the bucket's leader and takes its revision over
// where it is still ours.
func (l *Lease) ask(ctx context.Context) error {
	message, err := getMessage(ctx, l.group.nc, l.group.api, "KV_"+BucketPartitions, getRequest{LastFor: leaseSubject(l.partition)})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read lease of partition %d: %w: %w", l.partition, ErrUnanswered, err)
	}
	var record leaseRecord
	if err == nil && message.Header.Get(headerOperation) == "" {
		if err := json.Unmarshal(message.Data, &record); err != nil {
			return fmt.Errorf("read lease of partition %d: %w", l.partition, err)
		}
	}
	if record.Owner != l.record.Owner || record.Generation != l.record.Generation {
		l.abandon()
		return fmt.Errorf("partition %d: %w: the bucket names %q as its owner", l.partition, ErrLeaseLost, record.Owner)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.unsure = message.Sequence, false
	l.position = max(l.position, record.Position)
	return nil
}

// abandon ends the work: the lease is no longer ours, or not surely.
func (l *Lease) abandon() {
	l.mu.Lock()
	l.lost = true
	l.mu.Unlock()
	l.lose(ErrLeaseLost)
}

// remaining is how long the lease holds without being renewed.
func (l *Lease) remaining(ttl time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ttl - time.Since(l.renewed)
}

// overtaken looks at what the bucket showed, and ends the work at once where it
// shows another owner.
func (l *Lease) overtaken(seen seenLease) {
	l.mu.Lock()
	other := seen.revision > l.revision && (seen.Owner != l.record.Owner || seen.Generation != l.record.Generation)
	l.mu.Unlock()
	if other {
		l.abandon()
	}
}

// keep renews the lease until the context ends, and abandons it when it could
// not be renewed for its TTL. Those who wait for it to expire count from when
// they saw the last renewal, which is later than when it began.
func (l *Lease) keep(ctx context.Context) {
	cfg := l.group.cfg
	for {
		left := l.remaining(cfg.LeaseTTL)
		if left <= 0 {
			l.abandon()
			return
		}
		idle := cfg.LeaseTTL - left
		if idle < cfg.Heartbeat {
			if pause(ctx, cfg.Heartbeat-idle) != nil {
				return
			}
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, min(left, cfg.Heartbeat))
		err := l.renew(attempt)
		cancel()
		if errors.Is(err, ErrLeaseLost) || ctx.Err() != nil {
			return
		}
		if err != nil {
			cfg.Log.Debug().Err(err).Int("partition", l.partition).Msg("lease not renewed yet")
		}
		// Also where a move is under way: it renews, or it fails.
		if pause(ctx, min(cfg.Heartbeat/4, max(l.remaining(cfg.LeaseTTL), 0))) != nil {
			return
		}
	}
}

// set is the compare-and-set of a lease in the bucket.
func (p *Partitions) set(ctx context.Context, publisher *Publisher, partition int, record leaseRecord, revision uint64) (uint64, error) {
	data, err := json.Marshal(record)
	if err != nil {
		return 0, fmt.Errorf("encode lease: %w", err)
	}
	return publisher.Publish(&nats.Msg{Subject: leaseSubject(partition), Data: data}, ExpectLast("", revision)).Wait(ctx)
}

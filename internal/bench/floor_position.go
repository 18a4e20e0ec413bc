package bench

import (
	"context"
	"strconv"
	"time"

	"runledger/internal/stream"
)

// leaseSubjects is where the bucket keeps positions; the partition follows.
const leaseSubjects = "$KV." + stream.BucketPartitions + ".lease."

// moveEvery is how long a position may lag behind what is done, as it may in
// the processor. Were it another there, the two could not be compared.
const moveEvery = 100 * time.Millisecond

// positions are those of all partitions; a loop moves its own.
type positions struct {
	lease *messageTemplate
	all   [partitions]position
}

type position struct {
	subject string
	last    uint64    // its last sequence in the bucket
	since   time.Time // when more was done than it tells; zero where it tells all
}

func newPositions(lease *messageTemplate) *positions {
	p := &positions{lease: lease}
	for i := range p.all {
		p.all[i].subject = leaseSubjects + strconv.Itoa(i)
	}
	return p
}

// done notes that an event of the partition has been carried through.
func (p *positions) done(partition int, now time.Time) {
	if at := &p.all[partition]; at.since.IsZero() {
		at.since = now
	}
}

// due is when the next position shall move; zero where all tell what is done.
func (p *positions) due() (next time.Time) {
	for i := range p.all {
		if since := p.all[i].since; !since.IsZero() && (next.IsZero() || since.Add(moveEvery).Before(next)) {
			next = since.Add(moveEvery)
		}
	}
	return next
}

// take gives the partitions whose positions are due, which then tell all.
func (p *positions) take(now time.Time) []int {
	var due []int
	for i := range p.all {
		if at := &p.all[i]; !at.since.IsZero() && !now.Before(at.since.Add(moveEvery)) {
			at.since = time.Time{}
			due = append(due, i)
		}
	}
	return due
}

// move moves the positions that are due, each fenced by its last sequence.
func (f *floor) move(ctx context.Context) error {
	now := time.Now()
	for i := range f.batch {
		f.positions.done(f.batch[i].partition, now)
	}
	due := f.positions.take(now)
	for _, partition := range due {
		at := f.positions.all[partition]
		msg := f.positions.lease.with(values{}, f.inbox+"."+strconv.Itoa(partition), at.last)
		msg.Subject = at.subject
		if err := f.nc.PublishMsg(msg); err != nil {
			return err
		}
	}
	return f.wait(ctx, len(due), func(partition int, sequence uint64) { f.positions.all[partition].last = sequence })
}

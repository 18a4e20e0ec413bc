package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// releaseTimeout bounds the giving back of a lease whose work has returned; it
// expires by itself where that fails.
const releaseTimeout = 2 * time.Second

// sharing is one Run. One goroutine owns the board and the list of what runs;
// everything else reaches it as a function in events.
type sharing struct {
	*Partitions
	publisher *Publisher
	work      func(context.Context, *Lease)
	instance  string

	board   *board
	running map[int]*running
	events  chan func()
	all     sync.WaitGroup // every goroutine but the owner
	ended   context.Context

	heard    time.Time // when a heartbeat of this process last came back
	complete bool      // everything from before the first heartbeat was seen
	failed   error
}

// running is a partition that this process works on.
type running struct {
	lease *Lease
	stop  context.CancelFunc
	given bool // told to give it up
}

func (s *sharing) run(ctx context.Context) error {
	generation, err := s.join(ctx)
	if generation == 0 {
		return err
	}
	s.board = newBoard(s.cfg, s.instance, generation)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.ended = ctx
	s.all.Go(func() { s.watch(ctx) })
	s.all.Go(func() { s.beats(ctx, generation) })
	s.share(ctx)
	stop()
	if !errors.Is(s.failed, ErrSuperseded) { // the key is the younger one's then
		_ = s.leave(s.publisher) // before the leases, or nobody would count himself entitled to them
	}
	s.finish()
	return s.failed
}

// join writes the first heartbeat, whose sequence is the generation; 0 and no
// error where the context ended first.
func (s *sharing) join(ctx context.Context) (generation uint64, err error) {
	for ctx.Err() == nil {
		generation, err = s.beat(s.publisher, s.instance, 0).Wait(ctx)
		if err == nil {
			return generation, nil
		}
		if s.nc.IsClosed() {
			return 0, fmt.Errorf("join the other processes: %w", nats.ErrConnectionClosed)
		}
		s.cfg.Log.Warn().Err(err).Msg("cannot join the other processes yet")
		_ = pause(ctx, s.cfg.Heartbeat) // the loop looks at the context
	}
	return 0, nil
}

// beats shows the others that this process lives.
func (s *sharing) beats(ctx context.Context, generation uint64) {
	for pause(ctx, s.cfg.Heartbeat) == nil {
		// Its answer does not matter: that it comes back through the bucket does.
		_ = s.beat(s.publisher, s.instance, generation)
	}
}

// watch hands everything that the bucket shows to the owner. The reader goes on
// by itself after any trouble but a bucket that lost its tail; then everything
// is read again.
func (s *sharing) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.watchOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.nc.IsClosed() {
			s.tell(ctx, func() { s.failed = fmt.Errorf("share partitions: %w", nats.ErrConnectionClosed) })
			return
		}
		s.cfg.Log.Warn().Err(err).Msg("reads all leases again")
		if pause(ctx, s.cfg.Heartbeat) != nil {
			return
		}
	}
}

func (s *sharing) watchOnce(ctx context.Context) error {
	reader, err := OpenReader(ctx, s.js, bucketSubject(BucketPartitions, ">"), 0, ReaderConfig{
		Stream: "KV_" + BucketPartitions, Heartbeat: max(s.cfg.Heartbeat, 100*time.Millisecond), Log: s.cfg.Log,
	})
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		batch, err := reader.Next(ctx, 1024)
		if err != nil {
			return err
		}
		if !s.tell(ctx, func() { s.see(batch) }) {
			return ctx.Err()
		}
	}
}

// tell runs f in the owner's goroutine, unless the context ends first.
func (s *sharing) tell(ctx context.Context, f func()) bool {
	select {
	case s.events <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

// share is the owner's loop until the context ends or something fails.
func (s *sharing) share(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Heartbeat / 2)
	defer ticker.Stop()
	s.heard = time.Now()
	for s.failed == nil {
		select {
		case f := <-s.events:
			f()
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		s.act(ctx)
	}
}

// finish waits for all that runs; everything was told to stop.
func (s *sharing) finish() {
	done := make(chan struct{})
	go func() {
		s.all.Wait()
		close(done)
	}()
	for {
		select {
		case f := <-s.events:
			f()
		case <-done:
			return
		}
	}
}

// see takes in what the bucket shows.
func (s *sharing) see(batch []Message) {
	if s.ended.Err() != nil {
		return
	}
	now := time.Now()
	for _, m := range batch {
		superseded, err := s.board.see(m, now)
		if err == nil && superseded {
			err = fmt.Errorf("%w: %s; every process needs a name of its own", ErrSuperseded, s.cfg.Process)
		}
		if err != nil {
			s.failed = err
			return
		}
		if m.Subject == memberSubject(s.cfg.Process) && m.Sequence >= s.board.generation {
			s.complete = true
			if s.deaf.Swap(false) {
				s.board.refresh(now)
				s.cfg.Log.Info().Msg("hears itself again; takes partitions")
			}
			s.heard = now
		}
	}
	for partition, r := range s.running {
		if r.lease != nil {
			r.lease.overtaken(s.board.leases[partition])
		}
	}
}

// act does what the board says. While this process does not even hear itself,
// it takes nothing and gives nothing: it knows nothing of the others.
func (s *sharing) act(ctx context.Context) {
	now := time.Now()
	if now.Sub(s.heard) >= s.cfg.LeaseTTL && !s.deaf.Swap(true) {
		s.cfg.Log.Warn().Dur("since", now.Sub(s.heard)).
			Msg("does not hear its own heartbeats through the bucket PARTITIONS, so it takes no partition until it does; nats-server is away, stores nothing, or this process stood still")
	}
	if !s.complete || s.deaf.Load() || ctx.Err() != nil || s.failed != nil {
		return
	}
	plan := s.board.plan(now)
	for _, partition := range plan.give {
		if r := s.running[partition]; r != nil && r.lease != nil && !r.given {
			s.cfg.Log.Info().Int("partition", partition).Int("members", len(s.board.live)).Msg("gives partition to others")
			r.given = true
			r.stop()
		}
	}
	for _, partition := range plan.take {
		s.take(ctx, partition, s.board.leases[partition])
	}
	for _, partition := range plan.free {
		s.free(ctx, partition, s.board.leases[partition])
	}
	for _, member := range s.board.forget(now) {
		s.forget(member)
	}
}

// take tries to get a partition, and works on it until it must be given up.
func (s *sharing) take(ctx context.Context, partition int, seen seenLease) {
	r := &running{}
	s.running[partition], s.board.held[partition] = r, true
	s.all.Go(func() {
		rest := s.hold(ctx, partition, seen, r)
		s.over(partition, rest)
	})
}

// over takes a partition off the owner's list. Also after the end, when finish
// listens.
func (s *sharing) over(partition int, rest time.Duration) {
	s.events <- func() {
		delete(s.running, partition)
		delete(s.board.held, partition)
		s.board.rest[partition] = time.Now().Add(rest)
	}
}

// hold is the life of one lease. It returns how long this process should not
// take the partition again.
func (s *sharing) hold(ctx context.Context, partition int, seen seenLease, r *running) time.Duration {
	record := leaseRecord{Owner: s.cfg.Process, Generation: s.board.generation, Position: seen.Position, Stream: seen.Stream}
	began := time.Now()
	revision, err := s.set(ctx, s.publisher, partition, record, seen.revision)
	if err != nil {
		if !errors.Is(err, ErrStale) && ctx.Err() == nil {
			s.cfg.Log.Debug().Err(err).Int("partition", partition).Msg("cannot take partition yet")
		}
		return s.cfg.Heartbeat / 4 // until the bucket has shown what is true
	}
	working, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	lease := &Lease{
		partition: partition, group: s.Partitions, publisher: s.publisher, record: record, lose: lose,
		writing: make(chan struct{}, 1), position: seen.Position, revision: revision, renewed: began,
	}
	if !s.tell(ctx, func() { r.lease, r.stop = lease, func() { lose(nil) } }) {
		s.release(lease)
		return 0
	}
	s.cfg.Log.Info().Int("partition", partition).Uint64("position", seen.Position).Str("before", seen.Owner).Msg("took partition")
	var kept sync.WaitGroup
	kept.Go(func() { lease.keep(working) })
	s.work(working, lease)
	asked := working.Err() != nil
	lose(nil)
	kept.Wait()
	s.release(lease)
	if asked {
		return s.cfg.Heartbeat / 4 // until the bucket has shown that it was given back
	}
	return s.cfg.Heartbeat
}

// release gives a lease back, also when everything is about to end.
func (s *sharing) release(lease *Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ended), releaseTimeout)
	defer cancel()
	switch err := lease.release(ctx); {
	case errors.Is(err, ErrLeaseLost):
		s.cfg.Log.Warn().Int("partition", lease.partition).Msg("lost partition")
	case err != nil:
		s.cfg.Log.Warn().Err(err).Int("partition", lease.partition).Msg("could not give partition back; its lease will expire")
	default:
		s.cfg.Log.Info().Int("partition", lease.partition).Uint64("position", lease.Position()).Msg("gave partition back")
	}
}

// free gives back what is this process's in the bucket without being worked
// on: its taking or giving back was not answered.
func (s *sharing) free(ctx context.Context, partition int, seen seenLease) {
	s.board.held[partition] = true
	s.all.Go(func() {
		_, err := s.set(ctx, s.publisher, partition, leaseRecord{Position: seen.Position, Stream: seen.Stream}, seen.revision)
		if err != nil {
			s.cfg.Log.Debug().Err(err).Int("partition", partition).Msg("could not give partition back yet")
		}
		s.over(partition, s.cfg.Heartbeat/4)
	})
}

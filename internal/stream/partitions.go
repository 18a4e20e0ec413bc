package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/rs/zerolog"
)

// ErrSuperseded is what Run returns when a younger process has the same name.
var ErrSuperseded = errors.New("another process has taken this name")

// PartitionsConfig says who shares how many partitions.
type PartitionsConfig struct {
	// Process names this process among those that share: 1 to 128 letters,
	// digits, _ or -. Each needs its own. A process that is started again
	// under its old name goes on with its partitions at once; under a new name
	// it waits until the old leases have expired.
	Process string
	// Count of partitions, as in the topology.
	Count int
	// Stream tells this IN from another of its name, for instance by the instant
	// at which it was made. It is kept with every position.
	Stream string
	// LeaseTTL is how long a lease holds without being renewed; default 3 s.
	LeaseTTL time.Duration
	// Heartbeat of members and idle leases; default 1 s, at most a third of
	// the TTL.
	Heartbeat time.Duration
	// Log gets what is taken, given up and lost.
	Log zerolog.Logger
}

// Validate names the first field that is wrong, what it got and what it wants.
func (c PartitionsConfig) Validate() error {
	switch d := c.withDefaults(); {
	case !namePattern.MatchString(c.Process):
		return fmt.Errorf("Process: got %q, want 1 to 128 letters, digits, _ or -", c.Process)
	case c.Count < 1 || c.Count > MaxPartitions:
		return fmt.Errorf("Count: got %d, want 1 to %d", c.Count, MaxPartitions)
	case d.LeaseTTL < 100*time.Millisecond || d.LeaseTTL > time.Hour:
		return fmt.Errorf("LeaseTTL: got %v, want 100ms to 1h, or 0 for 3s", c.LeaseTTL)
	case d.Heartbeat < 10*time.Millisecond || d.Heartbeat > d.LeaseTTL/3:
		return fmt.Errorf("Heartbeat: got %v, want 10ms to a third of the lease's %v, or 0 for 1s", c.Heartbeat, d.LeaseTTL)
	}
	return nil
}

func (c PartitionsConfig) withDefaults() PartitionsConfig {
	c.LeaseTTL = orDefault(c.LeaseTTL, 3*time.Second)
	c.Heartbeat = orDefault(c.Heartbeat, min(time.Second, c.LeaseTTL/3))
	return c
}

// Partitions shares the partitions of IN evenly among the processes that live,
// through the bucket PARTITIONS.
//
// A process has a key with a heartbeat, a partition one with its owner and
// position, written by compare-and-set only. Each process judges by its own
// clock how long a key has not changed; clocks are never compared. Who stops
// gives back at once; who dies is replaced after LeaseTTL; who comes gets its
// share as the others give it up.
type Partitions struct {
	js  jetstream.JetStream
	nc  *nats.Conn
	api string
	cfg PartitionsConfig

	deaf atomic.Bool
}

// NewPartitions works through the connection of js, which was made with
// ConnectionOptions. The bucket must stand.
func NewPartitions(js jetstream.JetStream, cfg PartitionsConfig) (*Partitions, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("partitions configuration: %w", err)
	}
	return &Partitions{js: js, nc: js.Conn(), api: apiPrefix(js), cfg: cfg.withDefaults()}, nil
}

// Deaf tells whether this process has not heard its own heartbeats for LeaseTTL:
// nats-server does not answer, or stores nothing (a full disk). It then works on
// nothing, whatever the connection looks like. It is false before Run.
func (p *Partitions) Deaf() bool { return p.deaf.Load() }

// Run takes part until the context ends; then it returns nil once all work has
// returned and all leases are given back. It calls work in a goroutine of its
// own for each partition that it gets.
//
// The context of a work ends when its partition must be given up; its cause is
// ErrLeaseLost where it is lost already. Work should return soon then: nobody
// else gets the partition before, unless the lease expires. Where work returns
// by itself, the partition is given back, and taken again by whoever may, by
// this process not before a heartbeat has passed.
//
// The error is ErrSuperseded, nats.ErrConnectionClosed where somebody closed the
// connection for good, or tells of a bucket whose content is not that of
// this many partitions. Trouble with servers is waited out and logged, a bucket
// that does not stand yet included.
func (p *Partitions) Run(ctx context.Context, work func(ctx context.Context, lease *Lease)) error {
	publisher, err := NewPublisher(p.nc, PublisherConfig{AckTimeout: min(max(p.cfg.LeaseTTL/2, 50*time.Millisecond), time.Minute), Log: p.cfg.Log})
	if err != nil {
		return err
	}
	defer publisher.Close()
	s := &sharing{
		Partitions: p, publisher: publisher, work: work, instance: nuid.Next(),
		running: map[int]*running{}, events: make(chan func()),
	}
	return s.run(ctx)
}

// beat writes this process's heartbeat; its generation is 0 in the first.
func (p *Partitions) beat(publisher *Publisher, instance string, generation uint64) *Pending {
	data, _ := json.Marshal(memberRecord{Generation: generation, Instance: instance}) // cannot fail: a number and a string
	return publisher.Publish(&nats.Msg{Subject: memberSubject(p.cfg.Process), Data: data}, ExpectNone())
}

// leave takes this process's key away, so that the others count anew at once.
func (p *Partitions) leave(publisher *Publisher) *Pending {
	return publisher.Publish(&nats.Msg{
		Subject: memberSubject(p.cfg.Process),
		Header:  nats.Header{headerOperation: []string{"DEL"}},
	}, ExpectNone())
}

// forget removes the key of a member that is long gone. Nothing depends on it,
// so its answer is not waited for.
func (p *Partitions) forget(process string) {
	body, _ := json.Marshal(map[string]string{"filter": memberSubject(process)}) // cannot fail: a string
	if err := p.nc.Publish(p.api+"STREAM.PURGE.KV_"+BucketPartitions, body); err != nil {
		p.cfg.Log.Debug().Err(err).Str("member", process).Msg("key of a member that is gone was not removed")
	}
}

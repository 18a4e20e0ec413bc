package stream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// leaseRecord is what the bucket PARTITIONS holds under lease.<partition>.
type leaseRecord struct {
	// Owner is empty where the partition was given back.
	Owner string `json:"owner"`
	// Generation of the owner, which tells a process from an earlier one of
	// the same name.
	Generation uint64 `json:"generation,omitempty"`
	Position   uint64 `json:"position"`
	// Stream tells which IN the position counts in: a stream that was made
	// anew under the same name counts from 1 again. Empty at position 0.
	Stream string `json:"stream,omitempty"`
}

// memberRecord is what the bucket holds under member.<process>.
type memberRecord struct {
	// Generation is the stream sequence of the process's first heartbeat; 0 in
	// that one itself.
	Generation uint64 `json:"generation,omitempty"`
	// Instance is made anew by each Run, so that it knows its own heartbeats
	// also where their answers were lost.
	Instance string `json:"instance"`
}

// headerOperation marks a deleted key (NATS ADR-8).
const headerOperation = "KV-Operation"

// seenLease is a lease as it was last seen in the bucket.
type seenLease struct {
	leaseRecord
	revision uint64    // 0: never seen
	at       time.Time // when this revision was seen
}

type seenMember struct {
	revision uint64
	at       time.Time
	left     bool // took its key away
}

// memberForgotten is after how long without a sign of a member its key is
// removed from the bucket, which would otherwise keep every name ever used.
const memberForgotten = 10 * time.Minute

// board is what one process knows of the bucket, and what follows from it. It
// has no clock: every time comes from outside, and only differences between
// times of this process count, so clocks of different processes need not agree.
type board struct {
	process    string
	instance   string
	generation uint64
	ttl        time.Duration
	settle     time.Duration // how long the members must have been the same before anything is given up

	leases  []seenLease
	members map[string]seenMember

	held  map[int]bool      // has a worker, or is being taken or given back
	rest  map[int]time.Time // not to be taken before
	since time.Time         // the members have been the same since
	live  []string          // sorted, from the last plan
}

func newBoard(cfg PartitionsConfig, instance string, generation uint64) *board {
	return &board{
		process: cfg.Process, instance: instance, generation: generation, ttl: cfg.LeaseTTL, settle: cfg.Heartbeat,
		leases:  make([]seenLease, cfg.Count),
		members: map[string]seenMember{},
		held:    map[int]bool{},
		rest:    map[int]time.Time{},
	}
}

// see takes in one message of the bucket. What is older than what is known
// already changes nothing. superseded says that a younger process has this
// one's name.
func (b *board) see(m Message, now time.Time) (superseded bool, err error) {
	key := strings.TrimPrefix(m.Subject, bucketSubject(BucketPartitions, ""))
	deleted := m.Header.Get(headerOperation) != ""
	if name, ok := strings.CutPrefix(key, memberKey); ok {
		return b.seeMember(name, m, deleted, now)
	}
	text, ok := strings.CutPrefix(key, leaseKey)
	if !ok {
		return false, nil
	}
	partition, err := strconv.Atoi(text)
	if err != nil || partition < 0 || partition >= len(b.leases) {
		return false, nil //nolint:nilerr // left by somebody who counted otherwise: no partition of ours
	}
	if m.Sequence <= b.leases[partition].revision {
		return false, nil
	}
	seen := seenLease{revision: m.Sequence, at: now}
	if !deleted {
		if err := json.Unmarshal(m.Data, &seen.leaseRecord); err != nil {
			return false, fmt.Errorf("bucket %s: %s: %w", BucketPartitions, key, err)
		}
	}
	b.leases[partition] = seen
	return false, nil
}

func (b *board) seeMember(name string, m Message, deleted bool, now time.Time) (superseded bool, err error) {
	if m.Sequence <= b.members[name].revision {
		return false, nil
	}
	if deleted {
		b.members[name] = seenMember{revision: m.Sequence, at: now, left: true}
		return false, nil
	}
	var record memberRecord
	if err := json.Unmarshal(m.Data, &record); err != nil {
		return false, fmt.Errorf("bucket %s: member %s: %w", BucketPartitions, name, err)
	}
	if record.Generation == 0 {
		record.Generation = m.Sequence
	}
	if name == b.process && record.Instance != b.instance && record.Generation > b.generation {
		return true, nil
	}
	b.members[name] = seenMember{revision: m.Sequence, at: now}
	return false, nil
}

// refresh starts all waiting anew: after a time in which nothing was heard, the
// silence of others proves nothing.
func (b *board) refresh(now time.Time) {
	for i := range b.leases {
		b.leases[i].at = now
	}
	for name, member := range b.members {
		member.at = now
		b.members[name] = member
	}
	b.since = now
}

// plan is what should be done now.
type plan struct {
	take []int // free, and within this process's share
	give []int // held above the share
	free []int // this process's in the bucket, or an earlier one's of its name, without a worker, and above the share
}

func (b *board) plan(now time.Time) plan {
	b.countMembers(now)
	quota := b.quota()
	var p plan
	excess := len(b.held) - quota
	start := b.rank() * len(b.leases) / max(len(b.live), 1)
	for i := range b.leases {
		// Everybody begins elsewhere, so that two do not reach for the same.
		partition := (start + i) % len(b.leases)
		lease := &b.leases[partition]
		switch {
		case b.held[partition]:
			continue
		case excess < 0 && b.available(lease, now) && !now.Before(b.rest[partition]):
			p.take = append(p.take, partition)
			excess++
		case excess >= 0 && lease.Owner == b.process && lease.Generation <= b.generation && !now.Before(b.rest[partition]):
			p.free = append(p.free, partition)
		}
	}
	if excess > 0 && now.Sub(b.since) >= b.settle {
		held := make([]int, 0, len(b.held))
		for partition := range b.held {
			held = append(held, partition)
		}
		slices.Sort(held)
		p.give = held[len(held)-excess:]
	}
	return p
}

// available tells whether a lease may be taken: nobody has it, or its owner is
// an earlier process of this name, or it has not been renewed for its TTL.
func (b *board) available(lease *seenLease, now time.Time) bool {
	return lease.Owner == "" || lease.Owner == b.process || now.Sub(lease.at) >= b.ttl
}

// countMembers brings the list of living members up to date.
func (b *board) countMembers(now time.Time) {
	live := []string{b.process}
	for name, member := range b.members {
		if name != b.process && !member.left && now.Sub(member.at) < b.ttl {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	if !slices.Equal(live, b.live) {
		b.live, b.since = live, now
	}
}

// forget names the members that have given no sign for long, once each. Only the
// first of the living does it; one is enough.
func (b *board) forget(now time.Time) []string {
	if b.rank() != 0 {
		return nil
	}
	var names []string
	for name, member := range b.members {
		if name != b.process && now.Sub(member.at) >= memberForgotten {
			names = append(names, name)
			delete(b.members, name)
		}
	}
	slices.Sort(names)
	return names
}

func (b *board) rank() int {
	rank, _ := slices.BinarySearch(b.live, b.process)
	return rank
}

// quota is this process's share: partitions by members, and one more for the
// first of them while there is a remainder.
func (b *board) quota() int {
	quota := len(b.leases) / len(b.live)
	if b.rank() < len(b.leases)%len(b.live) {
		quota++
	}
	return quota
}

const (
	leaseKey  = "lease."
	memberKey = "member."
)

func leaseSubject(partition int) string {
	return bucketSubject(BucketPartitions, leaseKey+strconv.Itoa(partition))
}

func memberSubject(process string) string {
	return bucketSubject(BucketPartitions, memberKey+process)
}

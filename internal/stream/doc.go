// Package stream carries messages between JetStream and the processor: it makes
// and checks the streams (topology.go, apply.go, check.go), reads one partition
// in order and without gaps (reader.go), publishes under a fence (publisher.go),
// reads histories (history.go), shares the partitions among processes
// (partitions.go), and keeps policies, claims and timers.
//
// It deals with raw messages and knows nothing of events or rules. Nothing in it
// retries a publish in secret: an answer that did not come is ErrUnanswered, and
// the caller finds out what became of the message. Readers are the opposite:
// they reopen for as long as it takes, because reading again does no harm.
//
// # Positions
//
// Whoever owns a partition reads it from position + 1. The position is the
// stream sequence up to which everything is decided, projected and dispatched;
// moving it is the acknowledgement, and at the same time the heartbeat of the
// lease. Ownership saves work, it guards nothing: two owners at once do no harm,
// since every fact is published under a fence.
package stream

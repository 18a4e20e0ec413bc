// Package natsdeploy holds the settings of the JetStream streams, buckets and
// consumers that runledger works with. The files are the only source of these
// settings: the program, the tests and operators apply the same ones.
//
// The files have the shape of jetstream.StreamConfig, KeyValueConfig and
// ConsumerConfig of nats.go, with durations in nanoseconds. Those of streams and
// consumers are what the nats command line takes with --config; buckets it makes
// from flags, which docs/operations.md spells out. They are written for the
// subject prefix harness.v1, 16 partitions and one replica; whoever wants others
// lets `processor streams apply` put them in.
//
// streams/IN.json: all input. The transform puts the run's partition into the
// stored subject; it counts wildcards, so partition(16,3) hashes the run.
// Ticks are sourced from TIMERS and land in the partition of their run, because
// the hash is over the same text. Agents may publish here, so whatever lets a
// publisher change what is stored is off: roll-ups, message TTL, schedules,
// deletes, purges. The duplicate window is left out: a stream with sources then
// has none at all, so that nobody can suppress another's message by its id.
//
// streams/RUNS.json: the facts. What is stored is published again under
// run.<agent>.<run>.…; a plain subscriber to the stored subject would also see
// what the stream refused. No direct gets: a read must come from the leader,
// because the next fact is fenced by what it says.
//
// streams/DISPATCH.json: calls for executors; outlives the longest call (48 h).
// A dispatch is created once, which holds only as long as the stream keeps it,
// so no call may be longer than its age.
//
// streams/TIMERS.json: schedules and the ticks that they deliver. One message a
// subject is kept: a newer tick of a run stands for the older. Schedules need
// roll-ups; only the processor may publish here.
//
// streams/INVALID.json: dead letters.
//
// buckets/PARTITIONS.json: leases, positions and members; never expires, for a
// position lost is a partition read again from its start.
//
// buckets/POLICIES.json: policies by digest; never expires, for a run keeps the
// policy that it began with.
//
// buckets/CLAIMS.json: executor claims. Kept for longer than DISPATCH keeps a
// dispatch: were it shorter, a dispatch delivered again would be run again.
//
// consumers/executor.json: the durable consumer of one executor; NAME stands
// for the executor.
package natsdeploy

import "embed"

// Files holds streams/*.json, buckets/*.json and consumers/executor.json.
//
//go:embed streams/*.json buckets/*.json consumers/*.json
var Files embed.FS

// Package events is the wire language of runledger: subjects, CloudEvents in
// both directions, and the payload of every event type.
//
// Inbound events (intents of agents, results of executors, cancellations of
// operators, ticks of timers) are decoded strictly and never trusted: the
// principal is the one that the subject names, because NATS permissions make
// the subject true, and nothing in a payload can widen it. See [Decode].
//
// Outbound events (facts, dispatches) are emitted in binary content mode of
// the CloudEvents NATS protocol binding. A [Fact] is one transition of a run;
// its digest covers the digest of the fact before it, so that the facts of a
// run form a chain. See [Fact.Encode] and [Digest].
//
// The package has no clock, no I/O and no state.
package events

// Package harness holds the rules of a run. It is pure: no clock, randomness,
// I/O, logging or goroutines; instants come in as values.
//
// The core is three functions over a [State]:
//
//	Due(state, now)           what follows by itself: an overdue call, the
//	                          deadline, the next step of an ending
//	Decide(state, event, now) the answer to one inbound event
//	Apply(fact)               the state after a fact
//
// Each gives or takes one fact, one transition. For an event a caller runs Due
// until it is dry, Decide, and Due until it is dry again, and applies each fact
// as soon as the stream has stored it, never before:
//
//	                ┌───── tool.reserved, model.granted ──────┐
//	run.started ─▶ RUNNING ◀── tool.settled, model.recorded ──┘
//	                │  tool.rejected, model.rejected
//	                │  progress.accepted, progress.invalid
//	                │  run.released  (then no further reservation or grant)
//	                │
//	                ▼ run.ending  (first of: finish, cancel, deadline, budget,
//	                │              the end of a released run's grace)
//	              ENDING ── tool.settled ERROR/RUN_TERMINATED for each open call
//	                │       run.progress
//	                ▼ run.terminated
//	             TERMINATED  (last fact; what comes later is answered outside)
//
// Because every fact stands alone, a crash between any two leaves a run that
// goes on from where it is. The same functions serve live work, redelivery,
// rebuilding and verification.
//
// The package also has the live handles that callers in Go pass along
// explicitly: [RunContext] with its deadline, [Cancellation], [Budget],
// [Capacity] and [Lifecycle], and [Retry], which makes attempts under the run's
// policy. They keep the same rules, made safe for use by several goroutines.
package harness

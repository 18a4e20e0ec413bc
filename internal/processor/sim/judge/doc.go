// Package judge watches a simulated world and says at once what must not be.
//
// It is told of each message that a stream stores, each projection that the
// store takes, each dispatch that an executor runs and each move of a position,
// in the order in which they happen, and folds the facts of each run by itself:
// from the bytes of the messages, into plain maps. It imports nothing of this
// module, so that it can be right where the code that it judges is wrong; a test
// holds it to that. What it demands is written down in docs/protocol.md and
// docs/architecture.md.
package judge

// Command peers measures what a user would take in place of runledger, doing
// the nearest equivalent of one whole call, on the same servers and machine:
// Watermill with NATS JetStream and Redis, asynq on Redis, and Temporal's
// development server.
//
// A call is an intent with arguments of 1 KiB that is decided, handed to
// whoever executes it, executed, and settled with a result of 4 KiB. Each tool
// does it the way its own documentation recommends; README.md says how, and
// which of runledger's guarantees that gives.
//
// For each peer the program starts fresh servers as processes and the peer
// itself as another (this program again, with the hidden command "play"), so
// that none inherits the memory, the goroutines or the files of the one before.
package main

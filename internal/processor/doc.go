// Package processor carries inbound events through: it reads them in order,
// asks the pure core for facts, commits these to the stream, projects them into
// the store, hands reserved calls to their executors, and moves its position.
//
//	read → decode → load → Due, Decide → publish facts → project → dispatch → move
//	                        (harness)     (the commit)   (store)   (created once)
//
// One [Worker] serves one partition, one batch after the other. Every stage may
// run twice and none may be left out before the position moves, so that a crash
// anywhere is healed by reading on from the position:
//
//	crash after           what the next owner finds and does
//	reading, deciding     nothing happened: it decides again
//	publishing facts      the run's facts are ahead of the store: loading the run
//	                      applies and projects them, and skips the event
//	projecting            the event is skipped; every open call of its run is
//	                      dispatched again, which the stream refuses if it was
//	dispatching           the same
//
// A worker whose partition was taken over without its knowing is refused by the
// stream (facts carry the sequence of the run's last fact), drops what it held,
// and loads again. Whatever else goes wrong below the core (no answer from the
// stream, no store) ends the batch; it is tried again from its beginning, which
// is the same as recovering from a crash.
//
// Events of one run are answered strictly one after the other: what an event
// publishes is stored before the next event of that run is decided. Runs go
// side by side.
package processor

// Package progress turns the completed calls of a run into what the run
// observed. It is pure.
//
// A run keeps track of its completed calls by their identities alone, in order
// of reservation ([Tracker]). When its tool loop ends, the records behind them
// are resolved through the store, and [Project] accepts what an agent may rely
// on, counting whatever it leaves out:
//
//	identities ─▶ canonical records ─▶ READY, of this run, not expired ─▶ run.progress
//	(Tracker)       (the store)                    │
//	                                               └─▶ left out, by reason
package progress

// Package replay reads the streams again: it decides every event once more and
// compares ([Verify]), counts what another policy would have decided ([WhatIf]),
// writes the store anew ([Rebuilder]), and hands out the facts as they stand and
// come ([JetStream.Trail]). Nothing here can decide, dispatch or publish: none of
// it is given anything to publish with.
//
// # How a stretch is verified
//
// RUNS is read in the order of its sequence, and IN beside it, as far as the
// facts at hand name their causes. The facts of one run come in order, and so do
// its events; what lies between runs is in no order, since each partition goes at
// its own speed. Events that nothing has answered yet wait in memory, within a
// bound; beyond it only their sequence does, and they are read once more.
//
// A fact is believed in one thing, its time. From that, its run as it stands, the
// event that it names as its cause and the run's own policy, the rules make the
// fact again, and the two must be the same in subject, every attribute and every
// byte of data:
//
//	the fact          must be
//	────────────────────────────────────────────────────────────────────────
//	of a history      what is due at its time; if nothing is, the answer to
//	                  its cause, which nothing has answered before
//	outside of any    the answer to its cause by the run as it stands there;
//	                  before a run has begun, by any policy that there is
//
// Then the run goes on from the fact that was made, not from the one that was
// read. An event that no fact answers must be one that the rules leave without:
// it was known already, or asks for nothing, or is kept in INVALID for the reason
// that the rules give. That is judged at the instant of the event or of the run,
// whichever is later, when the next fact of the run comes; after the last one it
// counts only below the position of its partition, up to which everything is
// decided; where none is known, only so far before a later decision of the
// partition that the two cannot have been in work together. A history that ends where something follows by itself has been cut off.
//
// A fact may name a cause that was answered before: where two owners worked on a
// partition at once, the later of them tells what became due by the event that it
// has at hand. Such a fact must be due, and cannot be a decision.
//
// # Which fact is named
//
// The first difference of a run is reported, and what follows from it is not. A
// fact that is not what belongs in its place waits for the next one of its run,
// which tells what happened:
//
//	the next fact of the run             the one that waits was
//	────────────────────────────────────────────────────────────────────────
//	has the number after it              CHANGED; the run goes on from what
//	                                     belongs there, and is judged on
//	has the same number, and belongs     PUT_IN
//	there
//	names the digest that the waiting    right but for its link: the fact
//	fact has as it stands                before it was CHANGED, in its time
//
// A number that is left out is MISSING where the next fact stands, or
// OUT_OF_PLACE if it comes later; the rest of that run is counted and not judged.
// An answer outside a history that is wrong waits as well: if a fact is missing,
// that is the reason.
//
// # What else is held
//
// Whoever cannot show a policy cannot show that it was kept: a policy that is
// missing or is not what its digest says is a difference. DISPATCH is read beside
// RUNS, and each dispatch held against what its reservation leads to. INVALID is
// gone through at the end: each dead letter must be one that an event leads to.
// IN and RUNS forget from their beginning only, so a sequence that is left out
// above that is named; and first facts of a run can have aged out only if its
// start is not younger than all that RUNS has. From the first fact on that is
// there, numbers and digests must hold even so.
//
// # What holds the last fact
//
// Every other fact's digest stands in the one that follows. Of run.terminated,
// everything but the time is made again by the rules; its time must not lie before
// that of the fact before it nor of its cause, nor after the instant at which the
// stream stored it (give or take the skew of clocks), and its digest must be the
// one that the store has, until that has expired. The same holds for the last fact
// of an open run. Answers outside a history are in no chain: their time is held by
// their cause and by when the stream stored them.
//
// # Memory
//
// A run that has ended is put aside once its chain is closed. The last few are
// kept for late events; for others the run is made again from its facts when an
// event asks for it, and so is a run that began before the stretch.
package replay

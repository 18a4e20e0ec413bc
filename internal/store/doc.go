// Package store keeps runs and their canonical records in Redis, as a
// projection of the facts: it can be made again from them at any time, and
// never decides anything.
//
// Under a prefix, by default "runledger":
//
//	<prefix>:{<run>}:<call>   hash   the canonical record of one call
//	<prefix>.run:{<run>}      hash   the run after its last projected fact
//	<prefix>.done:{<run>}     list   its completed calls, "<call> <tool call id>", as they settled
//	<prefix>.ops:{<run>}      hash   its model operations, and the tool call ids that it has used
//
// The run is the hash tag, so that a run lies in one slot of a Redis Cluster.
// Names and values are plain text (instants in Unix milliseconds, UTC), to be
// read with HGETALL; fields that are zero are left out. Field v of run and
// record is the version of the layout. An open call is also a field of its run, open:<call>, with its
// record as JSON, so that one read gives the run whole, as it was at one
// instant, and a projection touches only what changed: field recent, what the
// run's calls came to of late, where one of them settles.
//
// A model operation has three fields: under its id what it came to, such as
// "INTENT_ROUTER 2 OPEN" or "SEMANTIC_GUARD 1 FAILED TIMEOUT", and under
// "<id> granted" and "<id> reported" the events of its last attempt, as JSON. A
// projection by a caller who does not know an earlier event leaves it as it is.
//
// # Projection
//
// One script (lua/project.lua) takes a run and its records from fact n to fact
// m, all or nothing:
//
//	the run stands at     the script
//	────────────────────────────────────────────────────────────────────────────
//	m or further          does nothing
//	n, or between n, m    applies what it lacks
//	before n              does nothing, and says where it stands: writes were
//	                      lost, and the caller projects from there
//
// A command without an answer may have run; projecting again is harmless. A
// record is created with its absolute expiry and is never renewed; one that has
// expired by its own instant is not created again. What is missing before that
// was lost, by whatever means: then the run is dropped, and written anew from
// its first fact, with complete records. The run counts what its list (field
// done) and its operations (field ops, of fields) hold, so that their loss shows.
//
// A record moves PROJECTING → READY or PROJECTING → ERROR, and only that of the
// same reservation; the script refuses everything else.
package store

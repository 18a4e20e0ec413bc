package progress

import (
	"cmp"
	"slices"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// Why a completed call is left out of run.progress. The set is closed; where
// several hold, the first in this order is counted.
const (
	LeftOutForeign    = "FOREIGN"    // the record is of another run
	LeftOutExpired    = "EXPIRED"    // by its stored instant, whether or not the store still has it
	LeftOutMissing    = "MISSING"    // the call completed, and the store has no record of it
	LeftOutProjecting = "PROJECTING" // the record has not been settled
	LeftOutError      = "ERROR"      // the call failed: it is evidence of nothing
	LeftOutOverLimit  = "OVER_LIMIT" // accepted, but more than run.progress may hold
)

// maxNamesBytes bounds the names in run.progress together, in bytes. A fact must
// fit in one message, however long the ids are that a framework gives its calls.
const maxNamesBytes = 256 << 10

// Project tells what the run observed: of the completed calls those whose
// records are READY, the run's own and not expired at now, in order of
// reservation, the first max of them, and fewer where their names would not fit
// in a message. Everything else is counted by reason, so
// that observed and left out together are the calls that the run has settled.
//
// completed is what the store resolved: a record without status stands for one
// that is not there, and calls that the run has settled and completed does not
// even name are counted as missing too. Records of a run all expire with it, so
// a run that is past its own expiry has observed nothing that still counts.
func Project(run *harness.Run, completed []harness.Record, now time.Time, max int) *events.RunProgress {
	progress := &events.RunProgress{Observed: []events.Observation{}}
	leaveOut := func(reason string, n int64) {
		if progress.LeftOut == nil {
			progress.LeftOut = make(map[string]int64)
		}
		progress.LeftOut[reason] += n
	}
	names, full := 0, false
	for _, record := range inOrder(completed) {
		reason := reject(run, record, now)
		if reason == "" {
			names += len(record.ToolCallID) + len(record.Tool)
			if full = full || len(progress.Observed) >= max || names > maxNamesBytes; full {
				reason = LeftOutOverLimit
			}
		}
		if reason != "" {
			leaveOut(reason, 1)
			continue
		}
		progress.Observed = append(progress.Observed, events.Observation{
			ToolCallID: record.ToolCallID, Tool: record.Tool, Call: record.Call, Evidence: record.Evidence,
		})
	}
	if unnamed := settledCalls(run) - int64(len(completed)); unnamed > 0 {
		leaveOut(reject(run, &harness.Record{RunID: run.ID}, now), unnamed)
	}
	return progress
}

// inOrder gives the records by order of reservation and leaves the caller's
// slice as it is.
func inOrder(completed []harness.Record) []*harness.Record {
	ordered := make([]*harness.Record, len(completed))
	for i := range completed {
		ordered[i] = &completed[i]
	}
	slices.SortStableFunc(ordered, func(a, b *harness.Record) int { return cmp.Compare(a.Call, b.Call) })
	return ordered
}

// reject gives the reason to leave a record out, or none.
func reject(run *harness.Run, record *harness.Record, now time.Time) string {
	missing := record.Status == ""
	switch {
	case record.RunID != run.ID:
		return LeftOutForeign
	case !now.Before(run.ExpiresAt), !missing && record.Expired(now):
		return LeftOutExpired
	case missing:
		return LeftOutMissing
	case record.Status == events.StatusProjecting:
		return LeftOutProjecting
	case record.Status != events.StatusReady:
		return LeftOutError
	}
	return ""
}

func settledCalls(run *harness.Run) int64 {
	var n int64
	for _, calls := range run.Calls {
		n += calls
	}
	return n
}

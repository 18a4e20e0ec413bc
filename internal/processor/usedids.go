package processor

import "hash/maphash"

// usedIDs knows every tool call id that a run has used, by hash. A worker that
// has held the run since it began has one, and need not ask the store whether
// an id is new: what is not here was never used. What is here may be another id
// of that hash, so it is looked up. Nil knows nothing.
type usedIDs map[uint64]struct{}

//nolint:gochecknoglobals // fixed for the life of the process; nothing changes it
var idSeed = maphash.MakeSeed()

func (u usedIDs) add(toolCallID string) {
	if u != nil {
		u[maphash.String(idSeed, toolCallID)] = struct{}{}
	}
}

// isNew reports whether it is certain that the run never used the id.
func (u usedIDs) isNew(toolCallID string) bool {
	if u == nil {
		return false
	}
	_, used := u[maphash.String(idSeed, toolCallID)]
	return !used
}

// maxUsedIDs bounds the ids that a worker knows over all its runs: some 3 MiB.
const maxUsedIDs = 1 << 17

// boundIDs forgets the ids of the runs that were used longest ago once the
// worker knows too many. added is how many have come since the last time.
func (h *hotRuns) boundIDs(added int) {
	if h.ids += added; h.ids <= maxUsedIDs {
		return
	}
	h.ids = 0
	for _, run := range h.cache.Values() {
		h.ids += len(run.used)
	}
	for _, run := range h.cache.Values() { // the oldest first
		if h.ids <= maxUsedIDs/2 {
			return
		}
		h.ids -= len(run.used)
		run.used = nil
	}
}

package replay

// mostInFlight is how many events of a partition may be in work side by side, at
// least twice what a processor takes at once. So many events before one that is
// decided, everything is.
const mostInFlight = 256

// isDecided reports whether everything that an event leads to must be there. Its
// partition's position says so. Where none counts in this IN (a copy of the
// streams has another), later decisions of the partition do: its events are
// taken through in order, but for those that are in flight together. ordinal is
// the event's place in its partition as far as that was read, 0 if not known.
func (v *verifier) isDecided(partition int, sequence, ordinal uint64) bool {
	if position, known := v.cfg.Stretch.Positions[partition]; known {
		return sequence <= position
	}
	p := v.in.partitions[partition]
	return ordinal > 0 && p != nil && ordinal+mostInFlight <= p.decided
}

// withoutPosition counts the partitions that have events and no position.
func (v *verifier) withoutPosition() (n int) {
	for partition := range v.in.partitions {
		if _, known := v.cfg.Stretch.Positions[partition]; !known {
			n++
		}
	}
	return n
}

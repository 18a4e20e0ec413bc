package harness

import (
	"slices"

	"runledger/internal/events"
)

// maxRecent bounds how many different calls and results a run remembers to see
// that it repeats itself.
const maxRecent = 64

// Repetition is one call and what it came to, and how often it did.
type Repetition struct {
	Key   string // digest of tool, arguments and result
	Count int
}

// repeated counts that a call came to a result: the same tool, the same
// arguments, the same result.
func (r *Run) repeated(call *Record) {
	text := call.Tool + "\n" + call.ArgumentsDigest + "\n" + string(call.Status) + " " + string(call.Code) + "\n" + call.RawDigest
	seen := Repetition{Key: events.DigestBytes([]byte(text)), Count: 1}
	at := slices.IndexFunc(r.Recent, func(s Repetition) bool { return s.Key == seen.Key })
	switch {
	case at >= 0:
		seen.Count += r.Recent[at].Count
		r.Recent = slices.Delete(r.Recent, at, at+1)
	case len(r.Recent) == maxRecent:
		r.Recent = slices.Delete(r.Recent, 0, 1)
	}
	r.Recent = append(r.Recent, seen)
}

// mostRepeated gives how often the most repeated of the recent calls came to
// the same.
func (r *Run) mostRepeated() int {
	most := 0
	for _, s := range r.Recent {
		most = max(most, s.Count)
	}
	return most
}

package harness

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// maxRecent bounds how many different calls and results a run remembers to see
// that it repeats itself.
const maxRecent = 64

// Repetition is one call and what it came to, and how often it did.
type Repetition struct {
	Key   uint64 // see repetitionKey
	Count int
}

// repetitionKey tells calls and what they came to apart: the first 8 bytes of
// the SHA-256 of tool, arguments and result. It guards nothing: whoever finds
// two of one key only has his own run taken for one that repeats itself.
func repetitionKey(call *Record) uint64 {
	text := make([]byte, 0, 256)
	for _, part := range []string{call.Tool, "\n", call.ArgumentsDigest, "\n", string(call.Status), " ", string(call.Code), "\n", call.RawDigest} {
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// repeated counts that a call came to a result: the same tool, the same
// arguments, the same result.
func (r *Run) repeated(call *Record) {
	seen := Repetition{Key: repetitionKey(call), Count: 1}
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

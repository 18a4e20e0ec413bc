package store

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"runledger/internal/harness"
)

// repetitions are what a run's calls came to, the latest last, as one text: a
// word for each, its key in base64 (11 characters), and, where it came to that
// more than once, "*" and how often. A run may hold many, and every settlement
// writes them all.
type repetitions []harness.Repetition

var errRepetitions = errors.New("want keys in base64, each perhaps with * and a number")

func (r *repetitions) text() ([]byte, error) {
	out := make([]byte, 0, len(*r)*16) // a word and a count of up to three digits
	var key [8]byte
	for _, seen := range *r {
		if seen.Count < 1 {
			return nil, errors.New("want a count of 1 or more with each key")
		}
		if len(out) > 0 {
			out = append(out, ' ')
		}
		binary.BigEndian.PutUint64(key[:], seen.Key)
		out = base64.RawURLEncoding.AppendEncode(out, key[:])
		if seen.Count > 1 {
			out = append(out, '*')
			out = strconv.AppendInt(out, int64(seen.Count), 10)
		}
	}
	return out, nil
}

// parse takes whole digests too, of which the key is the beginning: so they were
// written once.
func (r *repetitions) parse(text string) error {
	for word := range strings.SplitSeq(text, " ") {
		digest, count, several := strings.Cut(word, "*")
		seen := harness.Repetition{Count: 1}
		key, err := base64.RawURLEncoding.Strict().DecodeString(digest)
		if err == nil && several {
			seen.Count, err = strconv.Atoi(count)
		}
		if err != nil || len(key) < 8 || seen.Count < 1 {
			return errRepetitions
		}
		seen.Key = binary.BigEndian.Uint64(key)
		*r = append(*r, seen)
	}
	return nil
}

package store

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"runledger/internal/harness"
)

// repetitions are what a run's calls came to, the latest last, as one text: a
// word for each, the bytes of its digest in base64 (43 characters, where the
// digest itself has 71), and, where it came to that more than once, "*" and how
// often. A run may hold many, and every settlement writes them all.
type repetitions []harness.Repetition

const digestPrefix = "sha256:"

var errRepetitions = errors.New("want digests in base64, each perhaps with * and a number")

func (r *repetitions) text() ([]byte, error) {
	out := make([]byte, 0, len(*r)*48) // a word and a count of up to three digits
	var sum [64]byte
	for _, seen := range *r {
		digits, ok := strings.CutPrefix(seen.Key, digestPrefix)
		if !ok || len(digits) > 2*len(sum) || digits != strings.ToLower(digits) {
			return nil, errors.New("want keys that are digests: " + digestPrefix + " and hexadecimal digits")
		}
		n, err := hex.Decode(sum[:], []byte(digits))
		if err != nil || n == 0 || seen.Count < 1 {
			return nil, errors.New("want keys that are digests, each with a count of 1 or more")
		}
		if len(out) > 0 {
			out = append(out, ' ')
		}
		out = base64.RawURLEncoding.AppendEncode(out, sum[:n])
		if seen.Count > 1 {
			out = append(out, '*')
			out = strconv.AppendInt(out, int64(seen.Count), 10)
		}
	}
	return out, nil
}

func (r *repetitions) parse(text string) error {
	for word := range strings.SplitSeq(text, " ") {
		digest, count, several := strings.Cut(word, "*")
		seen := harness.Repetition{Count: 1}
		sum, err := base64.RawURLEncoding.Strict().DecodeString(digest)
		if err == nil && several {
			seen.Count, err = strconv.Atoi(count)
		}
		if err != nil || len(sum) == 0 || seen.Count < 1 {
			return errRepetitions
		}
		seen.Key = digestPrefix + hex.EncodeToString(sum)
		*r = append(*r, seen)
	}
	return nil
}

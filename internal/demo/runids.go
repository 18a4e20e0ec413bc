package demo

import (
	"fmt"
	"strings"

	"runledger/internal/events"
)

const (
	maxName   = 128 // characters of a run id
	maxSuffix = 32
)

// runIDs makes a valid run id of each transcript's name, each another.
func runIDs(transcripts []Transcript, suffix string) []string {
	ids := make([]string, len(transcripts))
	used := make(map[string]bool, len(transcripts))
	for i, t := range transcripts {
		ids[i] = runID(t.Name, suffix)
		for n := 2; used[ids[i]]; n++ {
			tail := fmt.Sprintf("-%d", n)
			if suffix != "" {
				tail += "-" + suffix
			}
			ids[i] = runID(t.Name, strings.TrimPrefix(tail, "-"))
		}
		used[ids[i]] = true
	}
	return ids
}

func runID(name, suffix string) string {
	valid := []byte(name)
	for i, c := range valid {
		if !events.ValidName(string(rune(c))) {
			valid[i] = '-'
		}
	}
	if suffix != "" {
		suffix = "-" + suffix
	}
	return string(valid[:min(len(valid), maxName-len(suffix))]) + suffix
}

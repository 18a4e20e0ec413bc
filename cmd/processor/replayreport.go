package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"runledger/internal/replay"
)

// endedEarly heads what was found by a command that did not come to its end.
const endedEarly = "ended early; until then:\n\n"

// writeReport writes what a verification found. withoutStore says why Redis was
// not looked at, where it was not.
func writeReport(out io.Writer, r *replay.Report, withoutStore string, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	if r.EndedEarly {
		fmt.Fprint(out, endedEarly)
	}
	for _, d := range r.Differences {
		fmt.Fprintln(out, d)
	}
	if len(r.Differences) > 0 {
		if more := r.DifferenceCount - int64(len(r.Differences)); more > 0 {
			fmt.Fprintf(out, "… and %d more\n", more)
		}
		fmt.Fprintln(out)
	}
	list := func(name string, parts ...string) {
		fmt.Fprintf(out, "%-13s%s\n", name, strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", "))
	}
	list("facts", fmt.Sprintf("%d read", r.Facts), some(r.Checked, "decided again and the same"), some(r.State, "of earlier events"),
		some(r.FactsUnchecked, "not checked"), differ(r.FactsDiffer))
	list("events", fmt.Sprint(r.Events), some(r.Ignored, "rightly led to nothing"), some(r.Letters, "kept for the operator"))
	list("runs", fmt.Sprint(r.Runs), some(r.Ended, "ended with run.terminated"))
	if r.Dispatches > 0 {
		list("dispatches", fmt.Sprintf("%d as their reservations lead to", r.Dispatches))
	}
	switch s := r.Store; {
	case s == nil:
		list("Redis", withoutStore)
	case *s == (replay.StoreReport{}):
		list("Redis", "no run to compare")
	default:
		same := ""
		if s.Compared > 0 {
			same = plural(s.Compared, "last fact") + " the same"
		}
		list("Redis", same, some(s.Expired, "expired"), some(s.Further, "went on since"), some(s.Behind, "behind"), some(s.Missing, "missing"), some(s.Failed, "unreadable"))
	}
	for _, why := range slices.Sorted(maps.Keys(r.Unchecked)) {
		list("not checked", fmt.Sprintf("%d %s", r.Unchecked[why], why))
	}
	for _, run := range r.NoSuchRuns {
		list("no such run", run)
	}
	if r.NoPosition > 0 {
		list("note", fmt.Sprintf("no position is known of %s that %s events: what is decided there is taken from later decisions", plural(int64(r.NoPosition), "partition"), has(r.NoPosition)))
	}
	if r.LettersPurged {
		list("note", "INVALID no longer has its first messages: what they were is not known")
	}
	if r.StoredLate > 0 {
		list("note", fmt.Sprintf("%s stored more than 5 minutes after the time in it: processors were held, or it was written afterwards", plural(r.StoredLate, "fact")))
	}
	_, err := fmt.Fprintln(out, conclusion(r))
	return err
}

// conclusion is the last line, for whoever reads no other.
func conclusion(r *replay.Report) string {
	switch {
	case r.DifferenceCount > 0:
		return plural(r.DifferenceCount, "difference")
	case r.NotChecked() > 0:
		return fmt.Sprintf("%d not checked", r.NotChecked())
	case r.EndedEarly:
		return "no difference until then"
	}
	return "all checked"
}

func differ(n int64) string {
	if n == 1 {
		return "1 differs"
	}
	return some(n, "differ")
}

func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// some counts what there is, and says nothing of what there is not.
func some(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

// plural counts things that have a regular plural.
func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

package stream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Made tells a stream from another of its name: the instant at which it was made,
// in UTC and RFC 3339 with nanoseconds. One that was made anew under its name
// counts from 1 again.
func Made(info *jetstream.StreamInfo) string { return info.Created.UTC().Format(time.RFC3339Nano) }

// CheckPrefix holds that IN or RUNS, as the server has it, was made for a prefix
// of all subjects: below another one nothing of ours is found, and that must not
// pass for an empty stream.
func CheckPrefix(made jetstream.StreamConfig, prefix string) error {
	tail := map[string]string{StreamIn: ".in.*.*.*.>", StreamRuns: ".fact.>"}[made.Name]
	if slices.Contains(made.Subjects, prefix+tail) {
		return nil
	}
	for _, subject := range made.Subjects {
		if of, ours := strings.CutSuffix(subject, tail); ours {
			return fmt.Errorf("%s was made for the prefix %q, asked for %q; set subjects.prefix (--subjects-prefix) to what it was made for", made.Name, of, prefix)
		}
	}
	return fmt.Errorf("%s takes the subjects %q, want %q: it is no stream of ours, look at nats.url and nats.credentials", made.Name, made.Subjects, prefix+tail)
}

// PartitionsOf reads with how many partitions IN was made.
func PartitionsOf(in jetstream.StreamConfig) (int, error) {
	if in.SubjectTransform != nil {
		if found := partitionCount.FindStringSubmatch(in.SubjectTransform.Destination); found != nil {
			if n, err := strconv.Atoi(found[1]); err == nil && n >= 1 && n <= MaxPartitions {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("%s does not put events into 1 to %d partitions: want a subject transform as deploy/nats has it; \"processor streams check\" names the differences", in.Name, MaxPartitions)
}

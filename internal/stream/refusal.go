package stream

import (
	"math"
	"regexp"

	"github.com/nats-io/nats.go/jetstream"
)

// streamRefusal says why a difference may not be applied to a stream that exists, or
// "" where it may.
func streamRefusal(want, got jetstream.StreamConfig, d Difference) string {
	switch d.Field {
	case "", "description", "num_replicas", "duplicate_window", "allow_direct", "republish", "max_consumers":
		return ""
	case "max_age":
		return shrinks(int64(want.MaxAge), int64(got.MaxAge))
	case "max_msgs":
		return shrinks(want.MaxMsgs, got.MaxMsgs)
	case "max_bytes":
		return shrinks(want.MaxBytes, got.MaxBytes)
	case "max_msgs_per_subject":
		return shrinks(want.MaxMsgsPerSubject, got.MaxMsgsPerSubject)
	case "max_msg_size":
		return shrinks(int64(want.MaxMsgSize), int64(got.MaxMsgSize))
	case "subject_transform", "sources":
		return "it is fixed when the stream is made"
	case "subjects":
		return "they are fixed when the stream is made"
	case "deny_delete", "deny_purge":
		if d.Want == "true" {
			return ""
		}
	case "allow_rollup_hdrs", "allow_msg_schedules":
		// Turning roll-ups off takes a right away and loses nothing; schedules
		// can only be turned on.
		if d.Field == "allow_rollup_hdrs" || d.Want == "true" {
			return ""
		}
	}
	return "it cannot be changed on a stream that exists"
}

// shrinks refuses a smaller limit: the server would drop what is over it. Zero
// and below mean no limit.
func shrinks(want, got int64) string {
	limit := func(n int64) int64 {
		if n <= 0 {
			return math.MaxInt64
		}
		return n
	}
	if limit(want) < limit(got) {
		return "a smaller limit throws stored messages away; change it by hand if that is meant"
	}
	return ""
}

// consumerRefusal says why the server does not change a setting of a consumer
// that exists, or "" where it does.
func consumerRefusal(d Difference) string {
	switch d.Field {
	case "deliver_policy", "opt_start_seq", "opt_start_time", "ack_policy", "replay_policy", "max_waiting", "mem_storage":
		return "it cannot be changed on a consumer that exists; remove the consumer while its executor rests, and apply"
	}
	return ""
}

// fieldPartitions stands for the number of partitions, which is written in two
// fields of IN.
const fieldPartitions = "partitions"

var partitionCount = regexp.MustCompile(`\{\{partition\((\d+),`)

// joinPartitions puts one difference in the place of those that come from
// another number of partitions and nothing else.
func joinPartitions(differences []Difference) []Difference {
	var joined []Difference
	told := false
	for _, d := range differences {
		want, got, only := onlyPartitions(d)
		switch {
		case !only:
			joined = append(joined, d)
		case !told:
			joined = append(joined, Difference{
				Name: d.Name, Field: fieldPartitions, Want: want, Got: got,
				Refused: "the number is fixed when " + d.Name + " is made",
			})
			told = true
		}
	}
	return joined
}

// onlyPartitions gives the two numbers where a difference is in them alone.
func onlyPartitions(d Difference) (want, got string, only bool) {
	w, g := partitionCount.FindStringSubmatch(d.Want), partitionCount.FindStringSubmatch(d.Got)
	if w == nil || g == nil {
		return "", "", false
	}
	return w[1], g[1], partitionCount.ReplaceAllLiteralString(d.Got, w[0]) == d.Want
}

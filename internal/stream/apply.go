package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// bucketDuplicateWindow is what nats.go gives every bucket; its Create on a
// bucket made otherwise would report a conflict.
const bucketDuplicateWindow = 2 * time.Minute

// ErrRefused is what Apply returns when a setting on the server may not be
// changed, or not without losing data; nothing was changed then.
var ErrRefused = errors.New("change refused")

// Change is one thing that Apply did.
type Change struct {
	// Name as in Difference.
	Name string
	// Created says that it was missing; otherwise it was updated.
	Created bool
	// Updated holds what was different before.
	Updated []Difference
}

// String tells the change in one line.
func (c Change) String() string {
	if c.Created {
		return c.Name + ": created"
	}
	parts := make([]string, len(c.Updated))
	for i, d := range c.Updated {
		parts[i] = fmt.Sprintf("%s from %s to %s", d.Field, d.Got, d.Want)
	}
	return c.Name + ": updated " + strings.Join(parts, ", ")
}

// Check compares what the server has with what it should have. It changes
// nothing. Differences are in the order of the topology; other streams and
// consumers on the server are not looked at.
func (t Topology) Check(ctx context.Context, js jetstream.JetStream) ([]Difference, error) {
	var all []Difference
	for _, want := range t.allStreams() {
		_, differences, err := checkStream(ctx, js, want)
		if err != nil {
			return nil, err
		}
		all = append(all, differences...)
	}
	for _, want := range t.consumers {
		differences, err := checkConsumer(ctx, js, want)
		if err != nil {
			return nil, err
		}
		all = append(all, differences...)
	}
	return all, nil
}

// Apply makes what is missing and updates what may be updated. Where a
// difference may not be changed on a living stream (partition count, prefix,
// storage) or would throw stored messages away (smaller limits), it returns
// ErrRefused with every such difference, and has changed nothing. It may be
// called by several processes at once, and again after an error.
func (t Topology) Apply(ctx context.Context, js jetstream.JetStream) ([]Change, error) {
	type step struct {
		want        jetstream.StreamConfig
		differences []Difference
	}
	var steps []step
	var refused []error
	for _, want := range t.allStreams() {
		got, differences, err := checkStream(ctx, js, want)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{want, differences})
		for _, d := range differences {
			if reason := refusal(want, got, d); reason != "" {
				refused = append(refused, fmt.Errorf("%s: %s", d, reason))
			}
		}
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrRefused, errors.Join(refused...))
	}
	var changes []Change
	for _, s := range steps {
		change, err := putStream(ctx, js, s.want, s.differences)
		if err != nil {
			return changes, err
		}
		changes = append(changes, change...)
	}
	for _, want := range t.consumers {
		change, err := putConsumer(ctx, js, want)
		if err != nil {
			return changes, err
		}
		changes = append(changes, change...)
	}
	return changes, nil
}

// allStreams is every stream of the topology, buckets included.
func (t Topology) allStreams() []jetstream.StreamConfig {
	all := slices.Clone(t.streams)
	for _, bucket := range t.buckets {
		all = append(all, bucketStream(bucket))
	}
	return all
}

func checkStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.StreamConfig, []Difference, error) {
	stream, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return jetstream.StreamConfig{}, []Difference{{Name: want.Name}}, nil
	}
	if err != nil {
		return jetstream.StreamConfig{}, nil, fmt.Errorf("look at stream %s: %w", want.Name, err)
	}
	got := plainStream(stream.CachedInfo().Config)
	differences, err := compare(want.Name, plainStream(want), got)
	return got, differences, err
}

func putStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, differences []Difference) ([]Change, error) {
	if len(differences) == 0 {
		return nil, nil
	}
	if differences[0].Field == "" {
		if _, err := js.CreateStream(ctx, want); err != nil {
			return nil, fmt.Errorf("create stream %s: %w", want.Name, err)
		}
		return []Change{{Name: want.Name, Created: true}}, nil
	}
	if _, err := js.UpdateStream(ctx, want); err != nil {
		return nil, fmt.Errorf("update stream %s: %w", want.Name, err)
	}
	return []Change{{Name: want.Name, Updated: differences}}, nil
}

func checkConsumer(ctx context.Context, js jetstream.JetStream, want jetstream.ConsumerConfig) ([]Difference, error) {
	name := StreamDispatch + "/" + want.Durable
	consumer, err := js.Consumer(ctx, StreamDispatch, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return []Difference{{Name: name}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at consumer %s: %w", name, err)
	}
	return compare(name, plainConsumer(want), plainConsumer(consumer.CachedInfo().Config))
}

func putConsumer(ctx context.Context, js jetstream.JetStream, want jetstream.ConsumerConfig) ([]Change, error) {
	differences, err := checkConsumer(ctx, js, want)
	if err != nil || len(differences) == 0 {
		return nil, err
	}
	change := Change{Name: differences[0].Name, Created: differences[0].Field == ""}
	if change.Created {
		_, err = js.CreateConsumer(ctx, StreamDispatch, want)
	} else {
		change.Updated = differences
		_, err = js.UpdateConsumer(ctx, StreamDispatch, want)
	}
	if err != nil {
		return nil, fmt.Errorf("apply consumer %s: %w", change.Name, err)
	}
	return []Change{change}, nil
}

// refusal says why a difference may not be applied to a stream that exists, or
// "" where it may.
func refusal(want, got jetstream.StreamConfig, d Difference) string {
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
		return "partition count, prefix and sources are fixed when the streams are made; make new streams and replay into them"
	case "subjects":
		return "the subjects are fixed when the streams are made"
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
	return "cannot be changed on a stream that exists"
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

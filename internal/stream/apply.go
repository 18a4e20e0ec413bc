package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bucketDuplicateWindow is what nats.go gives every bucket; its Create on a
// bucket made otherwise would report a conflict.
const bucketDuplicateWindow = 2 * time.Minute

// ErrRefused is what Apply returns when a setting on the server may not be
// changed, or not without losing data; nothing was changed then.
var ErrRefused = errors.New("change refused")

// ErrNoJetStream says that the server, or this account on it, has no JetStream.
var ErrNoJetStream = errors.New("JetStream does not answer: start nats-server with it (--jetstream, or a jetstream block in its configuration), and enable it for this account")

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
		differences, err := checkStream(ctx, js, want)
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
	refuse := func(differences []Difference) {
		for _, d := range differences {
			if d.Refused != "" {
				refused = append(refused, fmt.Errorf("%s; %s", d, d.Refused))
			}
		}
	}
	for _, want := range t.allStreams() {
		differences, err := checkStream(ctx, js, want)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{want, differences})
		refuse(differences)
	}
	for _, want := range t.consumers {
		differences, err := checkConsumer(ctx, js, want)
		if err != nil {
			return nil, err
		}
		refuse(differences)
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

func checkStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) ([]Difference, error) {
	stream, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return []Difference{{Name: want.Name}}, nil
	}
	if err != nil {
		return nil, explain("look at stream "+want.Name, err)
	}
	got := plainStream(stream.CachedInfo().Config)
	differences, err := compare(want.Name, plainStream(want), got)
	if err != nil {
		return nil, err
	}
	for i, d := range differences {
		differences[i].Refused = streamRefusal(want, got, d)
	}
	return joinPartitions(differences), nil
}

// explain adds to what the server answered what an operator can do about it.
func explain(doing string, err error) error {
	var answer *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w (%w)", ErrNoJetStream, err)
	case errors.As(err, &answer) && (answer.ErrorCode == codeNotClustered || answer.ErrorCode == codeNoPeers):
		return fmt.Errorf("%s: %w; subjects.replicas (--subjects-replicas) can be at most the number of servers in the NATS cluster", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Answers of the server to more replicas than it has servers for.
const (
	codeNoPeers      jetstream.ErrorCode = 10005
	codeNotClustered jetstream.ErrorCode = 10074
)

func putStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, differences []Difference) ([]Change, error) {
	if len(differences) == 0 {
		return nil, nil
	}
	if differences[0].Field == "" {
		if _, err := js.CreateStream(ctx, want); err != nil {
			return nil, explain(fmt.Sprintf("create stream %s with %d replicas", want.Name, want.Replicas), err)
		}
		return []Change{{Name: want.Name, Created: true}}, nil
	}
	if _, err := js.UpdateStream(ctx, want); err != nil {
		return nil, explain(fmt.Sprintf("update stream %s to %d replicas", want.Name, want.Replicas), err)
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
		return nil, explain("look at consumer "+name, err)
	}
	differences, err := compare(name, plainConsumer(want), plainConsumer(consumer.CachedInfo().Config))
	for i, d := range differences {
		differences[i].Refused = consumerRefusal(d)
	}
	return differences, err
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

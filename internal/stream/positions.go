package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Positions reads how far each of so many partitions is decided, from the bucket
// PARTITIONS: everything up to a position has its facts, and they are projected
// and dispatched. A partition that nobody has moved is missing, and so is one
// whose position counts in another IN than the one that was made at that instant
// (UTC, RFC 3339 with nanoseconds), as a stream that is made anew counts from 1
// again.
func Positions(ctx context.Context, js jetstream.JetStream, count int, made string) (map[int]uint64, error) {
	positions := make(map[int]uint64, count)
	for partition := range count {
		message, err := getMessage(ctx, js.Conn(), apiPrefix(js), "KV_"+BucketPartitions, getRequest{LastFor: leaseSubject(partition)})
		switch {
		case errors.Is(err, ErrNotFound):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the position of partition %d: %w", partition, err)
		case message.Header.Get(headerOperation) != "":
			continue
		}
		var record leaseRecord
		if err := json.Unmarshal(message.Data, &record); err != nil {
			return nil, fmt.Errorf("read the position of partition %d: %w", partition, err)
		}
		if record.Position > 0 && record.Stream == made {
			positions[partition] = record.Position
		}
	}
	return positions, nil
}

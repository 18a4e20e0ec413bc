package replay

import (
	"context"
	"slices"
	"time"

	"runledger/internal/stream"
)

// Read-ahead of a replay: it takes what it reads at once, so the more the better.
const (
	readMessages = 4096
	readBytes    = 16 << 20
	handOut      = 1024
)

func (s *JetStream) cursor(ctx context.Context, name, filter string, from, to uint64) (Cursor, error) {
	from = max(from, 1)
	if from > to {
		return nothing{}, nil
	}
	reader, err := stream.OpenReader(ctx, s.js, filter, from-1, stream.ReaderConfig{
		Stream: name, MaxMessages: readMessages, MaxBytes: readBytes, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	return &upTo{reader: reader, name: name, to: to, patience: s.patience}, nil
}

// nothing is a stretch without messages.
type nothing struct{}

func (nothing) Next(context.Context) ([]stream.Message, error) { return nil, nil }
func (nothing) Close()                                         {}

// upTo reads to a message that is there, and no further.
type upTo struct {
	reader   *stream.Reader
	name     string // of the stream
	to       uint64
	patience time.Duration
	done     bool
}

// Next implements Cursor.
func (c *upTo) Next(ctx context.Context) ([]stream.Message, error) {
	if c.done {
		return nil, nil
	}
	waiting, stop := newWait(ctx, c.patience)
	defer stop()
	batch, err := c.reader.Next(waiting.ctx, handOut)
	if err != nil {
		return nil, waiting.tell(err, c.name)
	}
	if c.done = batch[len(batch)-1].Sequence >= c.to; c.done {
		batch = slices.DeleteFunc(batch, func(m stream.Message) bool { return m.Sequence > c.to })
	}
	return batch, nil
}

// Close implements Cursor.
func (c *upTo) Close() { c.reader.Close() }

// merged reads several parts of one stream as one, in order.
type merged struct {
	cursors []Cursor
	ahead   [][]stream.Message
}

// Next implements Cursor.
func (c *merged) Next(ctx context.Context) ([]stream.Message, error) {
	first := -1
	for i := range c.cursors {
		if c.cursors[i] != nil && len(c.ahead[i]) == 0 {
			batch, err := c.cursors[i].Next(ctx)
			if err != nil {
				return nil, err
			}
			if c.ahead[i] = batch; len(batch) == 0 {
				c.cursors[i].Close()
				c.cursors[i] = nil
			}
		}
		if len(c.ahead[i]) > 0 && (first < 0 || c.ahead[i][0].Sequence < c.ahead[first][0].Sequence) {
			first = i
		}
	}
	if first < 0 {
		return nil, nil
	}
	batch := c.ahead[first][:1:1]
	c.ahead[first] = c.ahead[first][1:]
	return batch, nil
}

// Close implements Cursor.
func (c *merged) Close() {
	for _, cursor := range c.cursors {
		if cursor != nil {
			cursor.Close()
		}
	}
}

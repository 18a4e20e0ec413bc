package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// ErrNotFound says that the stream has no such message: it never had, or it is
// older than the stream keeps.
var ErrNotFound = errors.New("message not found")

// codeNoMessage is the server's error for a get that found nothing.
const codeNoMessage = 10037

// shortHistory is how many messages From gets one by one before it makes a
// consumer: a get costs one round trip, a consumer some ten.
const shortHistory = 8

// History reads what is stored in RUNS and IN.
//
// Its gets are answered by the stream's leader, never by a replica that may be
// behind: what the next fact expects is read here. Nothing is retried; an error
// of the connection or of a cluster without leader is returned as it is, and a
// context without deadline gets one of 5 s for each request.
//
// It may be used by many goroutines.
type History struct {
	js  jetstream.JetStream
	nc  *nats.Conn
	api string
	log zerolog.Logger
}

// NewHistory reads through the connection of js.
func NewHistory(js jetstream.JetStream, log zerolog.Logger) *History {
	return &History{js: js, nc: js.Conn(), api: apiPrefix(js), log: log}
}

// Last returns the last message of RUNS under a subject filter, or nil where
// there is none.
func (h *History) Last(ctx context.Context, filter string) (*Message, error) {
	return last(h.get(ctx, StreamRuns, getRequest{LastFor: filter}))
}

// LastOf is Last on another stream.
func (h *History) LastOf(ctx context.Context, stream, filter string) (*Message, error) {
	return last(h.get(ctx, stream, getRequest{LastFor: filter}))
}

func last(message Message, err error) (*Message, error) {
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &message, nil
}

// Inbound returns the message of IN with that stream sequence, or ErrNotFound.
func (h *History) Inbound(ctx context.Context, seq uint64) (Message, error) {
	if seq == 0 {
		return Message{}, fmt.Errorf("%w: sequences of %s begin at 1, got 0", ErrNotFound, StreamIn)
	}
	return h.get(ctx, StreamIn, getRequest{Sequence: seq})
}

// From calls fn for each message of RUNS under the filter whose stream sequence
// is at least seq, in order, up to the one that was last when From was called.
// An error of fn ends it and is returned as it is.
func (h *History) From(ctx context.Context, filter string, seq uint64, fn func(Message) error) error {
	end, err := h.Last(ctx, filter)
	if err != nil {
		return err
	}
	if end == nil || end.Sequence < seq {
		return nil
	}
	next := max(seq, 1)
	for range shortHistory {
		if next == end.Sequence {
			return fn(*end)
		}
		message, err := h.get(ctx, StreamRuns, getRequest{Sequence: next, NextFor: filter})
		if err != nil {
			return fmt.Errorf("read history from %d to %d: %w", next, end.Sequence, err)
		}
		if err := fn(message); err != nil {
			return err
		}
		if message.Sequence >= end.Sequence {
			return nil
		}
		next = message.Sequence + 1
	}
	return h.readOn(ctx, filter, next, end.Sequence, fn)
}

// readOn reads a long stretch through a consumer.
func (h *History) readOn(ctx context.Context, filter string, next, end uint64, fn func(Message) error) error {
	reader, err := OpenReader(ctx, h.js, filter, next-1, ReaderConfig{Stream: StreamRuns, Log: h.log})
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		batch, err := reader.Next(ctx, 256)
		if err != nil {
			return fmt.Errorf("read history from %d to %d: %w", next, end, err)
		}
		for _, message := range batch {
			if message.Sequence > end {
				return nil
			}
			if err := fn(message); err != nil {
				return err
			}
			if message.Sequence == end {
				return nil
			}
			next = message.Sequence + 1
		}
	}
}

// getRequest asks a stream's leader for one message: by sequence, the next of a
// filter from a sequence on, or the last of a filter.
type getRequest struct {
	Sequence uint64 `json:"seq,omitempty"`
	LastFor  string `json:"last_by_subj,omitempty"`
	NextFor  string `json:"next_by_subj,omitempty"`
}

type getResponse struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject  string    `json:"subject"`
		Sequence uint64    `json:"seq"`
		Header   []byte    `json:"hdrs"`
		Data     []byte    `json:"data"`
		Time     time.Time `json:"time"`
	} `json:"message"`
}

func (h *History) get(ctx context.Context, stream string, request getRequest) (Message, error) {
	return getMessage(ctx, h.nc, h.api, stream, request)
}

// getMessage reads one message from the leader of a stream.
func getMessage(ctx context.Context, nc *nats.Conn, api, stream string, request getRequest) (Message, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return Message{}, fmt.Errorf("encode request: %w", err)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	reply, err := nc.RequestWithContext(ctx, api+"STREAM.MSG.GET."+stream, body)
	if err != nil {
		return Message{}, fmt.Errorf("get message from %s: %w", stream, err)
	}
	var response getResponse
	if err := json.Unmarshal(reply.Data, &response); err != nil {
		return Message{}, fmt.Errorf("get message from %s: decode answer: %w", stream, err)
	}
	switch {
	case response.Error != nil && response.Error.ErrorCode == codeNoMessage:
		return Message{}, fmt.Errorf("%w in %s: %s", ErrNotFound, stream, strings.Trim(string(body), "{}"))
	case response.Error != nil:
		return Message{}, fmt.Errorf("get message from %s: %w", stream, response.Error)
	case response.Message == nil:
		return Message{}, fmt.Errorf("get message from %s: answer has neither message nor error: %.100q", stream, reply.Data)
	}
	got := response.Message
	message := Message{Subject: got.Subject, Data: got.Data, Sequence: got.Sequence, Time: got.Time}
	if len(got.Header) > 0 {
		// Headers that cannot be read are none, as they were to the reader that
		// handed the message out first: both must see the same event.
		if header, err := nats.DecodeHeadersMsg(got.Header); err == nil {
			message.Header = header
		}
	}
	return message, nil
}

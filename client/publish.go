package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"runledger/internal/events"
)

const (
	defaultAckTimeout = 2 * time.Second
	firstPause        = 50 * time.Millisecond
	longestPause      = 2 * time.Second
)

// publisher publishes events to JetStream and waits for the acknowledgement.
// An event without one is published again, unchanged: the processor treats the
// same event as the same.
type publisher struct {
	js         jetstream.JetStream
	log        zerolog.Logger
	ackTimeout time.Duration
	attempts   int // at most; 0 is until the context ends

	published   atomic.Int64
	republished atomic.Int64
}

// publish returns nil once the stream has stored the event. ErrUnanswered means
// that it may have; any other error that it did not, unless the context ended.
func (p *publisher) publish(ctx context.Context, subject string, e cloudevents.Event) error {
	header, data, err := events.EncodeBinary(e)
	if err != nil {
		return err
	}
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err = p.once(ctx, &nats.Msg{Subject: subject, Header: header, Data: data})
		if err == nil {
			p.published.Add(1)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("publish on %s: %w", subject, ctx.Err())
		}
		if !isUnanswered(err) {
			return fmt.Errorf("publish on %s: %w", subject, err)
		}
		if attempt == p.attempts {
			return fmt.Errorf("publish on %s, %d times: %w (last: %w)", subject, attempt, ErrUnanswered, err)
		}
		if !rest(ctx, pause) {
			return fmt.Errorf("publish on %s: %w", subject, ctx.Err())
		}
		pause = min(2*pause, longestPause)
		p.republished.Add(1)
		p.log.Warn().Err(err).Str("subject", subject).Str("event", e.ID()).Int("attempt", attempt+1).Msg("publish was not answered; publishing the same event again")
	}
}

func (p *publisher) once(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, p.ackTimeout)
	defer cancel()
	_, err := p.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0)) // its default would retry in silence
	return err
}

// isUnanswered reports whether trying again can help: the server did not
// answer, nobody answers at the moment, or the connection is down.
func isUnanswered(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503
	}
	for _, passing := range []error{
		context.DeadlineExceeded, nats.ErrTimeout,
		jetstream.ErrNoStreamResponse, nats.ErrNoResponders, jetstream.ErrInvalidJSAck,
		nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded, nats.ErrStaleConnection,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// rest waits, and reports whether the context still holds afterwards.
func rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// newID makes the id of an event, unique by 130 random bits.
func newID() string { return rand.Text() }

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

const bucketClaims = "CLAIMS"

// Server errors of a publish that expects nothing to be stored on its subject
// yet. The second comes from clusters while another message is in flight there.
const (
	codeWrongLastSequence         = 10071
	codeWrongLastSequenceConstant = 10164
)

// claims is the KV bucket in which a dispatch is claimed. Whoever creates its
// key runs the tool; nobody else ever does.
type claims struct {
	js         jetstream.JetStream
	bucket     jetstream.KeyValue
	owner      string // for whoever looks into the bucket
	ackTimeout time.Duration
	log        zerolog.Logger
}

func openClaims(ctx context.Context, js jetstream.JetStream, owner string, ackTimeout time.Duration, log zerolog.Logger) (*claims, error) {
	bucket, err := js.KeyValue(ctx, bucketClaims)
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w; `processor streams apply` makes it", bucketClaims, err)
	}
	return &claims{js: js, bucket: bucket, owner: owner, ackTimeout: ackTimeout, log: log}, nil
}

// claim reports whether the dispatch is the caller's to run. It goes on until
// that is known or the context ends. Of all calls of claim for one dispatch, in
// any process, at most one is told true.
func (c *claims) claim(ctx context.Context, dispatch string) (bool, error) {
	token := c.owner + " " + newID() // one that only this call can have written
	pause := firstPause
	for {
		err := c.create(ctx, dispatch, token)
		if err == nil {
			return true, nil
		}
		if !isTaken(err) && !isUnanswered(err) {
			return false, fmt.Errorf("claim dispatch %s: %w", dispatch, err)
		}
		// Taken, perhaps by a create of ours whose answer was lost.
		value, found, readErr := c.read(ctx, dispatch)
		if readErr == nil && found {
			return value == token, nil
		}
		c.log.Warn().AnErr("create", err).AnErr("read", readErr).Str("dispatch", dispatch).Msg("claim is not known yet; trying again")
		if !rest(ctx, pause) {
			return false, fmt.Errorf("claim dispatch %s: %w (last: %w)", dispatch, ctx.Err(), err)
		}
		pause = min(2*pause, longestPause)
	}
}

// create is the bucket's Create in one request: the library's would retry in
// silence.
func (c *claims) create(ctx context.Context, dispatch, token string) error {
	ctx, cancel := context.WithTimeout(ctx, c.ackTimeout)
	defer cancel()
	_, err := c.js.PublishMsg(ctx, &nats.Msg{Subject: "$KV." + bucketClaims + "." + dispatch, Data: []byte(token)},
		jetstream.WithRetryAttempts(0), jetstream.WithExpectLastSequencePerSubject(0))
	return err
}

func (c *claims) read(ctx context.Context, dispatch string) (value string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.ackTimeout)
	defer cancel()
	entry, err := c.bucket.Get(ctx, dispatch)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return string(entry.Value()), true, nil
}

func isTaken(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == codeWrongLastSequence || api.ErrorCode == codeWrongLastSequenceConstant)
}

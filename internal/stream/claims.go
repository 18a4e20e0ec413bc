package stream

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// claimRetry is the wait between two attempts to get an unanswered claim
// answered.
const claimRetry = 100 * time.Millisecond

// claimPattern is what may be a claim: the keys that a bucket takes.
var claimPattern = regexp.MustCompile(`^[A-Za-z0-9_=/-]+(\.[A-Za-z0-9_=/-]+)*$`)

// Claims says which process runs a dispatched call. Whoever creates the key of
// a dispatch runs it; nobody else ever does, also if the creator dies: a tool
// call runs at most once. It may be used by many goroutines.
type Claims struct {
	nc        *nats.Conn
	api       string
	publisher *Publisher
	owner     string
}

// NewClaims claims for one process. The owner is written beside the token, so
// that an operator sees who holds a claim; it decides nothing. The publisher may
// be shared.
func NewClaims(js jetstream.JetStream, publisher *Publisher, owner string) *Claims {
	return &Claims{nc: js.Conn(), api: apiPrefix(js), publisher: publisher, owner: owner}
}

// Claim is true for exactly one caller, ever, of all that claim a dispatch. A
// second call of one process for the same dispatch is false too.
//
// An unanswered attempt is made again until it is known whose the claim is: each
// call writes a token of its own, so that it recognizes a claim of its own that
// landed without an answer. Only the context ends that; its error then means
// that the claim may or may not be taken, and that the caller must not run the
// call. (Somebody may have to look: it would show as a call that times out.)
func (c *Claims) Claim(ctx context.Context, dispatchID string) (bool, error) {
	if len(dispatchID) > 512 || !claimPattern.MatchString(dispatchID) {
		return false, fmt.Errorf("claim: got dispatch %.200q, want at most 512 letters, digits, _, -, =, / and single dots between", dispatchID)
	}
	return c.claim(ctx, dispatchID, nuid.Next()+" "+c.owner)
}

func (c *Claims) claim(ctx context.Context, dispatchID, token string) (bool, error) {
	subject := bucketSubject(BucketClaims, dispatchID)
	for {
		_, err := c.publisher.Publish(&nats.Msg{Subject: subject, Data: []byte(token)}, ExpectNew()).Wait(ctx)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, ErrStale):
			holder, known := c.holder(ctx, subject)
			if known {
				return holder == token, nil
			}
		case !errors.Is(err, ErrUnanswered):
			return false, fmt.Errorf("claim %s: %w", dispatchID, err)
		}
		// Creating again is safe: if the first attempt landed, or still lands,
		// it is this token that is found.
		if pause(ctx, claimRetry) != nil {
			return false, fmt.Errorf("claim %s: %w: %w", dispatchID, ErrUnanswered, ctx.Err())
		}
	}
}

// holder reads whose the claim is, from the leader. Not known is also what was
// in flight when the stream refused ours, and is not stored yet.
func (c *Claims) holder(ctx context.Context, subject string) (token string, known bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	message, err := getMessage(ctx, c.nc, c.api, "KV_"+BucketClaims, getRequest{LastFor: subject})
	if err != nil {
		return "", false
	}
	return string(message.Data), true
}

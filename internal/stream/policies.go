package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Policies keeps policies in the bucket POLICIES under their digests. What a
// digest names never changes.
type Policies struct {
	js        jetstream.JetStream
	nc        *nats.Conn
	api       string
	publisher *Publisher
}

// How often and after what pause Put is tried again while another process is
// putting the same policy.
const (
	putAttempts = 50
	putPause    = 100 * time.Millisecond
)

// digestPattern is the writing of a digest; see events.DigestBytes.
var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ValidDigest reports whether a policy can be kept under that text.
func ValidDigest(text string) bool { return digestPattern.MatchString(text) }

// policyKey is where a policy is kept: a key may not hold a colon.
func policyKey(digest string) (string, error) {
	if !ValidDigest(digest) {
		return "", fmt.Errorf("policy digest: got %.100q, want sha256: and 64 hexadecimal digits", digest)
	}
	return strings.Replace(digest, ":", "-", 1), nil
}

// NewPolicies works through the connection of js. The publisher may be shared,
// and nil where nothing is put.
func NewPolicies(js jetstream.JetStream, publisher *Publisher) *Policies {
	return &Policies{js: js, nc: js.Conn(), api: apiPrefix(js), publisher: publisher}
}

// Put keeps the bytes of a policy under its digest. That the digest is that of the bytes is the caller's to see to.
// Putting the same bytes again does nothing; other bytes under a digest that is
// taken are refused. After ErrUnanswered it may be called again.
func (p *Policies) Put(ctx context.Context, digest string, content []byte) error {
	key, err := policyKey(digest)
	if err != nil {
		return err
	}
	if len(content) == 0 {
		return fmt.Errorf("policy %s: got no bytes, want the policy", digest)
	}
	for attempt := 1; ; attempt++ {
		_, err = p.publisher.Publish(&nats.Msg{Subject: bucketSubject(BucketPolicies, key), Data: content}, ExpectNew()).Wait(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrStale) {
			return fmt.Errorf("put policy %s: %w", digest, err)
		}
		stored, err := p.Get(ctx, digest)
		switch {
		case err == nil && !bytes.Equal(stored, content):
			return fmt.Errorf("put policy %s: other bytes are stored under this digest (%d, not %d): one of the two was not hashed rightly", digest, len(stored), len(content))
		case err == nil:
			return nil
		case !errors.Is(err, ErrNotFound) || attempt == putAttempts || pause(ctx, putPause) != nil:
			return err
		}
		// With replicas a publish is also refused while another one on the same
		// subject is under way, and what that brings cannot be read yet.
	}
}

// Get returns the bytes of a policy, or ErrNotFound.
func (p *Policies) Get(ctx context.Context, digest string) ([]byte, error) {
	key, err := policyKey(digest)
	if err != nil {
		return nil, err
	}
	message, err := getMessage(ctx, p.nc, p.api, "KV_"+BucketPolicies, getRequest{LastFor: bucketSubject(BucketPolicies, key)})
	if err != nil {
		return nil, fmt.Errorf("get policy %s: %w", digest, err)
	}
	return message.Data, nil
}

// Digests lists the policies that are kept, in ascending order.
func (p *Policies) Digests(ctx context.Context) ([]string, error) {
	bucket, err := p.js.KeyValue(ctx, BucketPolicies)
	if err != nil {
		return nil, fmt.Errorf("look at bucket %s: %w", BucketPolicies, err)
	}
	keys, err := bucket.Keys(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, fmt.Errorf("list bucket %s: %w", BucketPolicies, err)
	}
	var digests []string
	for _, key := range keys {
		if digest := strings.Replace(key, "-", ":", 1); ValidDigest(digest) {
			digests = append(digests, digest)
		}
	}
	slices.Sort(digests)
	return digests, nil
}

// bucketSubject is where a bucket keeps a key (NATS ADR-8).
func bucketSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

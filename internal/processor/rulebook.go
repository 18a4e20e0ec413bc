package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/progress"
	"runledger/internal/stream"
)

// Rulebook gives the rules of each policy: of the current one, by which new
// runs start, and of those that older runs keep. It is safe for use by several
// goroutines.
type Rulebook struct {
	current  *harness.Rules
	policies Policies

	mu    sync.Mutex
	known map[string]*harness.Rules
}

// NewRulebook returns a rulebook whose current policy is the given one.
func NewRulebook(current *harness.Policy, policies Policies) *Rulebook {
	rules := newRules(current)
	return &Rulebook{
		current: rules, policies: policies,
		known: map[string]*harness.Rules{current.Digest: rules},
	}
}

func newRules(p *harness.Policy) *harness.Rules {
	return &harness.Rules{Policy: p, Progress: progress.Rules{}}
}

// Current gives the rules by which new runs start.
func (b *Rulebook) Current() *harness.Rules { return b.current }

// Of gives the rules that a run began with, and keeps. The error is
// errUnreadable where trying again does not help.
func (b *Rulebook) Of(ctx context.Context, digest string) (*harness.Rules, error) {
	b.mu.Lock()
	rules := b.known[digest]
	b.mu.Unlock()
	if rules != nil {
		return rules, nil
	}
	content, err := b.policies.Get(ctx, digest)
	if errors.Is(err, stream.ErrNotFound) {
		return nil, fmt.Errorf("%w: policy %s: %w", errUnreadable, digest, err)
	}
	if err != nil { // for a while
		return nil, fmt.Errorf("policy %s: %w", digest, err)
	}
	parsed, err := policy.Parse(digest, content)
	if err == nil && parsed.Digest != digest {
		err = fmt.Errorf("its content has the digest %s", parsed.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: policy %s: %w", errUnreadable, digest, err)
	}
	rules = newRules(parsed)
	b.mu.Lock()
	b.known[digest] = rules
	b.mu.Unlock()
	return rules, nil
}

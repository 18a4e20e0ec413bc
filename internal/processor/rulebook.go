package processor

import (
	"context"
	"fmt"
	"sync"

	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/progress"
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
	return &harness.Rules{Policy: p, Progress: progress.Project}
}

// Current gives the rules by which new runs start.
func (b *Rulebook) Current() *harness.Rules { return b.current }

// Of gives the rules that a run began with, and keeps.
func (b *Rulebook) Of(ctx context.Context, digest string) (*harness.Rules, error) {
	b.mu.Lock()
	rules := b.known[digest]
	b.mu.Unlock()
	if rules != nil {
		return rules, nil
	}
	content, err := b.policies.Get(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", digest, err)
	}
	parsed, err := policy.Parse(digest, content)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", digest, err)
	}
	if parsed.Digest != digest {
		return nil, fmt.Errorf("policy %s: its content has the digest %s", digest, parsed.Digest)
	}
	rules = newRules(parsed)
	b.mu.Lock()
	b.known[digest] = rules
	b.mu.Unlock()
	return rules, nil
}

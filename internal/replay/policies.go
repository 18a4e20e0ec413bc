package replay

import (
	"context"
	"errors"
	"fmt"

	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/progress"
	"runledger/internal/stream"
)

// rulebook compiles each policy once.
type rulebook struct {
	policies Policies
	known    map[string]*harness.Rules // nil where the policy is gone or cannot be read
	all      []*harness.Rules          // once asked for
}

func newRulebook(p Policies) *rulebook {
	return &rulebook{policies: p, known: make(map[string]*harness.Rules)}
}

// of gives the rules of a policy, nil if that is not there any more or is not
// what its digest says.
func (b *rulebook) of(ctx context.Context, digest string) (*harness.Rules, error) {
	if rules, ok := b.known[digest]; ok {
		return rules, nil
	}
	if !stream.ValidDigest(digest) {
		return nil, nil
	}
	content, err := b.policies.Get(ctx, digest)
	switch {
	case errors.Is(err, stream.ErrNotFound):
		b.known[digest] = nil
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("policy %s: %w", digest, err)
	}
	parsed, err := policy.Parse(digest, content)
	if err != nil || parsed.Digest != digest {
		b.known[digest] = nil
		return nil, nil //nolint:nilerr // a policy that is not what its digest says is none
	}
	b.known[digest] = RulesOf(parsed)
	return b.known[digest], nil
}

// RulesOf gives the rules by which runs of a policy are decided.
func RulesOf(p *harness.Policy) *harness.Rules {
	return &harness.Rules{Policy: p, Progress: progress.Rules{}}
}

// every gives the rules of all policies that there are. What is said of a run
// before it begins does not name the policy that was in force.
func (b *rulebook) every(ctx context.Context) ([]*harness.Rules, error) {
	if b.all != nil {
		return b.all, nil
	}
	digests, err := b.policies.Digests(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the policies: %w", err)
	}
	for _, digest := range digests {
		rules, err := b.of(ctx, digest)
		if err != nil {
			return nil, err
		}
		if rules != nil {
			b.all = append(b.all, rules)
		}
	}
	return b.all, nil
}

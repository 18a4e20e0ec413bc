package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/progress"
	"runledger/internal/stream"
)

// rulebook compiles each policy once.
type rulebook struct {
	policies Policies
	pages    map[string]page
	all      []*harness.Rules // once asked for
}

// page is what is kept under one digest.
type page struct {
	rules *harness.Rules // nil where they cannot be used
	why   string         // they cannot
	got   string         // the digest of what is kept there, where that is something else
}

func newRulebook(p Policies) *rulebook {
	return &rulebook{policies: p, pages: make(map[string]page)}
}

// of gives what is kept under a digest.
func (b *rulebook) of(ctx context.Context, digest string) (page, error) {
	if known, ok := b.pages[digest]; ok {
		return known, nil
	}
	if !stream.ValidDigest(digest) {
		return page{why: "its digest is none: want sha256: and 64 hexadecimal digits"}, nil
	}
	content, err := b.policies.Get(ctx, digest)
	if err != nil && !errors.Is(err, stream.ErrNotFound) {
		return page{}, fmt.Errorf("policy %s: %w", digest, err)
	}
	var p page
	got := events.DigestBytes(content)
	switch parsed, parseErr := policy.Parse(digest, content); {
	case err != nil:
		p.why = "POLICIES does not have it"
	case got != digest:
		p.why, p.got = "POLICIES has something else under its digest", got
	case parseErr != nil:
		p.why = fmt.Sprintf("this version cannot read it: %v", parseErr)
	default:
		p.rules = RulesOf(parsed)
	}
	b.pages[digest] = p
	return p, nil
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
		p, err := b.of(ctx, digest)
		if err != nil {
			return nil, err
		}
		if p.rules != nil {
			b.all = append(b.all, p.rules)
		}
	}
	return b.all, nil
}

// rulesOf gives the rules of the run that began with that fact, nil if they
// cannot be had: whoever cannot show the rules cannot show that they were kept.
func (v *verifier) rulesOf(ctx context.Context, digest string, began Difference) (*harness.Rules, error) {
	p, err := v.book.of(ctx, digest)
	if err != nil || p.rules != nil || v.policies[digest] {
		return p.rules, err
	}
	v.policies[digest] = true
	began.What, began.Why = OtherPolicy, fmt.Sprintf("the run began with policy %.100q, and %s", digest, p.why)
	if p.got != "" {
		began.Fields = []Field{{"policy", digest, p.got}}
	}
	v.differ(began)
	return nil, nil
}

// everyRules gives the rules of all policies that there are, and names those
// that are not what their digest says.
func (v *verifier) everyRules(ctx context.Context) ([]*harness.Rules, error) {
	all, err := v.book.every(ctx)
	if err != nil {
		return nil, err
	}
	for _, digest := range slices.Sorted(maps.Keys(v.book.pages)) {
		p := v.book.pages[digest]
		if p.got == "" || v.policies[digest] {
			continue
		}
		v.policies[digest] = true
		v.differ(Difference{What: OtherPolicy, Why: p.why, Fields: []Field{{"policy", digest, p.got}}})
	}
	return all, nil
}

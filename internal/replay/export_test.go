package replay

import (
	"context"
	"time"
)

// SetPatience changes for how long messages are waited for.
func (s *JetStream) SetPatience(d time.Duration) { s.patience = d }

// VerifyAndCount verifies, and gives how many runs and events are still held
// when all has been read.
func VerifyAndCount(ctx context.Context, cfg VerifyConfig) (report *Report, runs, rest, events int, err error) {
	v, err := newVerifier(cfg)
	if err != nil {
		return nil, 0, 0, 0, err
	}
	err = v.verify(ctx, func(ctx context.Context) error {
		runs, rest = len(v.runs), v.resting.Len()
		for _, waiting := range v.in.pending {
			events += len(waiting)
		}
		return v.finish(ctx)
	})
	return &v.report, runs, rest, events, err
}

// Book keeps compiled policies over many verifications of the same recording.
type Book struct{ book *rulebook }

// NewBook keeps what it compiles of these policies.
func NewBook(p Policies) *Book { return &Book{newRulebook(p)} }

// VerifyBy is Verify with policies that are compiled already.
func VerifyBy(ctx context.Context, cfg VerifyConfig, b *Book) (*Report, error) {
	v, err := newVerifier(cfg)
	if err != nil {
		return nil, err
	}
	v.book = b.book
	err = v.verify(ctx, v.finish)
	return &v.report, err
}

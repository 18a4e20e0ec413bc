package processor

import (
	"context"
	"errors"
	"fmt"

	"runledger/internal/harness"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors of the server for a message that is larger than it takes: the whole,
// and its headers.
const (
	codeMessageTooLarge jetstream.ErrorCode = 10054
	codeHeaderTooLarge  jetstream.ErrorCode = 10097
)

// tooLarge reports whether a message can never be stored as it is.
func tooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) ||
		errors.As(err, &api) && (api.ErrorCode == codeMessageTooLarge || api.ErrorCode == codeHeaderTooLarge)
}

// oversized handles an answer of a chain that is too large: a dead letter is
// kept without its body, a fact cannot be, and gives its run up.
func (b *batch) oversized(ctx context.Context, c *chain, p *publication, err error) error {
	if p.fact != nil {
		b.poisonChain(c, harness.ReasonBrokenInvariant, fmt.Errorf("%s does not fit into a message: %w", p.fact.Kind(), err))
		return nil
	}
	switch err := b.storeSmaller(ctx, p, err); {
	case err == nil:
		b.w.cfg.Metrics.stored(p)
	case !errors.Is(err, stream.ErrStale):
		return err
	}
	c.answered(p)
	return nil
}

// storeSmaller keeps a dead letter without the event's own headers and body,
// which IN has. A dispatch that is too large is not made: its call times out.
func (b *batch) storeSmaller(ctx context.Context, p *publication, tooLarge error) error {
	if p.dispatched != "" {
		b.w.cfg.Log.Error().Err(tooLarge).Str("subject", p.msg.Subject).
			Msg("a dispatch does not fit into a message; the call will time out. Lower bytes.request of the policy, or raise max_payload of the server")
		return stream.ErrStale // as good as made: nobody may try again
	}
	m := b.message(p.sequence)
	header := nats.Header{HeaderOmitted: []string{fmt.Sprint(len(m.Data))}}
	b.explain(header, m, p.reason, p.detail)
	small := &nats.Msg{Subject: p.msg.Subject, Header: header}
	_, err := b.w.cfg.Publisher.Publish(small, p.expect).Wait(ctx)
	return err // whoever called counts it
}

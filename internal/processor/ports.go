package processor

import (
	"context"

	"runledger/internal/harness"
	"runledger/internal/store"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// Reader gives the events of one partition, in order and without a gap.
type Reader interface {
	Next(ctx context.Context, max int) ([]stream.Message, error)
}

// Publisher stores messages under an expectation, without waiting.
type Publisher interface {
	Publish(msg *nats.Msg, expect stream.Expect) Pending
}

// Pending is a publish that may not have been answered yet.
type Pending interface {
	Wait(ctx context.Context) (sequence uint64, err error)
}

// History reads what the streams hold.
type History interface {
	Last(ctx context.Context, filter string) (*stream.Message, error)
	From(ctx context.Context, filter string, sequence uint64, fn func(stream.Message) error) error
	Inbound(ctx context.Context, sequence uint64) (stream.Message, error)
}

// Store is the projection of the facts.
type Store interface {
	LoadRuns(ctx context.Context, runIDs []string) ([]*harness.Run, []error)
	Load(ctx context.Context, refs []store.Ref) ([]store.Loaded, error)
	Completed(ctx context.Context, runID string) ([]harness.Record, error)
	Project(ctx context.Context, projections []store.Projection) []error
}

// Position is where a partition stands: everything up to it is decided,
// projected and dispatched.
type Position interface {
	Move(ctx context.Context, position uint64) error
}

// Policies gives the bytes of a policy by digest.
type Policies interface {
	Get(ctx context.Context, digest string) ([]byte, error)
}

// NewPublisher adapts the stream's publisher.
func NewPublisher(p *stream.Publisher) Publisher { return publisher{p} }

type publisher struct{ p *stream.Publisher }

func (p publisher) Publish(msg *nats.Msg, expect stream.Expect) Pending {
	return p.p.Publish(msg, expect)
}

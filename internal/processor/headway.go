package processor

import (
	"context"
	"errors"
	"time"

	"runledger/internal/stream"

	"github.com/rs/zerolog"
)

// headway is how far a partition is, and how far its position tells that.
type headway struct {
	position Position
	log      zerolog.Logger

	reached, told uint64    // sequences of IN
	since         time.Time // when reached went ahead of told
}

// done notes that everything up to the sequence is decided, projected and
// dispatched.
func (h *headway) done(sequence uint64) {
	if h.reached == h.told {
		h.since = time.Now()
	}
	h.reached = sequence
}

// due is when the position shall move; zero where it tells all there is.
func (h *headway) due() time.Time {
	if h.reached == h.told {
		return time.Time{}
	}
	return h.since.Add(moveEvery)
}

// move moves the position if that is due. The error says that the partition is
// no longer ours; of others the next move makes up.
func (h *headway) move(ctx context.Context) error {
	if h.reached == h.told || time.Now().Before(h.due()) {
		return nil
	}
	switch err := h.position.Move(ctx, h.reached); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, stream.ErrLeaseLost):
		return err
	case err != nil:
		h.log.Warn().Err(err).Msg("position not moved")
		h.since = time.Now()
	default:
		h.told = h.reached
	}
	return nil
}

// handOver tells the position once more, so that the next owner reads nothing
// again. Where that fails he does, and no harm is done.
func (h *headway) handOver(ctx context.Context) {
	if h.reached == h.told {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = h.position.Move(last, h.reached)
}

package replay

import (
	"context"
	"time"

	"runledger/internal/stream"
)

// Cursor reads messages of a stream, in order.
type Cursor interface {
	// Next gives the next messages, none at the end.
	Next(ctx context.Context) ([]stream.Message, error)
	Close()
}

// Streams is what a verification reads.
type Streams interface {
	// Facts reads RUNS and Events reads IN, from one sequence to another, both
	// included. What one of the two leaves out as it belongs to another run, the
	// other leaves out too.
	Facts(ctx context.Context, from, to uint64) (Cursor, error)
	Events(ctx context.Context, from, to uint64) (Cursor, error)
	// Event reads one message of IN; the error is stream.ErrNotFound where it is
	// not there (any more).
	Event(ctx context.Context, sequence uint64) (stream.Message, error)
	// EventsKept gives the first sequence that IN has now: what was before it has
	// aged out.
	EventsKept(ctx context.Context) (uint64, error)
	// Said calls fn for each message of RUNS about one run that has a sequence
	// below before, in order: its facts, and the answers outside its history.
	Said(ctx context.Context, run string, before uint64, fn func(stream.Message) error) error
	// DeadLetter reads the message of INVALID on that subject, nil if there is
	// none, and Letters all that there are.
	DeadLetter(ctx context.Context, subject string) (*stream.Message, error)
	Letters(ctx context.Context) (Cursor, error)
	// Dispatches reads DISPATCH as Facts reads RUNS.
	Dispatches(ctx context.Context, from, to uint64) (Cursor, error)
	// First gives the first message of a stream under a filter of subjects, nil if
	// there is none.
	First(ctx context.Context, name, filter string) (*stream.Message, error)
}

// Policies gives the bytes of policies by digest, and all digests that there are.
type Policies interface {
	Get(ctx context.Context, digest string) ([]byte, error)
	Digests(ctx context.Context) ([]string, error)
}

// Stretch is which part of the streams is replayed, as it stood at one instant:
// positions were read first, then the ends of RUNS, then those of IN. So every
// event up to a position has all its facts in the stretch, and every fact its
// event.
type Stretch struct {
	// From is the first event of IN that is decided again. Facts of earlier ones
	// only build state, but for those from FactsJudged of RUNS on: these belong to
	// the stretch, whatever event they name.
	From, FactsJudged uint64
	// FactsFrom and FactsTo are the first and the last message of RUNS to read.
	FactsFrom, FactsTo uint64
	// FactsEnd is the highest sequence that RUNS has given out, whether or not
	// that message is there.
	FactsEnd uint64
	// EventsTo is the last message of IN to read, and EventsEnd is what FactsEnd is
	// for RUNS; 0 where it is not known.
	EventsTo, EventsEnd uint64
	// Whole says that all messages of the stretch are read, whatever run they are
	// about: a sequence that is left out is that of a message that is gone.
	Whole bool
	// FactsKept is the first message that RUNS still has; what was before it has
	// aged out. FactsKeptAt is when it was stored.
	FactsKept   uint64
	FactsKeptAt time.Time
	// LettersLost says that INVALID no longer has its first messages: they have aged
	// out, or an operator has purged them. LettersKeptAt is when the first one that
	// it has was stored, zero if it has none.
	LettersLost   bool
	LettersKeptAt time.Time
	// Dispatches says which part of DISPATCH belongs to the stretch; nil where
	// nothing is looked at.
	Dispatches *DispatchStretch
	// Positions up to which each partition is decided. One that is missing is
	// not known, and nothing of it counts as decided.
	Positions map[int]uint64
}

// DispatchStretch is which part of DISPATCH is compared. It was looked at after
// the positions and before RUNS.
type DispatchStretch struct {
	From, To uint64
	// KeptAt is when its first message was stored, where older ones have aged out;
	// else zero.
	KeptAt time.Time
	// At is when that was. A call with a later deadline may still be run.
	At time.Time
	// Largest message that the server takes, in bytes: no dispatch is made that is
	// larger. 0 is not known.
	Largest int64
}

// Since is where a replay begins. The zero value is the beginning.
type Since struct {
	Time  time.Time // from what was stored then; zero where Event says it
	Event uint64    // from that sequence of IN
}

package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"runledger/internal/events"
)

// What a caller tells apart. Everything that is none of these is a fault of the
// call itself. Texts are for operators; none holds a key or a value.
var (
	// ErrUnavailable says that the store could not answer, or not write: it
	// cannot be reached, loads, fails over, is out of memory or time. A command
	// may have run all the same. Hold, and try again later.
	ErrUnavailable = errors.New("store unavailable")

	// ErrConflict concerns one run alone: its keys hold something else than the
	// run's facts say, or what was to be written does not hold together. Trying
	// again does not help.
	ErrConflict = errors.New("store conflict")

	// ErrBehind says that the store stands before the fact from which it was to
	// go on; see [BehindError].
	ErrBehind = errors.New("store is behind")
)

// BehindError says that the store has lost writes and where it stands now, 0
// for nowhere. The caller loads the run again and projects from there. It is
// ErrBehind.
type BehindError struct{ At uint64 }

// Error implements error.
func (e *BehindError) Error() string {
	return "store is behind: it stands at fact " + strconv.FormatUint(e.At, 10) + ", so load the run again and project from there"
}

// Is implements the comparison with [ErrBehind].
func (e *BehindError) Is(target error) bool { return target == ErrBehind }

// classify tells what an error of the client or the server means. Only what is
// known to concern one run is held against that run.
func classify(err error) error {
	if err == nil {
		return nil
	}
	// The server repeats arguments of a command that it does not know.
	if text, _, cut := strings.Cut(err.Error(), ", with args beginning with"); cut {
		err = errors.New(text)
	}
	if strings.Contains(err.Error(), "WRONGTYPE") {
		return conflict("a key of the run holds another type")
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func conflict(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConflict}, args...)...)
}

// answer reads the reply of the script.
func answer(reply string) error {
	word, rest, _ := strings.Cut(reply, " ")
	switch word {
	case "DONE", "PAST", replyExpired:
		return nil
	case "BEHIND":
		at, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			return conflict("field sequence of the run: want a number")
		}
		return &BehindError{At: at}
	case "LOST":
		return &BehindError{}
	case "CONFLICT":
		return conflict("the store holds %s", rest)
	case "VERSION":
		return checkVersion(rest)
	}
	return fmt.Errorf("%w: unexpected reply of the script", ErrUnavailable)
}

// replyExpired is the script's reply where the run has expired already.
const replyExpired = "EXPIRED"

// layoutVersion is the version of keys and fields that this program writes.
const layoutVersion = "1"

func checkVersion(v string) error {
	if v == layoutVersion {
		return nil
	}
	if version, err := strconv.ParseUint(v, 10, 32); err == nil && version > 1 {
		return fmt.Errorf("layout of the store: want version %s, got %d: %w", layoutVersion, version, events.ErrNewer)
	}
	return conflict("field v: want version %s", layoutVersion)
}

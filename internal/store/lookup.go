package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"runledger/internal/harness"

	"github.com/redis/go-redis/v9"
)

// Ref names a record, by ToolCallID, or a model operation, by OperationID:
// exactly one of them.
type Ref struct{ RunID, ToolCallID, OperationID string }

// Loaded is a record without bytes or a model operation, nil if the store has
// none, and the fact at which its run stood in the store right after it was read
// (0 if it has no such run). A caller that finds its run elsewhere cannot
// conclude anything from what is not there.
type Loaded struct {
	Record      *harness.Record
	Operation   *harness.ModelOperation
	RunSequence uint64

	// ErrConflict or events.ErrNewer, of this run alone; or ErrBehind, where the
	// store has lost the record or operations of the run, so that it cannot say
	// that there was none: the run must then be written anew from its facts.
	Err error
}

// Load reads records and operations, in one pipeline. An id that none can have
// has none. The error is ErrUnavailable, and then nothing else counts.
func (s *Store) Load(ctx context.Context, refs []Ref) ([]Loaded, error) {
	loaded, lookups := make([]Loaded, len(refs)), make([]lookup, len(refs))
	cmds := make([]redis.Cmder, 0, 2*len(refs))
	for i, ref := range refs {
		if lookups[i], loaded[i].Err = s.lookup(ctx, ref); loaded[i].Err == nil {
			cmds = lookups[i].appendTo(cmds)
		}
	}
	s.send(ctx, cmds...)
	for i, ref := range refs {
		if loaded[i].Err == nil {
			loaded[i] = lookups[i].answer(ref)
		}
		if err := loaded[i].Err; errors.Is(err, ErrUnavailable) {
			return nil, err
		}
	}
	return loaded, nil
}

// lookup is the commands for one ref, in the order in which they are sent; those
// that it does not need are nil.
type lookup struct {
	record    *redis.SliceCmd
	used      *redis.StringCmd // the reservation that used the record's id
	operation *redis.SliceCmd
	run       *redis.SliceCmd
	held      *redis.IntCmd // how many fields the run's operations and ids have together
}

func (s *Store) lookup(ctx context.Context, ref Ref) (lookup, error) {
	keys, err := s.keys.of(ref.RunID)
	if err == nil && (ref.ToolCallID == "") == (ref.OperationID == "") {
		err = errors.New("want the id of a tool call or that of an operation, one of them")
	}
	if err != nil {
		return lookup{}, conflict("load: %w", err)
	}
	var k lookup
	if key, err := s.keys.record(ref.RunID, ref.ToolCallID); err == nil {
		k.record = lightRecord(ctx, key)
		k.used = redis.NewStringCmd(ctx, "HGET", keys.ops, callField(ref.ToolCallID))
	}
	if validOperationID(ref.OperationID) {
		names := operationFields(ref.OperationID)
		k.operation = redis.NewSliceCmd(ctx, "HMGET", keys.ops, names[0], names[1], names[2])
	}
	k.run = redis.NewSliceCmd(ctx, "HMGET", keys.run, "v", "sequence", "ops")
	k.held = redis.NewIntCmd(ctx, "HLEN", keys.ops) // after the run says how many, so that they are not fewer
	return k, nil
}

func (k lookup) appendTo(cmds []redis.Cmder) []redis.Cmder {
	if k.record != nil {
		cmds = append(cmds, k.used, k.record) // a reservation in between brings both
	}
	if k.operation != nil {
		cmds = append(cmds, k.operation)
	}
	return append(cmds, k.run, k.held)
}

func (k lookup) answer(ref Ref) (l Loaded) {
	if l.RunSequence, l.Err = sequenceOf(k.run); l.Err != nil {
		return l
	}
	if k.record != nil {
		l.Record, l.Err = k.recordOf(ref)
	}
	if k.operation != nil {
		l.Operation, l.Err = k.operationOf(ref.OperationID)
	}
	return l
}

// complete reports whether the operations and ids of the run are all there.
func (k lookup) complete() error {
	held, err := k.held.Result()
	if err != nil {
		return classify(err)
	}
	want, err := counted(k.run.Val(), "ops")
	if err != nil {
		return err
	}
	if held < want {
		return lost("operations and ids of the run")
	}
	return nil
}

// recordOf reads a record. One that is not there although a reservation used
// its id was lost: the store never says that an id is free because of that.
func (k lookup) recordOf(ref Ref) (*harness.Record, error) {
	record, err := recordOf(k.record, ref.RunID, ref.ToolCallID)
	if err != nil || record != nil {
		return record, err
	}
	switch err := k.used.Err(); {
	case errors.Is(err, redis.Nil):
		return nil, k.complete()
	case err != nil:
		return nil, classify(err)
	}
	return nil, lost("a record of the run")
}

// lost says that the store has lost something of a run, which must be written
// anew from its facts.
func lost(what string) error {
	return fmt.Errorf("the store has lost %s: %w", what, &BehindError{})
}

func (k lookup) operationOf(id string) (*harness.ModelOperation, error) {
	values, err := k.operation.Result()
	if err != nil {
		return nil, classify(err)
	}
	if err := k.complete(); err != nil {
		return nil, err
	}
	return decodeOperation(values, id)
}

func lightRecord(ctx context.Context, key string) *redis.SliceCmd {
	args := make([]any, 0, 2+len(lightNames))
	args = append(args, "HMGET", key)
	for _, name := range lightNames {
		args = append(args, name)
	}
	return redis.NewSliceCmd(ctx, args...)
}

func recordOf(cmd *redis.SliceCmd, runID, toolCallID string) (*harness.Record, error) {
	values, err := cmd.Result()
	if err != nil {
		return nil, classify(err)
	}
	return decodeLight(values, runID, toolCallID)
}

// sequenceOf reads a run's version and sequence, 0 where there is no run.
func sequenceOf(cmd *redis.SliceCmd) (uint64, error) {
	values, err := cmd.Result()
	if err != nil {
		return 0, classify(err)
	}
	version, present := values[0].(string)
	if !present {
		return 0, nil
	}
	if err := checkVersion(version); err != nil {
		return 0, err
	}
	text, _ := values[1].(string)
	sequence, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, conflict("field sequence of the run: %w", errNumber)
	}
	return sequence, nil
}

// counted reads a count that follows a run's version and sequence, 0 where there
// is none.
func counted(values []any, name string) (int64, error) {
	text, _ := values[2].(string)
	count, err := strconv.ParseInt("0"+text, 10, 64)
	if err != nil {
		return 0, conflict("field %s of the run: %w", name, errNumber)
	}
	return count, nil
}

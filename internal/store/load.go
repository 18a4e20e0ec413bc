package store

import (
	"context"

	"runledger/internal/harness"
	"runledger/internal/progress"

	"github.com/redis/go-redis/v9"
)

// LoadRuns reads runs, in one pipeline: for each the run, nil if the store has
// none, or an error (ErrConflict, events.ErrNewer, ErrUnavailable). A run comes
// with its open calls, without bytes, as it was at one instant.
func (s *Store) LoadRuns(ctx context.Context, runIDs []string) ([]*harness.Run, []error) {
	runs, errs := make([]*harness.Run, len(runIDs)), make([]error, len(runIDs))
	answers := make([]*redis.MapStringStringCmd, len(runIDs))
	cmds := make([]redis.Cmder, 0, len(runIDs))
	for i, id := range runIDs {
		keys, err := s.keys.of(id)
		if err != nil {
			errs[i] = conflict("load: %w", err)
			continue
		}
		answers[i] = redis.NewMapStringStringCmd(ctx, "HGETALL", keys.run)
		cmds = append(cmds, answers[i])
	}
	s.send(ctx, cmds...)
	for i, answer := range answers {
		if answer == nil {
			continue
		}
		hash, err := answer.Result()
		if errs[i] = classify(err); errs[i] == nil {
			runs[i], errs[i] = decodeRun(hash, runIDs[i])
		}
	}
	return runs, errs
}

// Record reads one record with all its bytes, nil if the store has none. The
// error is ErrConflict, events.ErrNewer or ErrUnavailable.
func (s *Store) Record(ctx context.Context, runID, toolCallID string) (*harness.Record, error) {
	key, err := s.keys.record(runID, toolCallID)
	if err != nil {
		return nil, nil //nolint:nilerr // an id that no key can hold has no record
	}
	cmd := redis.NewMapStringStringCmd(ctx, "HGETALL", key)
	s.send(ctx, cmd)
	hash, err := cmd.Result()
	if err != nil || len(hash) == 0 {
		return nil, classify(err)
	}
	return decodeRecord(recordFields, hash["v"], runID, toolCallID, func(_ int, name string) string { return hash[name] })
}

const (
	listPiece   = 1000 // identities in one read of the list
	recordPiece = 200  // records in one pipeline
)

// Completed reads all settled calls of a run, without bytes, in order of
// reservation. A call whose record is not there (any more) comes with RunID,
// ToolCallID and Call alone. The error is ErrConflict, events.ErrNewer,
// ErrUnavailable, or a *BehindError where the store has lost the run or a part
// of its list: it must then be projected first. After the run's ExpiresAt there
// is nothing to read, and that is no loss; a caller does not ask then.
func (s *Store) Completed(ctx context.Context, runID string) ([]harness.Record, error) {
	keys, err := s.keys.of(runID)
	if err != nil {
		return nil, conflict("load: %w", err)
	}
	identities, err := s.identities(ctx, keys)
	if err != nil {
		return nil, err
	}
	records := make([]harness.Record, 0, len(identities))
	for len(identities) > 0 {
		n := min(recordPiece, len(identities))
		if records, err = s.resolve(ctx, records, runID, identities[:n]); err != nil {
			return nil, err
		}
		identities = identities[n:]
	}
	return records, nil
}

// identities reads the run's list, which must be at least as long as the run
// says.
func (s *Store) identities(ctx context.Context, keys runKeys) ([]progress.Identity, error) {
	head := redis.NewSliceCmd(ctx, "HMGET", keys.run, "v", "sequence", "done")
	piece := listed(ctx, keys.done, 0)
	s.send(ctx, head, piece)
	sequence, err := sequenceOf(head)
	if err != nil {
		return nil, err
	}
	var tracker progress.Tracker
	read := 0
	for {
		entries, err := piece.Result()
		if err != nil {
			return nil, classify(err)
		}
		for _, entry := range entries {
			identity, err := progress.ParseIdentity(entry)
			if err != nil {
				return nil, conflict("the list of completed calls: %w", err)
			}
			tracker.Complete(identity)
		}
		if read += len(entries); len(entries) < listPiece {
			break
		}
		piece = listed(ctx, keys.done, read)
		s.send(ctx, piece)
	}
	want, err := counted(head.Val(), "done")
	if err != nil {
		return nil, err
	}
	if sequence == 0 || int64(read) < want {
		return nil, &BehindError{}
	}
	return tracker.Completed(), nil
}

func listed(ctx context.Context, key string, from int) *redis.StringSliceCmd {
	return redis.NewStringSliceCmd(ctx, "LRANGE", key, from, from+listPiece-1)
}

// resolve appends the records of the identities.
func (s *Store) resolve(ctx context.Context, to []harness.Record, runID string, identities []progress.Identity) ([]harness.Record, error) {
	answers := make([]*redis.SliceCmd, len(identities))
	cmds := make([]redis.Cmder, len(identities))
	for i, identity := range identities {
		key, err := s.keys.record(runID, identity.ToolCallID)
		if err != nil {
			return nil, conflict("the list of completed calls: %w", err)
		}
		answers[i] = lightRecord(ctx, key)
		cmds[i] = answers[i]
	}
	s.send(ctx, cmds...)
	for i, identity := range identities {
		record, err := recordOf(answers[i], runID, identity.ToolCallID)
		switch {
		case err != nil:
			return nil, err
		case record == nil:
			record = &harness.Record{RunID: runID, ToolCallID: identity.ToolCallID, Call: identity.Call}
		case record.Call != identity.Call:
			return nil, conflict("the record of another reservation")
		}
		to = append(to, *record)
	}
	return to, nil
}

package store

import (
	"fmt"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// keys builds every key name, and is the only place that does.
type keys struct {
	prefix  string
	records harness.ToolCallKeyFactory
}

func newKeys(prefix string, allowColon bool) (keys, error) {
	records, err := harness.NewToolCallKeyFactory(prefix, allowColon)
	if err != nil {
		return keys{}, err
	}
	return keys{prefix: prefix, records: records}, nil
}

// runKeys are the keys of one run beside its records. No record's key looks
// like them, whatever its call is called: after the prefix, which has no dot,
// it goes on with a colon.
type runKeys struct{ run, done, ops string }

func (k keys) of(runID string) (runKeys, error) {
	if !events.ValidName(runID) {
		return runKeys{}, fmt.Errorf("run id: want 1 to 128 of A-Z a-z 0-9 _ -, got %d bytes of something else", len(runID))
	}
	return k.tagged(runID), nil
}

func (k keys) tagged(tag string) runKeys {
	return runKeys{
		run: k.prefix + ".run:{" + tag + "}", done: k.prefix + ".done:{" + tag + "}", ops: k.prefix + ".ops:{" + tag + "}",
	}
}

func (k keys) record(runID, toolCallID string) (string, error) {
	return k.records.Key(runID, toolCallID)
}

// canary gives keys of a run that no run can have: its name has a dot.
func (k keys) canary(token string) (run runKeys, record string) {
	tag := ".canary-" + token
	return k.tagged(tag), k.prefix + ":{" + tag + "}:canary"
}

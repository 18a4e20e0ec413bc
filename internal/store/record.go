package store

import (
	"fmt"
	"slices"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// recordFields are the fields of a canonical record: those that its reservation
// brings, and those that its settlement does. The complete texts come last.
//
//nolint:gochecknoglobals // a table that nothing changes
var recordFields = slices.Concat(
	[]field[harness.Record]{
		{"run", onCreate, func(r *harness.Record) any { return &r.RunID }},
		{"id", onCreate, func(r *harness.Record) any { return &r.ToolCallID }},
		{"call", onCreate, func(r *harness.Record) any { return &r.Call }},
		{"tool", onCreate, func(r *harness.Record) any { return &r.Tool }},
		{"executor", onCreate, func(r *harness.Record) any { return &r.Executor }},
		{"reserved_at", onCreate, func(r *harness.Record) any { return &r.ReservedAt }},
		{"deadline", onCreate, func(r *harness.Record) any { return &r.Deadline }},
		{"expires_at", onCreate, func(r *harness.Record) any { return &r.ExpiresAt }},
		{"request_bytes", onCreate, func(r *harness.Record) any { return &r.RequestBytes }},
		{"request_digest", onCreate, func(r *harness.Record) any { return &r.RequestDigest }},
		{"arguments_digest", onCreate, func(r *harness.Record) any { return &r.ArgumentsDigest }},
	},
	causeFields("cause.", onCreate, func(r *harness.Record) *events.Cause { return &r.Cause }),
	[]field[harness.Record]{
		{"status", always, func(r *harness.Record) any { return (*string)(&r.Status) }},
		{"evidence", onChange, func(r *harness.Record) any { return (*string)(&r.Evidence) }},
		{"code", onChange, func(r *harness.Record) any { return (*string)(&r.Code) }},
		{"settled_at", onChange, func(r *harness.Record) any { return &r.SettledAt }},
		{"raw_bytes", onChange, func(r *harness.Record) any { return &r.RawBytes }},
		{"raw_digest", onChange, func(r *harness.Record) any { return &r.RawDigest }},
		{"raw_stored", onChange, func(r *harness.Record) any { return &r.RawStored }},
	},
	causeFields("result_cause.", onChange, func(r *harness.Record) *events.Cause { return &r.ResultCause }),
	[]field[harness.Record]{
		{"request", onCreate, func(r *harness.Record) any { return &r.Request }},
		{"raw_response", onChange, func(r *harness.Record) any { return &r.RawResponse }},
		{"agent_result", onChange, func(r *harness.Record) any { return &r.AgentResult }},
	},
)

// lightFields are the record's fields without the complete texts.
//
//nolint:gochecknoglobals // a table that nothing changes
var lightFields = recordFields[:len(recordFields)-3]

// lightNames are what a light load asks for: the version, then lightFields.
//
//nolint:gochecknoglobals // a table that nothing changes
var lightNames = func() []string {
	names := []string{"v"}
	for _, f := range lightFields {
		names = append(names, f.name)
	}
	return names
}()

// decodeLight reads the answer to a request for lightNames, nil where there is
// no record.
func decodeLight(values []any, runID, toolCallID string) (*harness.Record, error) {
	if len(values) != len(lightNames) {
		return nil, conflict("a record: want %d fields, got %d", len(lightNames), len(values))
	}
	if !slices.ContainsFunc(values, func(v any) bool { return v != nil }) {
		return nil, nil
	}
	version, _ := values[0].(string)
	return decodeRecord(lightFields, version, runID, toolCallID, func(i int, _ string) string {
		text, _ := values[i+1].(string)
		return text
	})
}

func decodeRecord(table []field[harness.Record], version, runID, toolCallID string, get func(int, string) string) (*harness.Record, error) {
	if err := checkVersion(version); err != nil {
		return nil, err
	}
	r := &harness.Record{}
	if err := decode(table, r, get); err != nil {
		return nil, conflict("a record: %w", err)
	}
	if r.RunID != runID || r.ToolCallID != toolCallID {
		return nil, conflict("a record that is not the one its key names")
	}
	if err := checkRecord(r); err != nil {
		return nil, conflict("a record: %w", err)
	}
	return r, nil
}

// checkRecord holds what every record has.
func checkRecord(r *harness.Record) error {
	switch r.Status {
	case events.StatusProjecting, events.StatusReady, events.StatusError:
	default:
		return fmt.Errorf("field status: want %s, %s or %s", events.StatusProjecting, events.StatusReady, events.StatusError)
	}
	if r.Call == 0 || r.ReservedAt.IsZero() || r.ExpiresAt.IsZero() {
		return fmt.Errorf("fields call, reserved_at, expires_at: want each to be there")
	}
	return nil
}

// encodeOpen writes an open call as the run keeps it: its light record, as a
// JSON object of texts.
func encodeOpen(r *harness.Record) ([]byte, error) {
	e := encoder{args: make([]any, 0, 2*len(lightFields))}
	encode(&e, lightFields, onCreate, r)
	return e.object(768)
}

func decodeOpen(text, runID string) (*harness.Record, error) {
	fields, err := parseObject(text)
	if err != nil {
		return nil, conflict("an open call: %w", err)
	}
	return decodeRecord(lightFields, layoutVersion, runID, fields["id"], func(_ int, name string) string { return fields[name] })
}

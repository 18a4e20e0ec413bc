package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// The fields of one model operation: its id, with what it came to, and its id
// and a suffix, with the events of its last attempt. No id holds a space, so no
// two operations share a field.
const (
	grantedSuffix  = " granted"
	reportedSuffix = " reported"
)

// callField is the field that says which reservation used a tool call id. It
// begins with a space, as no operation's does. A record that is gone before its
// time is thus told from one that never was.
func callField(toolCallID string) string { return " " + toolCallID }

// operationFields are the names that a load asks for.
func operationFields(id string) [3]string {
	return [3]string{id, id + grantedSuffix, id + reportedSuffix}
}

// operationCause are the parts of an event, as a JSON object has them.
//
//nolint:gochecknoglobals // a table that nothing changes
var operationCause = causeFields("", always, func(c *events.Cause) *events.Cause { return c })

// What the last attempt of an operation came to, as its field says it.
const (
	attemptOpen      = "OPEN"
	attemptSucceeded = string(events.AttemptSucceeded)
	attemptFailed    = string(events.AttemptFailed)
)

// operation adds the fields of one operation. An event that the caller does not
// know is left out: it stays as an earlier projection wrote it.
func (e *encoder) operation(op *harness.ModelOperation) {
	names := operationFields(op.ID)
	e.add(names[0], operationText(op))
	for i, cause := range []*events.Cause{&op.Granted, &op.Reported} {
		var fields encoder
		encode(&fields, operationCause, always, cause)
		if len(fields.args) == 0 {
			continue
		}
		object, err := fields.object(256)
		e.fail("event of a model operation", err)
		e.add(names[i+1], object)
	}
}

// operationText is the operation, its attempts, what the last one came to, and
// how it failed, where it did.
func operationText(op *harness.ModelOperation) string {
	words := []string{string(op.Operation), strconv.Itoa(op.Attempts), attemptFailed}
	switch {
	case op.Open:
		words[2] = attemptOpen
	case op.Succeeded:
		words[2] = attemptSucceeded
	}
	if op.Failure != "" {
		words = append(words, string(op.Failure))
	}
	return strings.Join(words, " ")
}

// decodeOperation reads the answer to a request for operationFields, nil where
// there is no such operation.
func decodeOperation(values []any, id string) (*harness.ModelOperation, error) {
	texts := [3]string{}
	if len(values) != len(texts) {
		return nil, conflict("a model operation: want %d fields, got %d", len(texts), len(values))
	}
	for i, value := range values {
		texts[i], _ = value.(string)
	}
	if texts == [3]string{} {
		return nil, nil
	}
	op := &harness.ModelOperation{ID: id}
	err := parseOperation(op, texts[0])
	if err == nil {
		err = checkOperation(op)
	}
	for i, cause := range []*events.Cause{&op.Granted, &op.Reported} {
		if err == nil && texts[i+1] != "" {
			err = parseCause(cause, texts[i+1])
		}
	}
	if err != nil {
		return nil, conflict("a model operation: %w", err)
	}
	return op, nil
}

func parseOperation(op *harness.ModelOperation, text string) error {
	words := strings.Split(text, " ")
	if len(words) != 3 && len(words) != 4 {
		return errors.New("want operation, attempts, state and perhaps a failure")
	}
	attempts, err := strconv.Atoi(words[1])
	if err != nil {
		return fmt.Errorf("attempts: %w", errNumber)
	}
	op.Operation, op.Attempts = events.Operation(words[0]), attempts
	switch words[2] {
	case attemptOpen:
		op.Open = true
	case attemptSucceeded:
		op.Succeeded = true
	case attemptFailed:
	default:
		return fmt.Errorf("state: want %s, %s or %s", attemptOpen, attemptSucceeded, attemptFailed)
	}
	if len(words) == 4 {
		op.Failure = events.FailureClass(words[3])
	}
	return nil
}

func parseCause(cause *events.Cause, text string) error {
	fields, err := parseObject(text)
	if err != nil {
		return err
	}
	return decode(operationCause, cause, func(_ int, name string) string { return fields[name] })
}

// checkOperation holds what every operation has.
func checkOperation(op *harness.ModelOperation) error {
	switch {
	case op.Operation == "" || op.Attempts < 1:
		return errors.New("want an operation with one attempt or more")
	case op.Open && op.Succeeded:
		return errors.New("want an attempt that is open or has succeeded, not both")
	case strings.Contains(string(op.Operation), " ") || strings.Contains(string(op.Failure), " "):
		return errors.New("want operation and failure without a space")
	}
	return nil
}

// validOperationID reports whether an operation can have that id. Whether it may
// hold a colon is not asked here: no key does.
func validOperationID(id string) bool { return harness.CheckToolCallID(id, true) == nil }

// checkOperations reports what does not hold together. Written anew, the
// attempts of all operations are the run's model calls.
func (p *Projection) checkOperations() error {
	seen := make(map[string]bool, len(p.Operations))
	attempts := int64(0)
	for i, op := range p.Operations {
		switch {
		case op == nil || !validOperationID(op.ID):
			return fmt.Errorf("operation %d: want an operation with an id that it can have", i)
		case seen[op.ID]:
			return fmt.Errorf("operation %d: want each operation once", i)
		}
		if err := checkOperation(op); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
		seen[op.ID] = true
		attempts += int64(op.Attempts)
	}
	if p.From == 0 && attempts != p.Run.Usage.ModelCalls {
		return fmt.Errorf("written anew: want every operation of the run, with %d attempts, got %d", p.Run.Usage.ModelCalls, attempts)
	}
	return nil
}

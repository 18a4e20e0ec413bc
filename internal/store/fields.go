package store

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"runledger/internal/events"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// field is one field of a hash and where its value lies in a T. A table of them
// is all there is to know of a hash, for writing and reading alike.
type field[T any] struct {
	name string
	part part
	at   func(*T) any // *string, *int, *int64, *uint64, *bool, *time.Time, *[]byte or a composite
}

// composite is a value of several parts that is written as one text, empty
// where there is none.
type composite interface {
	text() ([]byte, error)
	parse(text string) error // the error does not tell the text
}

// part says with which writes a field goes.
type part uint8

const (
	onCreate part = 1 << iota // when the hash is created
	onChange                  // with every later change
	onSettle                  // with a later change that settles a call
	always   = onCreate | onChange
)

// causeFields lists a cause, each name under a prefix.
func causeFields[T any](prefix string, when part, cause func(*T) *events.Cause) []field[T] {
	return []field[T]{
		{prefix + "id", when, func(t *T) any { return &cause(t).ID }},
		{prefix + "source", when, func(t *T) any { return &cause(t).Source }},
		{prefix + "sequence", when, func(t *T) any { return &cause(t).Sequence }},
		{prefix + "decision", when, func(t *T) any { return &cause(t).Decision }},
		{prefix + "traceparent", when, func(t *T) any { return &cause(t).Trace.Parent }},
		{prefix + "tracestate", when, func(t *T) any { return &cause(t).Trace.State }},
	}
}

// encoder collects the names and values of a hash, as arguments of a command.
type encoder struct {
	args []any
	err  error // the first value that cannot be written
}

func (e *encoder) add(name string, value any) { e.args = append(e.args, name, value) }

// encode adds the fields of the parts that are not zero. What it adds points to
// where the values lie, so they must stand until the command is sent.
func encode[T any](e *encoder, table []field[T], parts part, from *T) {
	for i := range table {
		if f := &table[i]; f.part&parts != 0 {
			if value := e.value(f.name, f.at(from)); value != nil {
				e.add(f.name, value)
			}
		}
	}
}

// value gives what to write for a value, nil where it is zero.
func (e *encoder) value(name string, at any) any {
	switch v := at.(type) {
	case *string:
		if *v != "" {
			return v
		}
	case *int:
		if *v != 0 {
			return v
		}
	case *int64:
		if *v != 0 {
			return v
		}
	case *uint64:
		if *v != 0 {
			return v
		}
	case *bool:
		if *v {
			return "1"
		}
	case *[]byte:
		if len(*v) > 0 {
			return *v
		}
	case *time.Time:
		if !v.IsZero() {
			return e.instant(name, *v)
		}
	case composite:
		text, err := v.text()
		e.fail(name, err)
		if len(text) > 0 {
			return text
		}
	default:
		panic(fmt.Sprintf("store: field %s has type %T", name, at))
	}
	return nil
}

// fail keeps the first error, and of which value it is.
func (e *encoder) fail(name string, err error) {
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("%s: %w", name, err)
	}
}

// object writes what has been added as a JSON object of texts, in up to room
// bytes without growing.
func (e *encoder) object(room int) ([]byte, error) {
	out, err := append(make([]byte, 0, room), '{'), e.err
	for i := 0; i < len(e.args) && err == nil; i += 2 {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = jsontext.AppendQuote(out, e.args[i].(string)); err == nil {
			out = append(out, ':')
			out, err = jsontext.AppendQuote(out, text(e.args[i+1]))
		}
	}
	return append(out, '}'), err
}

// text writes a value as the client does.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case *string:
		return *v
	case *int64:
		return strconv.FormatInt(*v, 10)
	case *uint64:
		return strconv.FormatUint(*v, 10)
	}
	panic(fmt.Sprintf("store: a field of an object is written as %T", value))
}

// instant gives Unix milliseconds. An instant with a finer part would not come
// back as it was, and decisions on it would differ.
func (e *encoder) instant(name string, t time.Time) int64 {
	if beyond := t.Nanosecond() % int(time.Millisecond); beyond != 0 {
		e.fail(name, fmt.Errorf("want whole milliseconds, got %d ns beyond", beyond))
	}
	return t.UnixMilli()
}

// decode reads the fields of a hash into a T; get gives a field's text, empty
// where there is none. The error names the field and not its value.
func decode[T any](table []field[T], to *T, get func(i int, name string) string) error {
	for i := range table {
		f := &table[i]
		if text := get(i, f.name); text != "" {
			if err := parse(f.at(to), text); err != nil {
				return fmt.Errorf("field %s: %w", f.name, err)
			}
		}
	}
	return nil
}

var (
	errNumber = errors.New("want a number")
	errFlag   = errors.New("want 1 or nothing")
	errObject = errors.New("want a JSON object of texts")
)

// parseObject reads what [encoder.object] writes.
func parseObject(text string) (map[string]string, error) {
	var fields map[string]string
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return nil, errObject
	}
	return fields, nil
}

func parse(at any, text string) error {
	var err error
	switch v := at.(type) {
	case *string:
		*v = text
	case *[]byte:
		*v = []byte(text)
	case *int:
		*v, err = strconv.Atoi(text)
	case *int64:
		*v, err = strconv.ParseInt(text, 10, 64)
	case *uint64:
		*v, err = strconv.ParseUint(text, 10, 64)
	case *time.Time:
		var ms int64
		ms, err = strconv.ParseInt(text, 10, 64)
		*v = time.UnixMilli(ms).UTC()
	case *bool:
		if *v = text == "1"; !*v {
			return errFlag
		}
	case composite:
		return v.parse(text)
	default:
		panic(fmt.Sprintf("store: a field has type %T", at))
	}
	if err != nil {
		return errNumber
	}
	return nil
}

// Package instance reads JSON documents for a JSON Schema validator and tells
// what the validator found wrong in words that are bounded and safe to log.
package instance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits on a document. A validator makes rational numbers of what it compares:
// one with an exponent of a million takes some 10 ms, and a larger one cannot
// be made at all.
const (
	MaxDepth    = 128  // levels of nesting, as for all inbound data
	MaxNumber   = 1024 // bytes of a number's literal
	MaxExponent = 1000 // of a number, either way
)

// Document is a JSON document as the validator takes it, numbers as they were
// written, with the counts by which its cost can be told in advance.
type Document struct {
	Value       any // nil, bool, string, json.Number, []any or map[string]any
	Values      int // JSON values in it, itself included
	StringBytes int // of all strings and member names
}

// Read reads one strict JSON value: UTF-8 without lone surrogates, member names
// unique, nothing after it. The error names the limit or the byte, and nothing
// of the content.
func Read(data []byte) (Document, error) {
	r := reader{dec: jsontext.NewDecoder(bytes.NewBuffer(data))}
	value, err := r.value()
	if err == nil {
		if _, end := r.dec.ReadToken(); errors.Is(end, io.EOF) {
			return Document{Value: value, Values: r.values, StringBytes: r.stringBytes}, nil
		}
		err = errSyntax
	}
	if limit := (*limitError)(nil); errors.As(err, &limit) {
		return Document{}, limit
	}
	at := r.dec.InputOffset()
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		at = syntax.ByteOffset
	}
	return Document{}, fmt.Errorf("JSON: want one value in UTF-8 with unique member names, got something else at byte %d", at)
}

var errSyntax = errors.New("more than one value")

type limitError struct{ text string }

func (e *limitError) Error() string { return "JSON: " + e.text }

func over(format string, args ...any) error {
	return &limitError{text: fmt.Sprintf(format, args...)}
}

type reader struct {
	dec         *jsontext.Decoder
	values      int
	stringBytes int
}

func (r *reader) value() (any, error) {
	r.values++
	token, err := r.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if r.dec.StackDepth() > MaxDepth {
		return nil, over("want at most %d levels, got more", MaxDepth)
	}
	switch token.Kind() {
	case '{':
		return r.object()
	case '[':
		return r.list()
	case '"':
		text := token.String()
		r.stringBytes += len(text)
		return text, nil
	case '0':
		return number(token.String())
	case 't', 'f':
		return token.Bool(), nil
	case 'n':
		return nil, nil
	}
	return nil, errSyntax
}

func (r *reader) object() (any, error) {
	object := map[string]any{}
	for r.dec.PeekKind() != '}' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		r.stringBytes += len(name)
		if object[name], err = r.value(); err != nil {
			return nil, err
		}
	}
	_, err := r.dec.ReadToken()
	return object, err
}

func (r *reader) list() (any, error) {
	list := []any{}
	for r.dec.PeekKind() != ']' {
		item, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	_, err := r.dec.ReadToken()
	return list, err
}

// number takes a literal that the validator can make a number of.
func number(literal string) (any, error) {
	if err := CheckNumber(literal); err != nil {
		return nil, err
	}
	return json.Number(literal), nil
}

// CheckNumber reports whether the literal of a JSON number is within the
// limits.
func CheckNumber(literal string) error {
	if len(literal) > MaxNumber {
		return over("want numbers of at most %d bytes, got one of %d", MaxNumber, len(literal))
	}
	at := strings.IndexAny(literal, "eE")
	if at < 0 {
		return nil
	}
	exponent, err := strconv.Atoi(literal[at+1:])
	if err != nil || exponent > MaxExponent || exponent < -MaxExponent {
		return over("want numbers with exponents from -%d to %d, got another", MaxExponent, MaxExponent)
	}
	return nil
}

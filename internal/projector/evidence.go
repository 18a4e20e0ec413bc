package projector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// strictValue gives the one JSON value of data without the white space around
// it. The error says where the data stop being strict JSON, and nothing of what
// stands there.
func strictValue(data []byte) (jsontext.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	value, err := dec.ReadValue()
	if err == nil {
		value = slices.Clone(value) // it is the decoder's until the next read
		if _, err = dec.ReadToken(); errors.Is(err, io.EOF) {
			return value, nil
		}
	}
	at := dec.InputOffset()
	if wrong := (*jsontext.SyntacticError)(nil); errors.As(err, &wrong) {
		at = wrong.ByteOffset
	}
	return nil, fmt.Errorf("want one JSON value in UTF-8 with unique member names, got something else at byte %d", at)
}

// parsedText looks into a JSON string: it gives the JSON value that its text
// is, if it is one.
func parsedText(value jsontext.Value) (jsontext.Value, bool) {
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return nil, false
	}
	inner, err := strictValue(text)
	return inner, err == nil
}

// isEmpty reports whether a strict JSON value is null, {}, [], a blank string,
// or a string whose text is one of those.
func isEmpty(value jsontext.Value) bool {
	if value.Kind() != '"' {
		return isEmptyShape(value)
	}
	if isBlank(value) {
		return true
	}
	inner, ok := parsedText(value)
	return ok && (isEmptyShape(inner) || isBlank(inner))
}

func isEmptyShape(value jsontext.Value) bool {
	switch value.Kind() {
	case 'n':
		return true
	case '{', '[':
		return len(bytes.TrimLeft(value[1:], " \t\r\n")) == 1
	}
	return false
}

func isBlank(value jsontext.Value) bool {
	if value.Kind() != '"' {
		return false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return err == nil && len(strings.TrimSpace(string(text))) == 0
}

// allEmpty reports whether there are paths for it and each is there and empty.
func (p *jsonProjector) allEmpty(value jsontext.Value) bool {
	for _, path := range p.whenEmpty {
		dec := jsontext.NewDecoder(bytes.NewBuffer(value), jsontext.AllowDuplicateNames(true))
		if !emptyAt(dec, path) {
			return false
		}
	}
	return len(p.whenEmpty) > 0
}

// emptyAt reads the next value and reports whether all that the path selects in
// it is there and empty. A list or an object over which the path spreads may
// itself have nothing in it.
func emptyAt(dec *jsontext.Decoder, p path) bool {
	if len(p) == 0 {
		value, err := dec.ReadValue()
		return err == nil && isEmpty(value)
	}
	kind := dec.PeekKind()
	if (kind != '[' || p[0].kind != stepItems) && (kind != '{' || p[0].kind == stepItems) {
		_ = dec.SkipValue() // the value is known to be JSON
		return false
	}
	_, _ = dec.ReadToken()
	result := p[0].kind != stepMember // a member must be there
	for k := dec.PeekKind(); k != '}' && k != ']' && k != jsontext.KindInvalid; k = dec.PeekKind() {
		if kind == '{' {
			name, _ := dec.ReadToken()
			if p[0].kind == stepMember && name.String() != p[0].name {
				_ = dec.SkipValue()
				continue
			}
		}
		empty := emptyAt(dec, p[1:])
		if p[0].kind == stepMember {
			result = empty
		} else {
			result = result && empty
		}
	}
	_, _ = dec.ReadToken()
	return result
}

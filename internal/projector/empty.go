package projector

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

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
	text, ok := textOf(value)
	return ok && strings.TrimSpace(text) == ""
}

// allEmpty reports whether there are paths and each is there and empty.
func allEmpty(value jsontext.Value, paths []path) bool {
	for _, p := range paths {
		if !emptyAt(again(value), p) {
			return false
		}
	}
	return len(paths) > 0
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

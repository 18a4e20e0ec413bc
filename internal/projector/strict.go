package projector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// strictValue gives the one JSON value of data without the white space around
// it; it shares the bytes of data. The error says where the data stop being
// strict JSON, and nothing of what stands there.
func strictValue(data []byte) (jsontext.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	value, err := nextValue(dec, data)
	if err == nil {
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

// nextValue reads the next value of data, as a part of data: what a decoder
// gives is its own until the next read.
func nextValue(dec *jsontext.Decoder, data []byte) (jsontext.Value, error) {
	value, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(dec.InputOffset())
	return data[end-len(value) : end : end], nil
}

// again reads a value that has been read once as strict JSON.
func again(value jsontext.Value) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(value), jsontext.AllowDuplicateNames(true))
}

// items gives the items of a list; null has none. The value is strict JSON.
func items(list jsontext.Value) iter.Seq2[int, jsontext.Value] {
	return func(yield func(int, jsontext.Value) bool) {
		if list.Kind() != '[' {
			return
		}
		dec := again(list)
		_, _ = dec.ReadToken()
		for i := 0; dec.PeekKind() != ']'; i++ {
			item, err := nextValue(dec, list)
			if err != nil || !yield(i, item) {
				return
			}
		}
	}
}

// members gives the names and values of an object. The value is strict JSON.
func members(object jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		if object.Kind() != '{' {
			return
		}
		dec := again(object)
		_, _ = dec.ReadToken()
		for dec.PeekKind() != '}' {
			token, err := dec.ReadToken()
			if err != nil {
				return
			}
			name := token.String()
			value, err := nextValue(dec, object)
			if err != nil || !yield(name, value) {
				return
			}
		}
	}
}

// at gives the value that a path of member names leads to.
func at(value jsontext.Value, p path) (jsontext.Value, bool) {
	for _, s := range p {
		found := false
		for name, member := range members(value) {
			if name == s.name {
				value, found = member, true
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	return value, true
}

// list finds the list that a path leads to. Without a path it is the response,
// or the member of that name of a response that is an object. null is a list of
// nothing, as many programs write it.
func list(value jsontext.Value, p path, name string) (found jsontext.Value, used path, err error) {
	where := "as the response or at " + name + " in it"
	if p != nil {
		where = "at " + p.String()
	} else if value.Kind() == '{' {
		p = path{{kind: stepMember, name: name}}
	}
	found, ok := at(value, p)
	if kind := found.Kind(); !ok || kind != '[' && kind != 'n' {
		return nil, nil, fmt.Errorf("raw response: want a list of %s %s, got none", name, where)
	}
	return found, p, nil
}

// others counts the values to which none of the paths of member names leads.
func others(value jsontext.Value, used []path) (n int64) {
	for name, member := range members(value) {
		var deeper []path
		end := false
		for _, p := range used {
			if p[0].name == name {
				end = end || len(p) == 1
				deeper = append(deeper, p[1:])
			}
		}
		switch {
		case end:
		case len(deeper) > 0 && member.Kind() == '{':
			n += others(member, deeper)
		default:
			n++
		}
	}
	return n
}

// textOf gives what a JSON string holds; false where the value is none.
func textOf(value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
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

// checkNumber bounds the literal of a number, which is copied as it is written.
func checkNumber(literal jsontext.Value) error {
	if len(literal) > maxNumber {
		return fmt.Errorf("raw response: want numbers of at most %d bytes, got one of %d", maxNumber, len(literal))
	}
	return nil
}

func isScalar(value jsontext.Value) bool { return value.Kind() != '{' && value.Kind() != '[' }

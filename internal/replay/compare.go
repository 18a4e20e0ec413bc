package replay

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"runledger/internal/events"
	"runledger/internal/stream"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// expectation is the fact that the rules give, as it would be stored.
type expectation struct {
	fact    *events.Fact
	subject string
	encoded events.Encoded
}

func expect(s events.Subjects, f *events.Fact) (*expectation, error) {
	encoded, err := f.Encode()
	if err != nil {
		return nil, err
	}
	return &expectation{fact: f, subject: f.Subject(s), encoded: encoded}, nil
}

// equals reports whether a stored message is exactly that fact: subject, every
// CloudEvents attribute and no other, and data.
func (e *expectation) equals(m *stream.Message) bool {
	if m.Subject != e.subject || !bytes.Equal(m.Data, e.encoded.Data) {
		return false
	}
	attributes := 0
	for name, values := range m.Header {
		if !isAttribute(name) {
			continue
		}
		attributes++
		want := e.encoded.Header[name]
		if len(want) != 1 || len(values) != 1 || want[0] != values[0] {
			return false
		}
	}
	return attributes == len(e.encoded.Header)
}

// isAttribute reports whether a header is part of the CloudEvent, and not one
// that NATS has added.
func isAttribute(header string) bool {
	return len(header) >= 3 && strings.EqualFold(header[:3], "ce-") || strings.EqualFold(header, "content-type")
}

// fields lists where a stored message is another than the fact, the subject
// first, then attributes and members of the data by name.
func (e *expectation) fields(m *stream.Message) []Field {
	var out []Field
	if m.Subject != e.subject {
		out = append(out, Field{"subject", shown(e.subject), shown(m.Subject)})
	}
	names := slices.Collect(maps.Keys(e.encoded.Header))
	for name := range m.Header {
		if _, both := e.encoded.Header[name]; !both && isAttribute(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		want, got := attributeText(e.encoded.Header[name]), attributeText(m.Header[name])
		if want != got {
			out = append(out, Field{strings.TrimPrefix(name, "ce-"), shown(want), shown(got)})
		}
	}
	if bytes.Equal(m.Data, e.encoded.Data) {
		return out
	}
	members := compareJSON("data", e.encoded.Data, m.Data)
	if len(members) == 0 { // the same values, written otherwise
		members = []Field{{"data", shown(string(e.encoded.Data)), shown(string(m.Data))}}
	}
	return append(out, members...)
}

// attributeText gives the values of a header as one text, decoded where they
// can be.
func attributeText(values []string) string {
	text := strings.Join(values, ", ")
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded
	}
	return text
}

// compareJSON lists the members in which two values differ, objects member by
// member.
func compareJSON(path string, want, got jsontext.Value) []Field {
	w, wantObject := members(want)
	g, gotObject := members(got)
	if !wantObject || !gotObject {
		if equalJSON(want, got) {
			return nil
		}
		return []Field{{path, shown(string(want)), shown(string(got))}}
	}
	names := slices.Collect(maps.Keys(w))
	for name := range g {
		if _, both := w[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []Field
	for _, name := range names {
		out = append(out, compareJSON(path+"."+name, w[name], g[name])...)
	}
	return out
}

func members(value jsontext.Value) (map[string]jsontext.Value, bool) {
	var object map[string]jsontext.Value
	if value.Kind() != '{' || json.Unmarshal(value, &object) != nil {
		return nil, false
	}
	return object, true
}

func equalJSON(a, b jsontext.Value) bool {
	x, y := a.Clone(), b.Clone()
	if x.Compact() != nil || y.Compact() != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x, y)
}

// describe names a fact in a sentence.
func describe(f *events.Fact) string {
	if f == nil {
		return "nothing"
	}
	if f.Sequence == 0 {
		return fmt.Sprintf("%s outside the history%s", f.Kind(), codeIn(f.Payload))
	}
	return fmt.Sprintf("fact %d (%s)%s", f.Sequence, f.Kind(), codeIn(f.Payload))
}

// codeIn adds the code of a refusal or an error.
func codeIn(payload events.Payload) string {
	code := ""
	switch p := payload.(type) {
	case *events.RunRejected:
		code = string(p.Code)
	case *events.ToolRejected:
		code = string(p.Code)
	case *events.ToolSettled:
		code = string(p.Code)
	case *events.ModelRejected:
		code = string(p.Code)
	case *events.ProgressInvalid:
		code = p.Code
	case *events.RunEnding:
		code = string(p.Outcome)
	default:
	}
	if code == "" {
		return ""
	}
	return " " + code
}

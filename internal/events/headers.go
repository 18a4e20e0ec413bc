package events

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	specVersion           = "1.0"
	contentTypeJSON       = "application/json"
	contentTypeStructured = "application/cloudevents+json"
	headerContentType     = "content-type"
	headerPrefix          = "ce-"
)

// Limits on what an inbound event may carry around its data, far above what a
// well-meant one has.
const (
	MaxHeaders        = 64
	MaxAttributeName  = 64
	MaxAttributeValue = 4096
	MaxDepth          = 128 // nesting of JSON in the data
)

// binaryHeader writes attributes as headers of the NATS protocol binding,
// binary content mode: "ce-" and the name, values percent-encoded.
func binaryHeader(attributes []Attribute) map[string][]string {
	header := make(map[string][]string, len(attributes))
	values := make([]string, len(attributes)) // one backing array for all
	for i, a := range attributes {
		values[i] = percentEncode(a.Value)
		header[headerPrefix+a.Name] = values[i : i+1 : i+1]
	}
	return header
}

// headerAttributes reads the CloudEvents attributes from headers, leniently in
// the names' case and with content-type standing for ce-datacontenttype, and
// strictly in everything else. Headers that are not CloudEvents' are passed
// over. The result is sorted by name.
func headerAttributes(header map[string][]string) ([]Attribute, error) {
	if len(header) > MaxHeaders {
		return nil, fmt.Errorf("headers: want at most %d, got %d", MaxHeaders, len(header))
	}
	attributes := make([]Attribute, 0, len(header))
	contentType := ""
	for key, values := range header {
		lower := strings.ToLower(key)
		name, isAttribute := strings.CutPrefix(lower, headerPrefix)
		if !isAttribute && lower != headerContentType {
			continue
		}
		if len(values) != 1 {
			return nil, fmt.Errorf("header %.80q: want one value, got %d", key, len(values))
		}
		value, err := percentDecode(values[0])
		if err != nil {
			return nil, fmt.Errorf("header %.80q: %w", key, err)
		}
		if !isAttribute {
			contentType = value
			continue
		}
		if err := checkAttribute(name, value); err != nil {
			return nil, err
		}
		attributes = append(attributes, Attribute{name, value})
	}
	slices.SortFunc(attributes, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
	return withContentType(attributes, contentType)
}

// withContentType adds content-type as datacontenttype where the event has
// none, and refuses names that came twice (in different case).
func withContentType(attributes []Attribute, contentType string) ([]Attribute, error) {
	for i := 1; i < len(attributes); i++ {
		if attributes[i].Name == attributes[i-1].Name {
			return nil, fmt.Errorf("attribute %q: want it once, got it twice in different case", attributes[i].Name)
		}
	}
	at, found := slices.BinarySearchFunc(attributes, "datacontenttype", func(a Attribute, name string) int {
		return strings.Compare(a.Name, name)
	})
	if !found && contentType != "" {
		attributes = slices.Insert(attributes, at, Attribute{"datacontenttype", contentType})
	}
	return attributes, nil
}

func checkAttribute(name, value string) error {
	if name == "" || len(name) > MaxAttributeName {
		return fmt.Errorf("attribute name: want 1 to %d characters, got %d", MaxAttributeName, len(name))
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return fmt.Errorf("attribute name: want a-z and 0-9, got %.80q", name)
		}
	}
	if len(value) > MaxAttributeValue {
		return fmt.Errorf("attribute %s: want at most %d bytes, got %d", name, MaxAttributeValue, len(value))
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("attribute %s: want UTF-8", name)
	}
	for _, r := range value {
		if r < 0x20 || (r >= 0x7f && r <= 0x9f) {
			return fmt.Errorf("attribute %s: want no control characters, got %U", name, r)
		}
	}
	return nil
}

// percentEncode writes a value as the HTTP and NATS bindings want it: printable
// ASCII as it is, but for space, the double quote and the percent sign.
func percentEncode(s string) string {
	plain := true
	for i := range len(s) {
		if mustEncode(s[i]) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, len(s)+16)
	for i := range len(s) {
		if c := s[i]; mustEncode(c) {
			out = append(out, '%', digits[c>>4], digits[c&15])
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

func mustEncode(c byte) bool { return c <= 0x20 || c == '"' || c == '%' || c >= 0x7f }

// percentDecode undoes percentEncode. A percent sign that no two hexadecimal
// digits follow is refused rather than guessed at.
func percentDecode(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return "", fmt.Errorf("percent-encoding: want two hexadecimal digits after %%, at byte %d", i)
		}
		out = append(out, unhex(s[i+1])<<4|unhex(s[i+2]))
		i += 2
	}
	return string(out), nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}

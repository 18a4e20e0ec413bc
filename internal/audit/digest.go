package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// attributes gives the CloudEvents attributes of a message in binary mode: the
// ce- headers, percent-decoded.
func attributes(header map[string][]string) (map[string]string, error) {
	found := make(map[string]string, len(header))
	for key, values := range header {
		name, ok := strings.CutPrefix(strings.ToLower(key), "ce-")
		if !ok {
			continue
		}
		if _, twice := found[name]; twice || len(values) != 1 {
			return nil, fmt.Errorf("attribute %s is there more than once", name)
		}
		value, err := unescape(values[0])
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		found[name] = value
	}
	return found, nil
}

// digest is the SHA-256 over each attribute in ascending order of name, written
// as name=length:value and a line feed, then a line feed, then the data.
func digest(attributes map[string]string, data []byte) string {
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "%s=%d:%s\n", name, len(attributes[name]), attributes[name])
	}
	text.WriteString("\n")
	text.Write(data)
	sum := sha256.Sum256([]byte(text.String()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// unescape undoes percent-encoding.
func unescape(s string) (string, error) {
	var out strings.Builder
	for {
		plain, rest, found := strings.Cut(s, "%")
		out.WriteString(plain)
		if !found {
			return out.String(), nil
		}
		if len(rest) < 2 {
			return "", fmt.Errorf("a %% without two digits in %.80q", s)
		}
		b, err := strconv.ParseUint(rest[:2], 16, 8)
		if err != nil {
			return "", fmt.Errorf("a %% without two digits in %.80q", s)
		}
		out.WriteByte(byte(b))
		s = rest[2:]
	}
}

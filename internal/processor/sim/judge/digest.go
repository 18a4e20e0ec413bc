package judge

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// digestOf follows docs/protocol.md.
func digestOf(m Message) string {
	names := make([]string, 0, len(m.Header))
	for key := range m.Header {
		if strings.HasPrefix(key, "ce-") {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	text := make([]byte, 0, 1024+len(m.Data))
	for _, name := range names {
		value := m.Header[name][0]
		if strings.Contains(value, "%") {
			decoded, err := url.PathUnescape(value)
			if err != nil {
				return err.Error()
			}
			value = decoded
		}
		text = append(text, strings.TrimPrefix(name, "ce-")...)
		text = append(text, '=')
		text = strconv.AppendInt(text, int64(len(value)), 10)
		text = append(text, ':')
		text = append(text, value...)
		text = append(text, '\n')
	}
	text = append(text, '\n')
	return digestOfBytes(append(text, m.Data...))
}

// digestOfBytes is how payloads name bytes that they do not hold.
func digestOfBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

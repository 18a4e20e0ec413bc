package events

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
)

// Attribute is one CloudEvents context attribute, decoded.
type Attribute struct{ Name, Value string }

// Digest is the SHA-256 of an event: for each attribute in ascending order of
// name its name, "=", the length of its value in bytes (decimal), ":", the
// value and a line feed; then a line feed and the data. It is written as
// "sha256:" and 64 hexadecimal digits. Header encoding does not enter it, so
// an event has one digest in either content mode.
//
// The attributes must be sorted by name.
func Digest(attributes []Attribute, data []byte) string {
	h := sha256.New()
	buf := make([]byte, 0, 256)
	for _, a := range attributes {
		buf = append(buf[:0], a.Name...)
		buf = append(buf, '=')
		buf = strconv.AppendInt(buf, int64(len(a.Value)), 10)
		buf = append(buf, ':')
		buf = append(buf, a.Value...)
		buf = append(buf, '\n')
		h.Write(buf)
	}
	h.Write([]byte{'\n'})
	h.Write(data)
	return digestString(h)
}

// DigestBytes is the SHA-256 of the bytes alone, in the same writing.
func DigestBytes(data []byte) string {
	h := sha256.New()
	h.Write(data)
	return digestString(h)
}

func digestString(h hash.Hash) string {
	var sum [sha256.Size]byte
	return "sha256:" + hex.EncodeToString(h.Sum(sum[:0]))
}

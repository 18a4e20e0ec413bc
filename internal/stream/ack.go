package stream

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Server errors that mean that an expectation does not hold; the second comes
// from clusters while another message on the subject is in flight.
const (
	codeWrongLastSequence         = 10071
	codeWrongLastSequenceConstant = 10164
)

// parseAck reads the server's answer to a publish.
func parseAck(data []byte) (uint64, error) {
	if sequence, ok := plainAck(data); ok {
		return sequence, nil
	}
	var answer struct {
		Error    *jetstream.APIError `json:"error"`
		Stream   string              `json:"stream"`
		Sequence uint64              `json:"seq"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return 0, fmt.Errorf("%w: answer is not that of a stream: %.100q", ErrUnanswered, data)
	}
	switch e := answer.Error; {
	case e == nil && answer.Stream != "" && answer.Sequence > 0:
		return answer.Sequence, nil
	case e == nil:
		return 0, fmt.Errorf("%w: answer is not that of a stream: %.100q", ErrUnanswered, data)
	case e.ErrorCode == codeWrongLastSequence || e.ErrorCode == codeWrongLastSequenceConstant:
		return 0, fmt.Errorf("%w: %s", ErrStale, e.Description)
	default:
		return 0, e
	}
}

// plainAck reads the usual answer, {"stream":"RUNS","seq":12}, without the cost
// of a JSON decoder. Anything else (a domain, a duplicate, an error) it leaves.
func plainAck(data []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok {
		return 0, false
	}
	end := bytes.IndexByte(rest, '"')
	if end < 1 {
		return 0, false
	}
	rest, ok = bytes.CutPrefix(rest[end+1:], []byte(`,"seq":`))
	if !ok {
		return 0, false
	}
	rest = bytes.TrimLeft(rest, " ")
	var sequence uint64
	digits := 0
	for digits < len(rest) && digits < 19 && rest[digits] >= '0' && rest[digits] <= '9' {
		sequence = sequence*10 + uint64(rest[digits]-'0')
		digits++
	}
	if digits == 0 || sequence == 0 || string(rest[digits:]) != "}" {
		return 0, false
	}
	return sequence, true
}

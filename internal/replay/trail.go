package replay

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"runledger/internal/events"
	"runledger/internal/stream"

	"github.com/go-json-experiment/json/jsontext"
)

// Trail says which facts are wanted. The zero value is all of them.
type Trail struct {
	Agent string   // of that agent's runs, and answers to it; "" is any
	Runs  []string // of these runs; none is any
}

// Trail calls fn for each fact from a sequence of RUNS on, in the order in which
// they were stored: up to the last one now, or, where follow is set, on and on,
// until the context ends. Servers may go and come back meanwhile: nothing is left
// out and nothing comes twice.
func (s *JetStream) Trail(ctx context.Context, t Trail, from uint64, follow bool, fn func(stream.Message) error) error {
	filter, err := s.trailFilter(t)
	if err != nil {
		return err
	}
	if _, err := s.look(ctx, stream.StreamRuns); err != nil {
		return err
	}
	last, err := s.lastOf(ctx, stream.StreamRuns, filter)
	if err != nil {
		return err
	}
	if !follow && last < from {
		return nil
	}
	reader, err := stream.OpenReader(ctx, s.js, filter, max(from, 1)-1, stream.ReaderConfig{Stream: stream.StreamRuns, Log: s.log})
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		messages, err := s.nextOfTrail(ctx, reader, follow)
		if err != nil {
			return err
		}
		for i := range messages {
			if !follow && messages[i].Sequence > last {
				return nil
			}
			if !s.on(t, &messages[i]) {
				continue
			}
			if err := fn(messages[i]); err != nil {
				return err
			}
		}
		if !follow && messages[len(messages)-1].Sequence >= last {
			return nil
		}
	}
}

// nextOfTrail waits for what comes: for ever only where it may not be there yet.
func (s *JetStream) nextOfTrail(ctx context.Context, reader *stream.Reader, follow bool) ([]stream.Message, error) {
	if follow {
		return reader.Next(ctx, handOut)
	}
	waiting, stop := newWait(ctx, s.patience)
	defer stop()
	messages, err := reader.Next(waiting.ctx, handOut)
	return messages, waiting.tell(err, stream.StreamRuns)
}

func (s *JetStream) trailFilter(t Trail) (string, error) {
	agent, run := "*", "*"
	if t.Agent != "" {
		if !events.ValidName(t.Agent) {
			return "", fmt.Errorf("agent: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", t.Agent)
		}
		agent = t.Agent
	}
	for _, id := range t.Runs {
		if !events.ValidName(id) {
			return "", fmt.Errorf("run: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", id)
		}
	}
	switch {
	case len(t.Runs) == 1:
		run = t.Runs[0]
	case t.Agent == "":
		return s.subjects.Everything(), nil // also what has no subject of a fact
	}
	return s.subjects.Told(agent, run), nil
}

// on reports whether a message is of the runs that are wanted, where these are
// several.
func (s *JetStream) on(t Trail, m *stream.Message) bool {
	if len(t.Runs) < 2 {
		return true
	}
	address, err := s.subjects.ParseFact(m.Subject)
	return err == nil && slices.Contains(t.Runs, address.Run)
}

// streamSequence is the member that [CloudEvent] adds. It is no attribute of the
// event, and its digest does not cover it.
const streamSequence = "streamsequence"

// CloudEvent writes a stored fact as a CloudEvent in the JSON format, on one
// line: its attributes as strings, where RUNS has it, and last its data. These
// stand there byte for byte as they are stored, so that a digest can be computed
// from the line; what is no JSON value, goes over more than one line, or holds
// what a terminal may take for a command is in data_base64 instead.
func CloudEvent(m *stream.Message) ([]byte, error) { return cloudEvent(m, false) }

// ReadableCloudEvent is CloudEvent for a person at a terminal: data that hold what
// that may take for a command stand there with these characters escaped. They are
// the same value, and other bytes than those that are hashed.
func ReadableCloudEvent(m *stream.Message) ([]byte, error) { return cloudEvent(m, true) }

func cloudEvent(m *stream.Message, readable bool) ([]byte, error) {
	out := []byte{'{'}
	member := func(name string, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(name, "\uFFFD"))
		out = append(append(append(out, escaped(quoted)...), ':'), value...)
	}
	for _, header := range slices.Sorted(maps.Keys(m.Header)) {
		name, ok := strings.CutPrefix(strings.ToLower(header), "ce-")
		if !ok || len(m.Header[header]) == 0 {
			continue
		}
		value, err := url.PathUnescape(m.Header[header][0])
		if err != nil {
			value = m.Header[header][0]
		}
		text, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(value, "\uFFFD"))
		if err != nil {
			return nil, fmt.Errorf("message %d of %s: attribute %s: %w", m.Sequence, stream.StreamRuns, printable(name), err)
		}
		member(name, escaped(text))
	}
	member(streamSequence, fmt.Appendf(nil, "%d", m.Sequence))
	onOneLine := jsontext.Value(m.Data).IsValid() && !bytes.ContainsAny(m.Data, "\r\n")
	switch {
	case onOneLine && !bytes.ContainsFunc(m.Data, commanding):
		member("data", m.Data)
	case onOneLine && readable:
		member("data", escaped(m.Data))
	default:
		member("data_base64", fmt.Appendf(nil, "%q", base64.StdEncoding.EncodeToString(m.Data)))
	}
	return append(out, '}'), nil
}

// commanding reports whether a terminal may take a character for a command, or
// another reader for the end of a line: DEL and the controls of 8 bits, and what
// turns the direction of text. JSON itself has no others within a string.
func commanding(r rune) bool {
	return r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 || unicode.Is(unicode.Bidi_Control, r)
}

// escaped writes those characters of a JSON value, which stand within its strings
// only, as \uXXXX.
func escaped(value []byte) []byte {
	if !bytes.ContainsFunc(value, commanding) {
		return value
	}
	var out []byte
	for _, r := range string(value) {
		if commanding(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

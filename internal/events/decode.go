package events

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Inbound is one event of IN, decoded. Payload is nil and Problem set where
// the envelope could be read but its type or data do not fit the verb: such an
// event is answered with INVALID_ENVELOPE, not kept as undecodable.
type Inbound struct {
	Address
	Sequence uint64    // in IN
	Time     time.Time // when the stream took it
	ID       string    // CloudEvents id; "tick" for a timer
	Source   string
	Trace    Trace
	Data     []byte // as it was sent
	Payload  any    // a pointer to the payload of the verb, such as *ToolCall; nil for a tick
	Problem  error
}

// Message is an inbound message as the stream holds it.
type Message struct {
	Subject  string
	Header   map[string][]string
	Data     []byte
	Sequence uint64
	Time     time.Time
}

// Decode reads an inbound message in binary or structured content mode. An
// error means that the message is no CloudEvent or that its subject names no
// principal, run and verb; it must then be kept where an operator finds it.
// Decode never panics, and does no work for what is over a limit.
func Decode(s Subjects, m Message) (*Inbound, error) {
	address, err := s.ParseInbound(m.Subject)
	if err != nil {
		return nil, err
	}
	in := &Inbound{Address: address, Sequence: m.Sequence, Time: m.Time}
	if address.Verb == VerbTick {
		in.ID = string(VerbTick)
		return in, nil
	}
	attributes, data, err := readEnvelope(m)
	if err != nil {
		return nil, err
	}
	in.Data = data
	eventType, err := in.readAttributes(attributes)
	if err != nil {
		return nil, err
	}
	in.Payload, in.Problem = decodePayload(address.Verb, eventType, data)
	return in, nil
}

// readEnvelope takes a message apart by its content mode. A body without ce-
// headers and without a JSON content type of its own is tried as structured.
func readEnvelope(m Message) ([]Attribute, []byte, error) {
	binary, contentTypes, contentType := false, 0, ""
	for key, values := range m.Header {
		lower := strings.ToLower(key)
		binary = binary || strings.HasPrefix(lower, headerPrefix)
		if lower == headerContentType && len(values) > 0 {
			contentTypes++
			contentType = strings.ToLower(strings.TrimSpace(values[0]))
		}
	}
	if contentTypes > 1 { // which of them counts would depend on the order of a map
		return nil, nil, fmt.Errorf("header content-type: want it once, got it %d times in different case", contentTypes)
	}
	if strings.HasPrefix(contentType, contentTypeStructured) || (!binary && contentType == "") {
		return readStructured(m.Data)
	}
	if !binary {
		return nil, nil, fmt.Errorf("CloudEvent: want ce- headers (binary mode) or content-type %s (structured mode), got content-type %.80q and neither", contentTypeStructured, contentType)
	}
	attributes, err := headerAttributes(m.Header)
	return attributes, m.Data, err
}

// readStructured reads a CloudEvent in the JSON format.
func readStructured(body []byte) ([]Attribute, []byte, error) {
	if err := checkDepth(body); err != nil {
		return nil, nil, err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, nil, fmt.Errorf("CloudEvent in structured mode: want a JSON object: %w", err)
	}
	if len(members) > MaxHeaders {
		return nil, nil, fmt.Errorf("CloudEvent members: want at most %d, got %d", MaxHeaders, len(members))
	}
	data, err := structuredData(members)
	if err != nil {
		return nil, nil, err
	}
	attributes := make([]Attribute, 0, len(members))
	for name, raw := range members {
		value, present, err := scalar(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("attribute %.80q: %w", name, err)
		}
		if !present {
			continue
		}
		if err := checkAttribute(name, value); err != nil {
			return nil, nil, err
		}
		attributes = append(attributes, Attribute{name, value})
	}
	slices.SortFunc(attributes, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
	return attributes, data, nil
}

// structuredData takes data or data_base64 out of the members.
func structuredData(members map[string]jsontext.Value) ([]byte, error) {
	data, hasData := members["data"]
	encoded, hasEncoded := members["data_base64"]
	delete(members, "data")
	delete(members, "data_base64")
	if hasData && hasEncoded {
		return nil, fmt.Errorf("CloudEvent data: want data or data_base64, got both")
	}
	if !hasEncoded {
		return data, nil
	}
	var text string
	if err := json.Unmarshal(encoded, &text); err != nil {
		return nil, fmt.Errorf("data_base64: want a JSON string, got %s", encoded.Kind())
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("data_base64: want standard base64: %w", err)
	}
	return decoded, nil
}

// scalar reads an attribute of the JSON format: string, boolean or integer;
// null is the same as absent.
func scalar(raw jsontext.Value) (value string, present bool, err error) {
	switch raw.Kind() {
	case '"':
		err = json.Unmarshal(raw, &value)
		return value, true, err
	case 't', 'f':
		return string(raw), true, nil
	case 'n':
		return "", false, nil
	case '0':
		if _, err := strconv.ParseInt(string(raw), 10, 32); err != nil {
			return "", false, fmt.Errorf("want a 32-bit integer, got another number")
		}
		return string(raw), true, nil
	}
	return "", false, fmt.Errorf("want a string, boolean or integer")
}

func (in *Inbound) readAttributes(attributes []Attribute) (eventType string, err error) {
	version, contentType := "", ""
	for _, a := range attributes {
		switch a.Name {
		case "specversion":
			version = a.Value
		case "id":
			in.ID = a.Value
		case "source":
			in.Source = a.Value
		case "type":
			eventType = a.Value
		case "datacontenttype":
			contentType = a.Value
		case "time":
			if _, err := time.Parse(time.RFC3339Nano, a.Value); err != nil {
				return "", fmt.Errorf("attribute time: want RFC 3339, got %.80q", a.Value)
			}
		case "traceparent":
			in.Trace.Parent = a.Value
		case "tracestate":
			in.Trace.State = a.Value
		}
	}
	if version != specVersion {
		return "", fmt.Errorf("attribute specversion: want %q, got %.80q", specVersion, version)
	}
	if contentType != "" && !isJSON(contentType) {
		return "", fmt.Errorf("attribute datacontenttype: want %s, got %.80q", contentTypeJSON, contentType)
	}
	if in.ID == "" || in.Source == "" || eventType == "" {
		return "", fmt.Errorf("CloudEvent: want id, source and type, got id %.80q, source %.80q, type %.80q", in.ID, in.Source, eventType)
	}
	return eventType, nil
}

func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	media = strings.TrimSpace(media)
	return media == contentTypeJSON || strings.HasSuffix(media, "+json")
}

// decodePayload reads the data as the verb's payload.
func decodePayload(verb Verb, eventType string, data []byte) (any, error) {
	if eventType != verb.Type() {
		return nil, fmt.Errorf("type: want %q on this subject, got %.120q", verb.Type(), eventType)
	}
	if err := checkDepth(data); err != nil {
		return nil, err
	}
	switch verb {
	case VerbRunStart:
		return decodeAs[RunStart](data)
	case VerbToolCall:
		return decodeAs[ToolCall](data)
	case VerbToolResult:
		return decodeAs[ToolResult](data)
	case VerbModelCall:
		return decodeAs[ModelCall](data)
	case VerbModelReport:
		return decodeAs[ModelReport](data)
	case VerbProgressReport:
		return decodeAs[ProgressReport](data)
	case VerbRunCancel:
		return decodeAs[RunCancel](data)
	case VerbRunFinish:
		return decodeAs[RunFinish](data)
	default:
		return nil, fmt.Errorf("verb %q has no payload", verb)
	}
}

// checker is a payload with rules that its Go type alone does not hold.
type checker[T any] interface {
	*T
	check() error
}

func decodeAs[T any, P checker[T]](data []byte) (any, error) {
	payload := P(new(T))
	if err := json.Unmarshal(data, payload, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if err := payload.check(); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return payload, nil
}

// checkDepth refuses JSON that nests deeper than MaxDepth, before anything
// decodes it. It looks at brackets outside strings only; whether the rest is
// JSON is for the decoder to say.
func checkDepth(data []byte) error {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			i = endOfString(data, i+1)
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("JSON: want at most %d levels, got more", MaxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// endOfString gives where the string ends that begins at i: its quotation mark,
// which is the first that no odd number of backslashes precedes.
func endOfString(data []byte, i int) int {
	for begin := i; ; {
		k := bytes.IndexByte(data[i:], '"')
		if k < 0 {
			return len(data)
		}
		i += k
		escapes := 0
		for i-1-escapes >= begin && data[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
		i++
	}
}

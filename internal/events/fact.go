package events

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// RulesVersion names the rules by which this version decides; every fact
// carries it, so that a replay knows by which rules a fact was decided.
const RulesVersion = "1"

// ErrNewer says that a newer version of this program wrote what was to be read.
// This one must neither judge nor change it, and waits until the newer one is
// there.
var ErrNewer = errors.New("written by a newer version of this program")

// TimeFormat is how instants stand in events: RFC 3339, UTC, milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// Trace is the W3C trace context of a cause, passed on unchanged.
type Trace struct {
	Parent string // traceparent
	State  string // tracestate
}

// Cause is the inbound event that led to a fact. Decision says that the fact
// is the decision of that event (each event that is not ignored has exactly
// one), and not merely something that was due when it came.
type Cause struct {
	Source   string // CloudEvents source of the event; empty for a timer
	ID       string // CloudEvents id of the event; "tick" for a timer
	Sequence uint64 // its sequence in IN
	Decision bool
	Trace    Trace
}

// Fact is one transition of a run, or, where Sequence is 0, an answer that
// belongs to no run's history. OutsideKey then makes its subject unique, so
// that it is told once.
type Fact struct {
	Agent          string // owner of the run; outside a history, who is answered
	Run            string
	Sequence       uint64 // 1, 2, 3 … within the run
	OutsideKey     string
	Time           time.Time // instant of the decision
	Cause          Cause
	PreviousDigest string // empty for the first fact and outside a history
	Rules          string
	Payload        Payload
}

// Kind is the kind of the fact's payload.
func (f *Fact) Kind() Kind { return f.Payload.Kind() }

// ID is the CloudEvents id: the same fact always has the same one.
func (f *Fact) ID() string {
	if f.Sequence == 0 {
		return "outside." + f.OutsideKey
	}
	return f.Run + "." + strconv.FormatUint(f.Sequence, 10)
}

// Subject is where the fact is stored.
func (f *Fact) Subject(s Subjects) string {
	if f.Sequence == 0 {
		return s.Outside(f.Agent, f.Run, f.Kind(), f.OutsideKey)
	}
	return s.Fact(f.Agent, f.Run, f.Kind())
}

// Encoded is a fact as it is published: binary mode headers, data, and the
// digest that the next fact of the run will carry.
type Encoded struct {
	Header map[string][]string
	Data   []byte
	Digest string
}

// Encode gives the fact's message. It fails only if the payload cannot be
// written as JSON, which is a broken invariant.
func (f *Fact) Encode() (Encoded, error) {
	data, err := json.Marshal(f.Payload, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return Encoded{}, fmt.Errorf("encode %s of run %s: %w", f.Kind(), f.Run, err)
	}
	attributes := f.attributes()
	return Encoded{Header: binaryHeader(attributes), Data: data, Digest: Digest(attributes, data)}, nil
}

// attributes lists the CloudEvents attributes in ascending order of name.
func (f *Fact) attributes() []Attribute {
	out := make([]Attribute, 0, 20)
	add := func(name, value string) {
		if value != "" {
			out = append(out, Attribute{name, value})
		}
	}
	kind := f.Kind()
	add("causationid", f.Cause.ID)
	add("causationsequence", strconv.FormatUint(f.Cause.Sequence, 10))
	add("causationsource", f.Cause.Source)
	add("correlationid", f.Run)
	add("datacontenttype", contentTypeJSON)
	add("dataschema", SchemaURI(kind.Type()))
	add("decision", strconv.FormatBool(f.Cause.Decision))
	add("id", f.ID())
	add("partitionkey", f.Run)
	add("previousdigest", f.PreviousDigest)
	add("rulesversion", f.Rules)
	if f.Sequence > 0 {
		add("sequence", fmt.Sprintf("%020d", f.Sequence))
	}
	add("source", "/agents/"+f.Agent+"/runs/"+f.Run)
	add("specversion", specVersion)
	add("time", f.Time.UTC().Format(TimeFormat))
	add("traceparent", f.Cause.Trace.Parent)
	add("tracestate", f.Cause.Trace.State)
	add("type", kind.Type())
	return out
}

// DecodeFact reads a stored fact and gives its digest. It accepts what
// [Fact.Encode] writes and refuses an unknown kind or rules version by name.
func DecodeFact(s Subjects, subject string, header map[string][]string, data []byte) (*Fact, string, error) {
	attributes, err := headerAttributes(header)
	if err != nil {
		return nil, "", fmt.Errorf("fact on %q: %w", subject, err)
	}
	f := &Fact{}
	address, err := s.ParseFact(subject)
	if err != nil {
		return nil, "", err
	}
	f.Agent, f.Run, f.OutsideKey = address.Agent, address.Run, address.OutsideKey
	if f.Payload = NewPayload(address.Kind); f.Payload == nil {
		return nil, "", fmt.Errorf("fact on %q: kind %q: %w", subject, address.Kind, ErrNewer)
	}
	if err := f.readAttributes(attributes); err != nil {
		return nil, "", fmt.Errorf("fact on %q: %w", subject, err)
	}
	if err := json.Unmarshal(data, f.Payload, json.RejectUnknownMembers(true)); err != nil {
		return nil, "", fmt.Errorf("fact on %q: %w", subject, err)
	}
	return f, Digest(attributes, data), nil
}

func (f *Fact) readAttributes(attributes []Attribute) error {
	var errs []error
	for _, a := range attributes {
		var err error
		switch a.Name {
		case "causationid":
			f.Cause.ID = a.Value
		case "causationsequence":
			f.Cause.Sequence, err = strconv.ParseUint(a.Value, 10, 64)
		case "causationsource":
			f.Cause.Source = a.Value
		case "decision":
			f.Cause.Decision, err = strconv.ParseBool(a.Value)
		case "previousdigest":
			f.PreviousDigest = a.Value
		case "rulesversion":
			f.Rules = a.Value
		case "sequence":
			f.Sequence, err = strconv.ParseUint(a.Value, 10, 64)
		case "time":
			f.Time, err = time.Parse(time.RFC3339Nano, a.Value)
		case "traceparent":
			f.Cause.Trace.Parent = a.Value
		case "tracestate":
			f.Cause.Trace.State = a.Value
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("attribute %s: %w", a.Name, err))
		}
	}
	if err := CheckRules(f.Rules); err != nil {
		errs = append(errs, err)
	}
	if (f.Sequence == 0) != (f.OutsideKey != "") {
		errs = append(errs, errors.New("a fact has a sequence exactly where it belongs to a run's history"))
	}
	return errors.Join(errs...)
}

// CheckRules holds the rules version of a fact against this program's. A higher
// one is [ErrNewer]; what is no version at all is not.
func CheckRules(version string) error {
	if version == RulesVersion {
		return nil
	}
	err := fmt.Errorf("rules version: want %q, got %.40q", RulesVersion, version)
	ours, _ := strconv.ParseUint(RulesVersion, 10, 32) // a number of ours
	if n, parseErr := strconv.ParseUint(version, 10, 32); parseErr == nil && n > ours {
		err = fmt.Errorf("%w: %w", err, ErrNewer)
	}
	return err
}

// SchemaURI names the JSON Schema of an event type; schemas/ holds them.
func SchemaURI(eventType string) string { return "urn:runledger:schema:" + eventType }

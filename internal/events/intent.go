package events

import (
	"fmt"
	"slices"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/types"
)

// NewIntent builds an inbound event for whoever publishes one in Go: an agent
// or an executor. The data are sent as they are.
func NewIntent(verb Verb, id, source string, at time.Time, data []byte) cloudevents.Event {
	e := cloudevents.NewEvent(specVersion)
	e.SetID(id)
	e.SetSource(source)
	e.SetType(verb.Type())
	e.SetTime(at)
	e.SetDataContentType(contentTypeJSON)
	e.DataEncoded = data
	return e
}

// EncodeBinary writes any CloudEvent as a NATS message in binary content mode.
// The error says what the event lacks.
func EncodeBinary(e cloudevents.Event) (header map[string][]string, data []byte, err error) {
	if err := e.Validate(); err != nil {
		return nil, nil, fmt.Errorf("CloudEvent %.120q: %w", e.ID(), err)
	}
	attributes := []Attribute{
		{"id", e.ID()}, {"source", e.Source()}, {"specversion", e.SpecVersion()}, {"type", e.Type()},
	}
	add := func(name, value string) {
		if value != "" {
			attributes = append(attributes, Attribute{name, value})
		}
	}
	add("datacontenttype", e.DataContentType())
	add("dataschema", e.DataSchema())
	add("subject", e.Subject())
	if !e.Time().IsZero() {
		add("time", types.FormatTime(e.Time()))
	}
	for name, value := range e.Extensions() {
		text, err := types.Format(value)
		if err != nil {
			return nil, nil, fmt.Errorf("CloudEvent %.120q: extension %s: %w", e.ID(), name, err)
		}
		add(name, text)
	}
	slices.SortFunc(attributes, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
	return binaryHeader(attributes), e.Data(), nil
}

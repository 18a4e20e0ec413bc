// Package schemas holds the JSON Schema (draft 2020-12) of every event type, a
// file each, named after the type. Each describes the data of the event, with
// examples; what surrounds the data is the same for all and stands in
// docs/protocol.md. The schemas stand alone: none refers to another.
//
// A schema says what the data look like. What depends on the run or the policy
// (who may, how much, until when) is decided by the rules and answered with a
// code of its own.
package schemas

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"runledger/schemas/instance"
)

//go:embed *.json
var files embed.FS

const extension = ".json"

// URI is the name of the schema of an event type, which is its $id and the
// event's dataschema.
func URI(eventType string) string { return "urn:runledger:schema:" + eventType }

// Types lists the event types that have a schema, sorted. A tick has none: it
// carries no data.
func Types() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("schemas: embedded files: " + err.Error()) // cannot happen: they are part of the program
	}
	types := make([]string, 0, len(entries))
	for _, entry := range entries {
		types = append(types, strings.TrimSuffix(entry.Name(), extension))
	}
	return slices.Clip(types)
}

// Source gives the schema of an event type as it stands in its file.
func Source(eventType string) ([]byte, error) {
	source, err := files.ReadFile(path.Clean(eventType) + extension)
	if err != nil {
		return nil, unknownType(eventType)
	}
	return source, nil
}

func unknownType(eventType string) error {
	return fmt.Errorf("event type: want one that has a schema, such as harness.tool.call.v1, got %.120q", eventType)
}

// Registry finds the compiled schema of an event type. It is immutable and safe
// for use by several goroutines.
type Registry struct{ compiled map[string]*jsonschema.Schema }

// NewRegistry compiles all schemas. It fails only if one of the embedded files
// is wrong.
func NewRegistry() (*Registry, error) {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	compiler.AssertFormat() // date-time
	r := &Registry{compiled: map[string]*jsonschema.Schema{}}
	for _, eventType := range Types() {
		source, err := Source(eventType)
		if err != nil {
			return nil, err
		}
		document, err := instance.Read(source)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", eventType, err)
		}
		if err := compiler.AddResource(URI(eventType), document.Value); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", eventType, err)
		}
		if r.compiled[eventType], err = compiler.Compile(URI(eventType)); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", eventType, err)
		}
	}
	return r, nil
}

// noLoader fetches nothing.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema: want no reference outside of itself, got %.120q", url)
}

// Validate reports whether the data of an event of that type follow its schema.
// The error is one line of at most some 1,000 characters and names up to three
// members, what is wanted of each and the type or size that came, never a
// value. Data of any size may be given; the work is linear in them.
func (r *Registry) Validate(eventType string, data []byte) error {
	schema, ok := r.compiled[eventType]
	if !ok {
		return unknownType(eventType)
	}
	document, err := instance.Read(data)
	if err != nil {
		return fmt.Errorf("%s: %w", eventType, err)
	}
	if err := schema.Validate(document.Value); err != nil {
		return fmt.Errorf("%s: %s", eventType, instance.Explain(err, "data", nil))
	}
	return nil
}

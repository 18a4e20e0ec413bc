package policy

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"runledger/schemas/instance"
)

// Limits on what one check of arguments may cost. The slowest that was found
// within them takes about half a second on a busy core; that of a common call
// takes some 2 µs.
const (
	maxInputSteps = 1_000_000   // JSON values of the arguments times those of the schema
	maxMatchSteps = 100_000_000 // bytes of text in the arguments times instructions of all patterns
)

// inputSchema is a compiled input schema of a tool. It is immutable and safe
// for use by several goroutines.
type inputSchema struct {
	schema *jsonschema.Schema
	cost   schemaCost
	names  map[string]bool // member names that the schema itself gives
}

// Check implements harness.InputSchema. The error is bounded, and holds nothing
// of the arguments but the kinds and sizes of what is wrong. The same arguments
// get the same answer on every machine: what a check may cost is counted, not
// timed.
func (s *inputSchema) Check(arguments []byte) error {
	document, err := instance.Read(arguments)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	if document.Values > maxInputSteps/s.cost.values {
		return fmt.Errorf("arguments: want at most %d JSON values for a schema of this size, got %d", maxInputSteps/s.cost.values, document.Values)
	}
	if most := maxMatchSteps / max(1, s.cost.instructions); document.StringBytes > most {
		return fmt.Errorf("arguments: want at most %d bytes of text for patterns of this size, got %d", most, document.StringBytes)
	}
	err = s.schema.Validate(document.Value)
	if err == nil {
		return nil
	}
	return errors.New(instance.Explain(err, "arguments", func(name string) bool { return s.names[name] }))
}

const inputURI = "urn:runledger:input"

// compileInput compiles a schema that checkSchema has passed.
func compileInput(schema map[string]any, cost schemaCost, names map[string]bool) (*inputSchema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(inputURI, schema); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(inputURI)
	if err != nil {
		return nil, err
	}
	return &inputSchema{schema: compiled, cost: cost, names: names}, nil
}

// noLoader fetches nothing: checkSchema lets no reference out.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a schema refers to nothing outside of itself")
}

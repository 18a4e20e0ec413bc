package policy

import (
	"encoding/json"
	"regexp"

	"github.com/goccy/go-yaml/ast"

	"runledger/schemas/instance"
)

// Limits on one input schema as it is written.
const (
	MaxSchemaDepth  = 32   // levels of YAML
	MaxSchemaValues = 5000 // mappings, lists and scalars
)

// jsonReader turns YAML into the JSON value that it stands for. Numbers keep
// their literal.
type jsonReader struct {
	*reader
	values int
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// value gives nil, bool, string, json.Number, []any or map[string]any. What
// JSON does not have is refused, and nil stands for it.
func (j *jsonReader) value(node ast.Node, path string, depth int) any {
	if j.values++; j.values > MaxSchemaValues {
		j.refuse(path, "want at most %d values in a schema, got more", MaxSchemaValues)
		return nil
	}
	if depth > MaxSchemaDepth {
		j.refuse(path, "want at most %d levels in a schema, got more", MaxSchemaDepth)
		return nil
	}
	switch n := node.(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		literal := node.GetToken().Value
		if !jsonNumber.MatchString(literal) {
			j.refuse(path, "want a number as JSON writes it, got %.60q", literal)
		} else if err := instance.CheckNumber(literal); err != nil {
			j.refuse(path, "%v", err)
		}
		return json.Number(literal)
	case *ast.SequenceNode:
		list := make([]any, 0, len(n.Values))
		for i, value := range n.Values {
			if j.values > MaxSchemaValues {
				break
			}
			j.mark(item(path, i), nil, value)
			list = append(list, j.value(value, item(path, i), depth+1))
		}
		return list
	case *ast.MappingNode:
		object := make(map[string]any, len(n.Values))
		for key, value := range j.entries(n, path) {
			if j.values > MaxSchemaValues {
				break
			}
			object[key] = j.value(value, join(path, key), depth+1)
		}
		return object
	}
	if text, ok := textOf(node); ok {
		return text
	}
	j.refuse(path, "want a value that JSON has, got %s", kindOf(node))
	return nil
}

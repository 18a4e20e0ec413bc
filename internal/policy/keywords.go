package policy

import (
	"encoding/json"
	"strings"
)

// shape says what stands behind a keyword.
type shape int

const (
	shapeUnknown shape = iota
	shapeNote          // for people; costs nothing
	shapeValue         // a value to compare with
	shapeOne           // a schema
	shapeMany          // a list of schemas
	shapeNamed         // schemas by name
	shapeOwn           // looked at one by one
)

// shapeOf knows the keywords of JSON Schema 2020-12 that a policy may use, and
// takes those that begin with x- for notes. What would change how references
// are read is left out, and so is whatever is unknown: a keyword that is
// misspelt checks nothing.
func shapeOf(keyword string) shape {
	switch keyword {
	case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "format",
		"contentEncoding", "contentMediaType":
		return shapeNote
	case "type", "enum", "const", "required", "dependentRequired",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
		"minContains", "maxContains", "minProperties", "maxProperties":
		return shapeValue
	case "not", "if", "then", "else", "items", "contains",
		"additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties":
		return shapeOne
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return shapeMany
	case "properties", "patternProperties", "dependentSchemas":
		return shapeNamed
	case "$schema", "$ref", "$defs", "definitions", "pattern":
		return shapeOwn
	}
	if strings.HasPrefix(keyword, "x-") {
		return shapeNote
	}
	return shapeUnknown
}

// schemaCost is how much a schema can make a validator do for one part of the
// arguments.
type schemaCost struct {
	values       int // keywords and values, references followed
	instructions int // of all patterns
}

func (c *schemaCost) add(d schemaCost) {
	c.values = min(c.values+d.values, MaxSchemaSize+1)
	c.instructions = min(c.instructions+d.instructions, MaxSchemaSize*MaxPatternSize)
}

// numberCost is what comparing with a number costs beside comparing with a text
// (measured): the validator makes exact fractions of both.
const numberCost = 8

// comparesNumbers says which keywords make the validator do that.
func comparesNumbers(keyword string) bool {
	switch keyword {
	case "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return true
	}
	return false
}

// countValues counts what stands behind a keyword.
func countValues(value any, keyword string) int {
	n := 1
	switch v := value.(type) {
	case json.Number:
		if comparesNumbers(keyword) {
			return numberCost
		}
	case []any:
		for _, x := range v {
			n += countValues(x, keyword)
		}
	case map[string]any:
		for _, x := range v {
			n += countValues(x, keyword)
		}
	}
	return n
}

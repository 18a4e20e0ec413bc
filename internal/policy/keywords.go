package policy

import "encoding/json"

// shape says what stands behind a keyword.
type shape int

const (
	shapeNote  shape = iota // for people; costs nothing
	shapeValue              // a value to compare with
	shapeOne                // a schema
	shapeMany               // a list of schemas
	shapeNamed              // schemas by name
	shapeOwn                // looked at one by one
)

// keywords are those of JSON Schema 2020-12 that a policy may use. What would
// change how references are read is left out, and so is whatever is unknown:
// a keyword that is misspelt checks nothing.
var keywords = map[string]shape{
	"title": shapeNote, "description": shapeNote, "default": shapeNote, "examples": shapeNote, "deprecated": shapeNote,
	"readOnly": shapeNote, "writeOnly": shapeNote, "$comment": shapeNote, "format": shapeNote,
	"contentEncoding": shapeNote, "contentMediaType": shapeNote,

	"type": shapeValue, "enum": shapeValue, "const": shapeValue, "required": shapeValue, "dependentRequired": shapeValue,
	"minimum": shapeValue, "maximum": shapeValue, "exclusiveMinimum": shapeValue, "exclusiveMaximum": shapeValue, "multipleOf": shapeValue,
	"minLength": shapeValue, "maxLength": shapeValue, "minItems": shapeValue, "maxItems": shapeValue, "uniqueItems": shapeValue,
	"minContains": shapeValue, "maxContains": shapeValue, "minProperties": shapeValue, "maxProperties": shapeValue,

	"not": shapeOne, "if": shapeOne, "then": shapeOne, "else": shapeOne, "items": shapeOne, "contains": shapeOne,
	"additionalProperties": shapeOne, "propertyNames": shapeOne, "unevaluatedItems": shapeOne, "unevaluatedProperties": shapeOne,
	"allOf": shapeMany, "anyOf": shapeMany, "oneOf": shapeMany, "prefixItems": shapeMany,
	"properties": shapeNamed, "patternProperties": shapeNamed, "dependentSchemas": shapeNamed,

	"$schema": shapeOwn, "$ref": shapeOwn, "$defs": shapeOwn, "definitions": shapeOwn, "pattern": shapeOwn,
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

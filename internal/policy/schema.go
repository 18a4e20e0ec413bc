package policy

import (
	"errors"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"runledger/schemas/instance"
)

// Limits on one input schema once its references are followed. A validator
// visits each part of a schema for each part of the arguments, so its size is
// what makes it slow; one that refers back to itself has no size.
const (
	MaxSchemaSize  = 2000 // keywords and their values
	MaxPatternSize = 1000 // instructions of one compiled pattern
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// inputEntry is the input schema of a tool, compiled; nil takes any object.
type inputEntry struct{ compiled *inputSchema }

func (e *inputEntry) readNode(r *reader, node ast.Node, path string) {
	if _, ok := node.(*ast.MappingNode); !ok {
		r.refuse(path, "want a JSON Schema as a mapping, got %s", kindOf(node))
		return
	}
	before := len(r.problems)
	document := &jsonReader{reader: r}
	root, _ := document.value(node, path, 1).(map[string]any)
	if len(r.problems) > before {
		return
	}
	check := &schemaCheck{reader: r, path: path, names: map[string]bool{}, definitions: map[string]*definition{}}
	cost := check.root(root)
	if len(r.problems) > before {
		return
	}
	compiled, err := compileInput(root, cost, check.names)
	if err != nil {
		refuseSchema(r, path, err)
		return
	}
	e.compiled = compiled
}

// refuseSchema tells what the schema compiler found, at its place.
func refuseSchema(r *reader, path string, err error) {
	if invalid := (*jsonschema.SchemaValidationError)(nil); errors.As(err, &invalid) {
		err = invalid.Err
	}
	violations := instance.Violations(err)
	for _, v := range violations {
		at := path
		for _, token := range v.Location {
			if r.has(at + "[" + token + "]") {
				at += "[" + token + "]"
			} else {
				at = join(at, token)
			}
		}
		r.refuse(at, "JSON Schema: %s", v.Problem)
	}
	if len(violations) == 0 {
		r.refuse(path, "want a JSON Schema of draft 2020-12: %.200v", err)
	}
}

// schemaCheck walks one schema.
type schemaCheck struct {
	*reader
	path        string          // of the root
	names       map[string]bool // of members
	definitions map[string]*definition
}

// definition is a schema under $defs or definitions.
type definition struct {
	path   string
	schema any
	state  int // 0 not walked, 1 on the way, 2 done
	cost   schemaCost
}

func (c *schemaCheck) root(root map[string]any) schemaCost {
	for _, keyword := range [...]string{"$defs", "definitions"} {
		named, _ := root[keyword].(map[string]any)
		for name, schema := range named {
			path := join(join(c.path, keyword), name)
			c.definitions["#/"+keyword+"/"+name] = &definition{path: path, schema: schema}
		}
	}
	cost := c.schema(root, c.path)
	if declared, ok := root["type"]; ok && !slices.Contains(typesOf(declared), "object") {
		c.refuse(join(c.path, "type"), "want object, since arguments always are one, got %s", strings.Join(typesOf(declared), ", "))
	}
	for _, reference := range slices.Sorted(maps.Keys(c.definitions)) {
		c.follow(reference, c.definitions[reference].path)
	}
	if cost.values > MaxSchemaSize {
		c.refuse(c.path, "want a schema of at most %d keywords and values once its references are followed, got more", MaxSchemaSize)
	}
	return cost
}

// typesOf gives the texts that stand behind the keyword type.
func typesOf(value any) (types []string) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		text, _ := v.(string)
		types = append(types, text)
	}
	return types
}

func (c *schemaCheck) types(value any, path string) {
	known := []string{"array", "boolean", "integer", "null", "number", "object", "string"}
	for _, t := range typesOf(value) {
		if !slices.Contains(known, t) {
			c.refuse(path, "want one or a list of %s, got %.80q", strings.Join(known, ", "), t)
		}
	}
}

// schema checks one schema and what is in it.
func (c *schemaCheck) schema(value any, path string) schemaCost {
	cost := schemaCost{values: 1}
	object, ok := value.(map[string]any)
	if !ok {
		return cost // true, false, or what the compiler will refuse
	}
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		cost.add(c.keyword(keyword, object[keyword], path))
	}
	return cost
}

func (c *schemaCheck) keyword(keyword string, value any, holder string) schemaCost {
	path := join(holder, keyword)
	cost := schemaCost{values: 1}
	switch shapeOf(keyword) {
	case shapeUnknown:
		c.refuse(path, "want a keyword of JSON Schema 2020-12 that a policy may use, or one that begins with x-, got %.80q", keyword)
		return schemaCost{}
	case shapeNote:
		return schemaCost{}
	case shapeValue:
		cost.values = countValues(value, keyword)
		if keyword == "type" {
			c.types(value, path)
		}
	case shapeOne:
		cost.add(c.schema(value, path))
	case shapeMany:
		list, _ := value.([]any)
		for i, schema := range list {
			cost.add(c.schema(schema, item(path, i)))
		}
	case shapeNamed:
		cost.add(c.named(keyword, value, path))
	case shapeOwn:
		return c.own(keyword, value, path, holder)
	}
	return cost
}

func (c *schemaCheck) named(keyword string, value any, path string) (cost schemaCost) {
	object, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch keyword {
		case "properties":
			c.names[name] = true
		case "patternProperties":
			cost.add(c.pattern(name, join(path, name)))
		}
		cost.add(c.schema(object[name], join(path, name)))
	}
	return cost
}

func (c *schemaCheck) own(keyword string, value any, path, holder string) schemaCost {
	switch text, _ := value.(string); keyword {
	case "pattern":
		return c.pattern(text, path)
	case "$ref":
		return c.follow(text, path)
	case "$schema":
		if holder != c.path || strings.TrimSuffix(text, "#") != dialect {
			c.refuse(path, "want %s, at the top of the schema, got %.120q", dialect, text)
		}
	default: // $defs, definitions: they cost where something refers to them
		if holder != c.path {
			c.refuse(path, "want %s at the top of the schema, got it below", keyword)
		}
	}
	return schemaCost{}
}

// follow gives the cost of what a reference leads to.
func (c *schemaCheck) follow(reference, path string) schemaCost {
	target, ok := c.definitions[reference]
	switch {
	case !ok:
		c.refuse(path, "want #/$defs/<name> or #/definitions/<name> of this schema, got %.120q; a schema refers to nothing outside of itself", reference)
		return schemaCost{}
	case target.state == 1:
		c.refuse(path, "want a reference that does not lead back to itself, got %.120q; a recursive schema has no bound", reference)
	case target.state == 0:
		target.state = 1
		target.cost = c.schema(target.schema, target.path)
		target.state = 2
	}
	return target.cost
}

// pattern bounds a regular expression. Go's take time in proportion to the text
// and to their own size, never more.
func (c *schemaCheck) pattern(text, path string) schemaCost {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		c.refuse(path, "want a regular expression of Go's syntax (RE2): %.200v", err)
		return schemaCost{}
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > MaxPatternSize {
		c.refuse(path, "want a pattern that compiles to at most %d instructions, got more", MaxPatternSize)
		return schemaCost{}
	}
	return schemaCost{values: 1, instructions: len(program.Inst)}
}

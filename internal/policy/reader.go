package policy

import (
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// reader fills Go structs from a YAML tree, strictly: every key must be a field
// (by its yaml tag) and every value of the field's kind. It does not stop at a
// fault but keeps it with its place, and it remembers where each value stood,
// so that whatever is found wrong later has a place too.
type reader struct {
	at       map[string]place // by path
	refused  map[string]bool  // paths with a problem; the first is the one to tell
	problems []Problem
}

type place struct{ line, column int }

// nodeReader is a value that reads itself.
type nodeReader interface {
	readNode(r *reader, node ast.Node, path string)
}

func newReader() *reader {
	return &reader{at: map[string]place{"": {1, 1}}, refused: map[string]bool{}}
}

// refuse keeps a problem with the value at that path. Where there is none, the
// place is that of what should hold it.
func (r *reader) refuse(path, format string, args ...any) {
	if r.refused[path] {
		return
	}
	r.refused[path] = true
	at, ok := r.at[path]
	for holder := path; !ok; at, ok = r.at[holder] {
		holder = holder[:max(0, strings.LastIndexAny(holder, ".["))]
	}
	r.problems = append(r.problems, Problem{Line: at.line, Column: at.column, Path: path, Text: fmt.Sprintf(format, args...)})
}

// has reports whether the file has a value at that path.
func (r *reader) has(path string) bool {
	_, ok := r.at[path]
	return ok
}

// mark remembers where the value at that path stands: a scalar where it is, what
// holds others where it begins, and what is empty where its key is, if any.
func (r *reader) mark(path string, key, value ast.Node) {
	node := value
	switch v := value.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			node = v.Values[0].Key
		}
		if key != nil {
			node = key
		}
	case *ast.SequenceNode, *ast.NullNode, *ast.LiteralNode:
		if key != nil {
			node = key
		}
	}
	if position := node.GetToken().Position; position != nil {
		r.at[path] = place{position.Line, position.Column}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// read fills the value from the node.
func (r *reader) read(node ast.Node, path string, into reflect.Value, option string) {
	if self, ok := into.Addr().Interface().(nodeReader); ok {
		self.readNode(r, node, path)
		return
	}
	switch kind := into.Kind(); {
	case into.Type() == reflect.TypeFor[time.Duration]():
		r.readDuration(node, path, into)
	case kind == reflect.Struct:
		r.readStruct(node, path, into)
	case kind == reflect.Slice:
		r.readList(node, path, into)
	case kind == reflect.String:
		if text, ok := textOf(node); ok {
			into.SetString(text)
		} else {
			r.refuse(path, "want a text, got %s", kindOf(node))
		}
	case kind == reflect.Bool:
		if b, ok := node.(*ast.BoolNode); ok {
			into.SetBool(b.Value)
		} else {
			r.refuse(path, "want true or false, got %s", kindOf(node))
		}
	case kind == reflect.Int64 && option == "size":
		r.readSize(node, path, into)
	case kind == reflect.Int64:
		if n, ok := integerOf(node); ok {
			into.SetInt(n)
		} else {
			r.refuse(path, "want a whole number, got %s", kindOf(node))
		}
	default:
		panic("policy: field of kind " + kind.String() + " cannot be read") // a mistake in this program
	}
}

// readStruct reads a mapping into the fields of a struct, and of the structs that
// it embeds. Other keys than these are refused, but for those in also. A struct
// with a field that may stand alone (the option short in its tag) is also read
// from a text.
func (r *reader) readStruct(node ast.Node, path string, into reflect.Value, also ...string) {
	if short, ok := shortField(into); ok {
		if text, isText := textOf(node); isText {
			short.SetString(text)
			return
		}
		if _, isMapping := node.(*ast.MappingNode); !isMapping {
			r.refuse(path, "want a text or a mapping, got %s", kindOf(node))
			return
		}
	}
	fields, names := map[string]structField{}, slices.Clone(also)
	addFields(into, fields, &names)
	for key, value := range r.entries(node, path) {
		field, ok := fields[key]
		if !ok {
			if !slices.Contains(also, key) {
				r.unknownKey(join(path, key), key, node, names)
			}
			continue
		}
		r.read(value, join(path, key), field.value, field.option)
	}
}

// structField is a field of a struct, with the option of its tag.
type structField struct {
	value  reflect.Value
	option string
}

// addFields finds the fields of a struct by their names in a file.
func addFields(of reflect.Value, fields map[string]structField, names *[]string) {
	for i := range of.NumField() {
		field := of.Type().Field(i)
		if field.Anonymous {
			addFields(of.Field(i), fields, names)
			continue
		}
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		fields[name] = structField{of.Field(i), option}
		*names = append(*names, name)
	}
}

// shortField gives the field that may stand for the whole struct.
func shortField(of reflect.Value) (reflect.Value, bool) {
	for i := range of.NumField() {
		if _, option, _ := strings.Cut(of.Type().Field(i).Tag.Get("yaml"), ","); option == "short" {
			return of.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// unknownKey refuses a key, at the key.
func (r *reader) unknownKey(path, key string, mapping ast.Node, names []string) {
	for _, entry := range mapping.(*ast.MappingNode).Values {
		if k, ok := entry.Key.(*ast.StringNode); ok && k.Value == key {
			r.mark(path, nil, k)
		}
	}
	r.refuse(path, "unknown key; want one of %s", strings.Join(names, ", "))
}

// entries gives the keys and values of a mapping, and marks where they stand.
func (r *reader) entries(node ast.Node, path string) iter.Seq2[string, ast.Node] {
	return func(yield func(string, ast.Node) bool) {
		mapping, ok := node.(*ast.MappingNode)
		if !ok {
			r.refuse(path, "want a mapping, got %s", kindOf(node))
			return
		}
		for _, entry := range mapping.Values {
			key, ok := entry.Key.(*ast.StringNode)
			if !ok {
				at := join(path, fmt.Sprintf("%.60s", entry.Key.GetToken().Value))
				r.mark(at, nil, entry.Key)
				r.refuse(at, "want a text as key, in quotes if it could be something else, got another kind of key")
				continue
			}
			r.mark(join(path, key.Value), key, entry.Value)
			if !yield(key.Value, entry.Value) {
				return
			}
		}
	}
}

func (r *reader) readList(node ast.Node, path string, into reflect.Value) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		r.refuse(path, "want a list, got %s", kindOf(node))
		return
	}
	list := reflect.MakeSlice(into.Type(), len(sequence.Values), len(sequence.Values))
	for i, value := range sequence.Values {
		r.mark(item(path, i), nil, value)
		r.read(value, item(path, i), list.Index(i), "")
	}
	into.Set(list)
}

func textOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

func integerOf(node ast.Node) (int64, bool) {
	n, ok := node.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	switch v := n.Value.(type) {
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64 //nolint:gosec // the bound is checked
	}
	return 0, false
}

func (r *reader) readDuration(node ast.Node, path string, into reflect.Value) {
	text, _ := textOf(node)
	d, err := time.ParseDuration(text)
	if err != nil {
		r.refuse(path, "want a duration such as 500ms, 10s or 1h30m, got %s", kindOf(node))
		return
	}
	into.SetInt(int64(d))
}

func (r *reader) readSize(node ast.Node, path string, into reflect.Value) {
	if n, ok := integerOf(node); ok {
		into.SetInt(n)
		return
	}
	text, _ := textOf(node)
	for _, unit := range [...]struct {
		name  string
		bytes int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}} {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(digits, " "), 10, 64)
		if err == nil && n >= 0 && n <= math.MaxInt64/unit.bytes {
			into.SetInt(n * unit.bytes)
			return
		}
	}
	r.refuse(path, "want a size such as 4096, 32KiB or 1MiB, got %s", kindOf(node))
}

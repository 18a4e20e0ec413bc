package instance

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	maxCollected  = 16
	maxViolations = 3   // that an explanation tells of
	maxText       = 160 // characters of each of its parts
)

// Violation is one rule of a schema that a document breaks.
type Violation struct {
	Location []string // member names and item numbers, from the root
	Problem  string   // what is wanted, and of what kind it is that came; never a value
	Names    []string // members that the schema does not name, sorted; the document's own words
}

// Violations lists the first that the validator found, in the order of
// locations and problems, each once, 16 at most. It is empty if err is not the
// validator's.
func Violations(err error) []Violation {
	var found *jsonschema.ValidationError
	if !errors.As(err, &found) {
		return nil
	}
	return collect(found, make([]Violation, 0, maxCollected))
}

// Explain tells the first violations in one line, for instance
//
//	arguments.user_id: want string, got number
//
// The root is called as root says. Names in a location stand as "*" unless
// known takes them, so that nothing of a document that is not trusted gets into
// a log; known nil takes every name and tells those that the schema lacks. The
// text has at most some 1,000 characters.
func Explain(err error, root string, known func(name string) bool) string {
	violations := Violations(err)
	texts := make([]string, 0, maxViolations+1)
	for _, v := range violations {
		text := place(root, v.Location, known) + ": " + v.Problem
		if known == nil && len(v.Names) > 0 {
			text += ": " + short(quoted(v.Names))
		}
		if slices.Contains(texts, text) {
			continue
		}
		if len(texts) == maxViolations {
			texts = append(texts, "and more")
			break
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func place(root string, location []string, known func(string) bool) string {
	var b strings.Builder
	b.WriteString(root)
	for _, token := range location {
		switch {
		case isIndex(token):
			b.WriteString("[" + token + "]")
		case known == nil || known(token):
			b.WriteString("." + token)
		default:
			b.WriteString(".*")
		}
	}
	return short(b.String())
}

func isIndex(token string) bool {
	return token != "" && len(token) < 10 && strings.Trim(token, "0123456789") == ""
}

// collect walks to the violations that say something by themselves. There may
// be hundreds of thousands, in no order, so it keeps the first alone.
func collect(e *jsonschema.ValidationError, into []Violation) []Violation {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			into = collect(cause, into)
		}
		return into
	}
	if len(into) == maxCollected && slices.Compare(e.InstanceLocation, into[maxCollected-1].Location) > 0 {
		return into
	}
	v := Violation{Location: e.InstanceLocation, Problem: short(problem(e.ErrorKind))}
	at, known := slices.BinarySearchFunc(into, v, compare)
	if known || at == maxCollected {
		return into
	}
	if more, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		v.Names = slices.Sorted(slices.Values(more.Properties)) // the validator's order is a map's
	}
	return slices.Insert(into[:min(len(into), maxCollected-1)], at, v)
}

func compare(a, b Violation) int {
	if c := slices.Compare(a.Location, b.Location); c != 0 {
		return c
	}
	return strings.Compare(a.Problem, b.Problem)
}

// problem says what one rule wants. Of what came it tells the type or the size.
func problem(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("want %s, got %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Required:
		return "want " + quoted(k.Missing) + ", got none"
	case *kind.AdditionalProperties:
		return fmt.Sprintf("want only the members that the schema names, got %d more", len(k.Properties))
	case *kind.FalseSchema:
		return "want nothing here"
	case *kind.Enum:
		return "want one of " + values(k.Want)
	case *kind.Const:
		return "want " + values([]any{k.Want})
	case *kind.Pattern:
		return fmt.Sprintf("want a string that matches %s", k.Want)
	case *kind.Format:
		return "want a string of the format " + k.Want
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "want exactly one of the forms that the schema gives, got several at once"
		}
		return "want one of the forms that the schema gives"
	case *kind.AnyOf:
		return "want one of the forms that the schema gives"
	case *kind.Not:
		return "want another form; the schema excludes this one"
	case *kind.Contains:
		return "want an item of the form that the schema gives, got none"
	case *kind.UniqueItems:
		return fmt.Sprintf("want items that differ, got items %d and %d alike", k.Duplicates[0], k.Duplicates[1])
	case *kind.PropertyNames:
		return "want member names as the schema gives them"
	case *kind.DependentRequired:
		return "want " + quoted(k.Missing) + " beside the other members, got none"
	}
	return sizeProblem(k)
}

func sizeProblem(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("want at least %d characters, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("want at most %d characters, got %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("want at least %d items, got %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("want at most %d items, got %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("want at least %d members, got %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("want at most %d members, got %d", k.Want, k.Got)
	case *kind.MinContains:
		return fmt.Sprintf("want at least %d items of the form that the schema gives, got %d", k.Want, len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("want at most %d items of the form that the schema gives, got %d", k.Want, len(k.Got))
	case *kind.Minimum:
		return "want a number of at least " + rational(k.Want)
	case *kind.Maximum:
		return "want a number of at most " + rational(k.Want)
	case *kind.ExclusiveMinimum:
		return "want a number above " + rational(k.Want)
	case *kind.ExclusiveMaximum:
		return "want a number below " + rational(k.Want)
	case *kind.MultipleOf:
		return "want a multiple of " + rational(k.Want)
	}
	return "breaks the rule " + strings.Join(k.KeywordPath(), "/")
}

func rational(n *big.Rat) string { return short(n.RatString()) }

func quoted(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(texts, ", ")
}

// values shows scalars that a schema itself lists.
func values(list []any) string {
	texts := make([]string, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case string:
			texts[i] = fmt.Sprintf("%q", v)
		case []any, map[string]any:
			return "the values that the schema gives"
		case nil:
			texts[i] = "null"
		default:
			texts[i] = fmt.Sprint(v)
		}
	}
	return strings.Join(texts, ", ")
}

func short(text string) string {
	if runes := []rune(text); len(runes) > maxText {
		return string(runes[:maxText-1]) + "…"
	}
	return text
}

package projector

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits on the paths of one option.
const (
	MaxPaths      = 100 // in keep
	MaxEmptyPaths = 16  // in no_evidence_when_empty; each costs a pass over the response
	MaxPathBytes  = 256
	MaxPathSteps  = 16
)

// step is one step of a path: into a member by its name, into every member, or
// into every item of a list.
type step struct {
	kind stepKind
	name string
	as   string // the name that the member gets; only where a path ends, empty leaves it
}

type stepKind uint8

const (
	stepMember stepKind = iota
	stepAnyMember
	stepItems
)

// path selects values of a JSON document. It is written as member names joined
// by dots, "[]" for every item of a list, "*" for every member of an object,
// and ["name"], a JSON string, for a name that holds one of . [ ] * " or white
// space:
//
//	reservation.flights[].flight_number
//	[].price
//	payment_methods.*.source
//	headers["content-type"]
//
// A path selects the values at its end with all that they hold.
type path []step

// String writes a path of member names, for messages.
func (p path) String() string {
	names := make([]string, len(p))
	for i, s := range p {
		names[i] = s.name
	}
	return strings.Join(names, ".")
}

func parsePath(text string) (path, error) {
	if text == "" || len(text) > MaxPathBytes {
		return nil, fmt.Errorf("want a path of 1 to %d bytes, got %d", MaxPathBytes, len(text))
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("want UTF-8, got other bytes")
	}
	var p path
	for rest := text; rest != ""; {
		s, after, err := nextStep(rest, len(p) == 0)
		if err != nil {
			return nil, fmt.Errorf("want a path such as items[].id, got %q: %w at byte %d", text, err, len(text)-len(rest))
		}
		if p = append(p, s); len(p) > MaxPathSteps {
			return nil, fmt.Errorf("want at most %d steps, got more", MaxPathSteps)
		}
		rest = after
	}
	return p, nil
}

// nextStep reads one step; all but the first are led in by a dot or a bracket.
func nextStep(text string, first bool) (step, string, error) {
	if after, ok := strings.CutPrefix(text, "[]"); ok {
		return step{kind: stepItems}, after, nil
	}
	if strings.HasPrefix(text, "[") {
		return quotedStep(text)
	}
	name, dotted := strings.CutPrefix(text, ".")
	if dotted == first {
		return step{}, "", fmt.Errorf("a name follows a dot, and the first stands alone")
	}
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	name, after := name[:end], name[end:]
	if name == "*" {
		return step{kind: stepAnyMember}, after, nil
	}
	if name == "" || strings.ContainsFunc(name, notInName) {
		return step{}, "", fmt.Errorf(`a name is not empty, and one with . [ ] * " or white space stands as ["name"]`)
	}
	return step{kind: stepMember, name: name}, after, nil
}

func notInName(r rune) bool {
	return r == ']' || r == '*' || r == '"' || unicode.IsSpace(r) || unicode.IsControl(r)
}

// quotedStep reads ["name"], a JSON string in brackets.
func quotedStep(text string) (step, string, error) {
	dec := jsontext.NewDecoder(strings.NewReader(text[1:]))
	token, err := dec.ReadToken()
	if err != nil || token.Kind() != '"' {
		return step{}, "", fmt.Errorf(`a bracket holds nothing or a JSON string, as in [] and ["name"]`)
	}
	name := token.String()
	after, closed := strings.CutPrefix(text[1+dec.InputOffset():], "]")
	if !closed {
		return step{}, "", fmt.Errorf("a bracket is closed after its string")
	}
	return step{kind: stepMember, name: name}, after, nil
}

// parsePaths reads the paths of an option and reports those that are wrong.
func parsePaths(option string, texts []string, limit int, wrong *FieldErrors) []path {
	if len(texts) > limit {
		wrong.add(option, "want at most %d paths, got %d", limit, len(texts))
		return nil
	}
	paths := make([]path, 0, len(texts))
	for i, text := range texts {
		p, err := parsePath(text)
		if err != nil {
			wrong.add(fmt.Sprintf("%s[%d]", option, i), "%v", err)
			continue
		}
		paths = append(paths, p)
	}
	return paths
}

// parseMemberPaths reads paths that go through members alone.
func parseMemberPaths(option string, texts []string, limit int, wrong *FieldErrors) []path {
	paths := parsePaths(option, texts, limit, wrong)
	for i, p := range paths {
		for _, s := range p {
			if s.kind != stepMember && len(paths) == len(texts) {
				wrong.add(fmt.Sprintf("%s[%d]", option, i), "want a path of member names alone, such as meta.query, got %q", texts[i])
				break
			}
		}
	}
	return paths
}

// parseMemberPath reads the one path of an option; none gives nil.
func parseMemberPath(option, text string, wrong *FieldErrors) path {
	if text == "" {
		return nil
	}
	var inner FieldErrors
	paths := parseMemberPaths(option, []string{text}, 1, &inner)
	if len(inner) > 0 {
		wrong.add(option, "%s", inner[0].Problem)
		return nil
	}
	return paths[0]
}

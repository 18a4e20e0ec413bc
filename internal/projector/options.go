package projector

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/events"
)

// Bounds of the options that every projector has.
const (
	MinResultBytes = 64
	MaxResultBytes = 1 << 20
	MaxDepth       = events.MaxDepth
	MaxInputBytes  = 64 << 20
	MinCost        = 1000
	MaxCost        = 1_000_000_000
	MaxScopePaths  = 16

	// scopeItems bounds every list in what a result repeats of its scope.
	scopeItems = 100
	// maxNumber bounds the literal of a number that is kept, in bytes. Numbers
	// are copied as they are written, and no honest one is longer.
	maxNumber = 256
)

// Options are those that every projector has.
type Options struct {
	// MaxBytes bounds the whole result.
	MaxBytes int64 `yaml:"max_bytes,size"`
	// MaxString bounds every string, in bytes of UTF-8. Longer ones are cut
	// between characters and counted.
	MaxString int64 `yaml:"max_string,size"`
	// MaxDepth bounds how deep a part that is kept as JSON nests.
	MaxDepth int64 `yaml:"max_depth"`
	// MaxInput bounds the raw response; a larger one is an error.
	MaxInput int64 `yaml:"max_input,size"`
	// MaxCost bounds the work, in steps: a step is a value that is looked at, 16
	// bytes that are read in one pass, or a unit of the expression's cost. What
	// costs more is an error. Some ten million steps take a second.
	MaxCost int64 `yaml:"max_cost"`
	// ParseText looks into a response that is a string whose text is JSON, as
	// many tools give it. Text that is no strict JSON stays a string.
	ParseText bool `yaml:"parse_text"`
	// Scope lists paths of member names to what was searched. Each must be there,
	// and the result repeats them as "scope", also where nothing was found.
	Scope []string `yaml:"scope"`
	// Evidence is a CEL expression over the raw response, as the variable result:
	// true is EVIDENCE_FOUND, false NO_EVIDENCE. It takes the place of the rule
	// that the projector has for that. See [MaxExpression] for what may stand in it.
	Evidence string `yaml:"evidence"`
}

// defaultOptions are 16 KiB a result, 4 KiB a string, 32 levels, 1 MiB of raw
// response and ten million steps.
func defaultOptions() Options {
	return Options{MaxBytes: 16 << 10, MaxString: 4 << 10, MaxDepth: 32, MaxInput: 1 << 20, MaxCost: 10_000_000}
}

// Shared implements [Config].
func (o *Options) Shared() *Options { return o }

// bounds are the options of every projector, compiled.
type bounds struct {
	result, text, depth, input int
	cost                       int64
	parseText                  bool
	scope                      []path
	evidence                   *expression // nil leaves it to the projector
}

func (o *Options) compile(wrong *FieldErrors) bounds {
	wrong.between("max_bytes", o.MaxBytes, MinResultBytes, MaxResultBytes)
	wrong.between("max_string", o.MaxString, 1, MaxResultBytes)
	wrong.between("max_depth", o.MaxDepth, 1, MaxDepth)
	wrong.between("max_input", o.MaxInput, 1, MaxInputBytes)
	wrong.between("max_cost", o.MaxCost, MinCost, MaxCost)
	b := bounds{
		result: int(o.MaxBytes), text: int(o.MaxString), depth: int(o.MaxDepth), input: int(o.MaxInput),
		cost: o.MaxCost, parseText: o.ParseText,
		scope: parseMemberPaths("scope", o.Scope, MaxScopePaths, wrong),
	}
	if o.Evidence != "" {
		evidence, err := newExpression(o.Evidence, o.MaxCost)
		if err != nil {
			wrong.add("evidence", "%v", err)
		}
		b.evidence = evidence
	}
	return b
}

// open reads a raw response, and gives the meter of its projection.
func (b *bounds) open(raw []byte) (jsontext.Value, *meter, error) {
	if len(raw) > b.input {
		return nil, nil, fmt.Errorf("raw response: want at most max_input %d bytes, got %d", b.input, len(raw))
	}
	m := newMeter(b.cost)
	if err := m.pass(len(raw)); err != nil {
		return nil, nil, err
	}
	value, err := strictValue(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("raw response: %w", err)
	}
	if b.parseText && value.Kind() == '"' {
		if inner, ok := parsedText(value); ok {
			value = inner
		}
	}
	return value, m, nil
}

// judge says what a response is evidence of: by the expression, or, without
// one, by whether the projector found nothing in it.
func (b *bounds) judge(value jsontext.Value, m *meter, nothing bool) (events.Evidence, error) {
	found := !nothing
	if b.evidence != nil {
		var err error
		if found, err = b.evidence.holds(value, m); err != nil {
			return "", err
		}
	}
	if found {
		return events.EvidenceFound, nil
	}
	return events.EvidenceNone, nil
}

// scopeOf writes the member scope, if the policy wants one.
func (b *bounds) scopeOf(value jsontext.Value, m *meter, left *leftOut) ([]byte, error) {
	if len(b.scope) == 0 {
		return nil, nil
	}
	for _, p := range b.scope {
		if err := m.pass(len(value)); err != nil {
			return nil, err
		}
		if _, ok := at(value, p); !ok {
			return nil, fmt.Errorf("raw response: want every path in scope, got none at %s", p)
		}
	}
	w := newWalk(b, m, value, scopeItems, b.result)
	if err := w.root(b.scope); err != nil {
		return nil, err
	}
	w.left[leftPaths] = 0 // what is no part of the scope is not missing from it
	left.add(&w.left)
	return append([]byte(`,"scope":`), w.out...), nil
}

// part is how much of a result's body there is with one more entry, and what
// the entries up to there lack.
type part struct {
	end  int
	left leftOut
}

// fit puts a result together: the head, as many entries of the body as go into
// the bytes, and the tail, which tells what is left out of the first n entries.
// At least one entry stands, if there is one and least wants it.
func (b *bounds) fit(head, body []byte, parts []part, least int, tail func(n int, left leftOut) []byte) ([]byte, error) {
	for n := len(parts); n >= min(least, len(parts)); n-- {
		last := part{}
		if n > 0 {
			last = parts[n-1]
		}
		if len(head)+last.end > b.result {
			continue
		}
		end := tail(n, last.left)
		if len(head)+last.end+len(end) <= b.result {
			result := make([]byte, 0, len(head)+last.end+len(end))
			result = append(append(result, head...), body[:last.end]...)
			return append(result, end...), nil
		}
	}
	return nil, fmt.Errorf("result: want at most max_bytes %d, got more with as little in it as may be", b.result)
}

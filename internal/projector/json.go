package projector

import (
	"errors"
	"fmt"
	"strconv"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// NameJSON names the projector of [JSONConfig].
const NameJSON = "json"

// Bounds of the options of [JSONConfig].
const (
	MaxJSONItems       = 100_000
	MinJSONResultBytes = 64
	MaxJSONResultBytes = 1 << 20
	MaxJSONDepth       = events.MaxDepth

	// maxNumber bounds the literal of a number that is kept, in bytes. Numbers
	// are copied as they are written, and no honest one is longer.
	maxNumber = 256
)

// JSONConfig is the options of the json projector. It takes a raw response
// that is one JSON value and gives
//
//	{"result": …, "left_out": {"items": 3, "strings": 1, "paths": 12}}
//
// in compact JSON, members in the order in which they came, numbers as they
// were written. "left_out" counts what is missing and stands only where
// something is: items of lists, strings that were cut, and values that no path
// keeps (an object or list that is left out whole counts as one).
//
// NO_EVIDENCE is a response that is empty: null, {}, [], a string that is blank,
// or a string whose text is JSON and one of those; and a response whose paths
// in NoEvidenceWhenEmpty are all there and all empty. A path that is not there
// says nothing: an error message is no proof that nothing was found.
//
// A response that is not strict JSON (UTF-8 without lone surrogates, member
// names unique), or of which the paths keep nothing, is an error.
type JSONConfig struct {
	// Keep lists what the agent may see, as paths such as items[].id; without
	// any it may see everything.
	Keep []string `yaml:"keep"`
	// MaxItems bounds every list.
	MaxItems int64 `yaml:"max_items"`
	// MaxBytes bounds the whole result. Where it is larger, every list is cut to
	// the largest length, one for all, with which it fits; a list is never cut
	// to nothing.
	MaxBytes int64 `yaml:"max_bytes,size"`
	// MaxString bounds every string, in bytes of UTF-8. Longer ones are cut
	// between characters. A kept member name that is longer is an error.
	MaxString int64 `yaml:"max_string,size"`
	// MaxDepth bounds how deep the kept part nests; what is deeper is an error.
	MaxDepth int64 `yaml:"max_depth"`
	// ParseText looks into a response that is a string whose text is JSON, as
	// many tools give it. Text that is no strict JSON stays a string.
	ParseText bool `yaml:"parse_text"`
	// NoEvidenceWhenEmpty lists paths; see above.
	NoEvidenceWhenEmpty []string `yaml:"no_evidence_when_empty"`
}

// DefaultJSON returns the defaults: everything is kept, 100 items a list, 16 KiB
// a result, 4 KiB a string, 32 levels.
func DefaultJSON() *JSONConfig {
	return &JSONConfig{MaxItems: 100, MaxBytes: 16 << 10, MaxString: 4 << 10, MaxDepth: 32}
}

// ResultBytes implements [Config].
func (c *JSONConfig) ResultBytes() int64 { return c.MaxBytes }

// LowerResultBytes implements [Config].
func (c *JSONConfig) LowerResultBytes(most int64) { c.MaxBytes = min(c.MaxBytes, most) }

// Validate implements [Config].
func (c *JSONConfig) Validate() error {
	_, err := c.compile()
	return err
}

// New implements [Config].
func (c *JSONConfig) New() (harness.Projector, error) { return c.compile() }

func (c *JSONConfig) compile() (*jsonProjector, error) {
	var wrong FieldErrors
	between := func(option string, value, low, high int64) {
		if value < low || value > high {
			wrong.add(option, "want %d to %d, got %d", low, high, value)
		}
	}
	between("max_items", c.MaxItems, 1, MaxJSONItems)
	between("max_bytes", c.MaxBytes, MinJSONResultBytes, MaxJSONResultBytes)
	between("max_string", c.MaxString, 1, MaxJSONResultBytes)
	between("max_depth", c.MaxDepth, 1, MaxJSONDepth)
	p := &jsonProjector{
		keep:      parsePaths("keep", c.Keep, MaxPaths, &wrong),
		whenEmpty: parsePaths("no_evidence_when_empty", c.NoEvidenceWhenEmpty, MaxEmptyPaths, &wrong),
		items:     int(c.MaxItems), bytes: int(c.MaxBytes), text: int(c.MaxString), depth: int(c.MaxDepth),
		parseText: c.ParseText,
	}
	if c.Keep != nil && len(c.Keep) == 0 {
		wrong.add("keep", "want at least one path, or no keep at all to keep everything, got an empty list")
	}
	if err := wrong.orNil(); err != nil {
		return nil, err
	}
	return p, nil
}

type jsonProjector struct {
	keep      []path // empty keeps everything
	whenEmpty []path
	items     int
	bytes     int
	text      int
	depth     int
	parseText bool
}

// Reasons why a response has no projection.
var (
	errOver        = errors.New("result: over max_bytes")
	errNothingKept = errors.New("raw response: none of the paths in keep is there; want a response of the shape that the policy describes")
)

// Project implements [harness.Projector]. The work is linear in the raw
// response, but for one pass for each path in NoEvidenceWhenEmpty and at most
// 17 where the result is too large.
func (p *jsonProjector) Project(raw []byte) (harness.Projection, error) {
	value, err := strictValue(raw)
	if err != nil {
		return harness.Projection{}, fmt.Errorf("raw response: %w", err)
	}
	if p.parseText && value.Kind() == '"' {
		if inner, ok := parsedText(value); ok {
			value = inner
		}
	}
	projection := harness.Projection{Evidence: events.EvidenceFound}
	keep := p.keep
	switch {
	case isEmpty(value):
		projection.Evidence = events.EvidenceNone
		keep = nil // there is nothing that a path could hide
	case p.allEmpty(value):
		projection.Evidence = events.EvidenceNone
	}
	projection.Result, err = p.fit(value, keep)
	return projection, err
}

// fit renders the value with the longest lists that its bytes allow.
func (p *jsonProjector) fit(value []byte, keep []path) ([]byte, error) {
	result, err := p.render(value, keep, p.items)
	if !errors.Is(err, errOver) {
		return result, err
	}
	best := []byte(nil)
	for low, high := 1, p.items-1; low <= high; {
		middle := low + (high-low)/2
		result, err := p.render(value, keep, middle)
		switch {
		case err == nil:
			best, low = result, middle+1
		case errors.Is(err, errOver):
			high = middle - 1
		default:
			return nil, err
		}
	}
	if best == nil {
		return nil, fmt.Errorf("result: want at most max_bytes %d, got more even with one item in every list", p.bytes)
	}
	return best, nil
}

// render writes the whole result with lists of at most that many items. Its
// error is errOver where the result is larger than it may be.
func (p *jsonProjector) render(value []byte, keep []path, items int) ([]byte, error) {
	w := newWalk(p, value, items)
	w.out = append(w.out, `{"result":`...)
	if err := w.root(keep); err != nil {
		return nil, err
	}
	w.out = w.left.append(w.out)
	w.out = append(w.out, '}')
	if len(w.out) > p.bytes {
		return nil, errOver
	}
	return w.out, nil
}

// leftOut counts what a result lacks.
type leftOut struct{ items, strings, paths int64 }

func (l leftOut) append(b []byte) []byte {
	if l == (leftOut{}) {
		return b
	}
	b = append(b, `,"left_out":{`...)
	for _, c := range [...]struct {
		name string
		n    int64
	}{{"items", l.items}, {"strings", l.strings}, {"paths", l.paths}} {
		if c.n == 0 {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, c.name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, c.n, 10)
	}
	return append(b, '}')
}

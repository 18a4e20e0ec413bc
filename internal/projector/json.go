package projector

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/harness"
)

// NameJSON names the projector of [JSONConfig].
const NameJSON = "json"

// MaxItems bounds the options that count entries: items, rows, columns, samples,
// passages.
const MaxItems = 100_000

// JSONConfig is the options of the json projector. It takes a raw response
// that is one JSON value and gives
//
//	{"result": …, "scope": {…}, "left_out": {"items": 3, "strings": 1, "paths": 12}}
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
//
// Where the result is larger than MaxBytes, every list is cut to the largest
// length, one for all, with which it fits; a list is never cut to nothing. A
// kept member name that is longer than MaxString is an error, and so is a kept
// part that is deeper than MaxDepth, and two members of one object that would
// get one name.
type JSONConfig struct {
	Options
	// Keep lists what the agent may see, as paths such as items[].id; without
	// any it may see everything.
	Keep []Keep `yaml:"keep"`
	// MaxItems bounds every list.
	MaxItems int64 `yaml:"max_items"`
	// NoEvidenceWhenEmpty lists paths; see above.
	NoEvidenceWhenEmpty []string `yaml:"no_evidence_when_empty"`
}

// DefaultJSON returns the defaults: everything is kept, 100 items a list, and
// those of all projectors.
func DefaultJSON() *JSONConfig { return &JSONConfig{Options: defaultOptions(), MaxItems: 100} }

// Validate implements [Config].
func (c *JSONConfig) Validate() error {
	_, err := c.compile()
	return err
}

// New implements [Config].
func (c *JSONConfig) New() (harness.Projector, error) { return c.compile() }

func (c *JSONConfig) compile() (*jsonProjector, error) {
	var wrong FieldErrors
	p := &jsonProjector{
		bounds:    c.Options.compile(&wrong),
		keep:      parseKeep(c.Keep, &wrong),
		whenEmpty: parsePaths("no_evidence_when_empty", c.NoEvidenceWhenEmpty, MaxEmptyPaths, &wrong),
		items:     int(c.MaxItems),
	}
	wrong.between("max_items", c.MaxItems, 1, MaxItems)
	if c.Evidence != "" && len(c.NoEvidenceWhenEmpty) > 0 {
		wrong.add("no_evidence_when_empty", "want either this or evidence, got both")
	}
	if err := wrong.orNil(); err != nil {
		return nil, err
	}
	return p, nil
}

type jsonProjector struct {
	bounds
	keep      []path // empty keeps everything
	whenEmpty []path
	items     int
}

// Reasons why a response has no projection.
var (
	errOver        = errors.New("result: want at most max_bytes, got more")
	errNothingKept = errors.New("raw response: none of the paths in keep is there; want a response of the shape that the policy describes")
)

// Project implements [harness.Projector]. The work is linear in the raw
// response, but for one pass for each path in NoEvidenceWhenEmpty and at most
// 17 where the result is too large.
func (p *jsonProjector) Project(raw []byte) (projection harness.Projection, err error) {
	value, m, err := p.open(raw)
	if err != nil {
		return projection, err
	}
	if err := m.pass((1 + len(p.whenEmpty)) * len(value)); err != nil {
		return projection, err
	}
	empty := isEmpty(value)
	projection.Evidence, err = p.judge(value, m, empty || allEmpty(value, p.whenEmpty))
	if err != nil {
		return projection, err
	}
	var left leftOut
	scope, err := p.scopeOf(value, m, &left)
	if err != nil {
		return projection, err
	}
	keep := p.keep
	if empty {
		keep = nil // there is nothing that a path could hide
	}
	projection.Result, err = p.render(value, keep, m, scope, left)
	return projection, err
}

// render writes the whole result, with the longest lists that its bytes allow.
func (p *jsonProjector) render(value jsontext.Value, keep []path, m *meter, scope []byte, left leftOut) ([]byte, error) {
	return longest(p.items, func(items int) ([]byte, error) {
		w := newWalk(&p.bounds, m, value, items, p.result)
		w.left = left
		w.out = append(w.out, `{"result":`...)
		if err := w.root(keep); err != nil {
			return nil, err
		}
		w.out = append(w.out, scope...)
		w.out = w.left.append(w.out)
		w.out = append(w.out, '}')
		if len(w.out) > p.result {
			return nil, errOver
		}
		return w.out, nil
	})
}

// longest renders with lists of at most as many items as it may be, or of the
// largest number with which the result is not over.
func longest(most int, render func(items int) ([]byte, error)) ([]byte, error) {
	best, err := render(most)
	if !errors.Is(err, errOver) {
		return best, err
	}
	for low, high := 1, most-1; low <= high; {
		middle := low + (high-low)/2
		result, err := render(middle)
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
		return nil, fmt.Errorf("%w even with one item in every list", errOver)
	}
	return best, nil
}

package projector

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/harness"
)

// NameText names the projector of [TextConfig].
const NameText = "text"

// TextConfig is the options of the text projector. It takes a text, as the
// response or in it, and gives
//
//	{"text": "…", "scope": {…}, "left_out": {"bytes": 1234}}
//
// with the beginning of the text: at most MaxString bytes, and what goes into
// MaxBytes, cut between characters. "left_out" counts the bytes that were cut,
// and the values around the text.
//
// NO_EVIDENCE is a text that is blank, or null.
type TextConfig struct {
	Options
	// Text leads to the text; empty is the response itself, or its member "text"
	// where it is an object.
	Text string `yaml:"text"`
}

// DefaultText returns the defaults: 8 KiB of text.
func DefaultText() *TextConfig {
	c := &TextConfig{Options: defaultOptions()}
	c.MaxString = 8 << 10
	return c
}

// Validate implements [Config].
func (c *TextConfig) Validate() error {
	_, err := c.compile()
	return err
}

// New implements [Config].
func (c *TextConfig) New() (harness.Projector, error) { return c.compile() }

func (c *TextConfig) compile() (*textProjector, error) {
	var wrong FieldErrors
	p := &textProjector{bounds: c.Options.compile(&wrong), at: parseMemberPath("text", c.Text, &wrong)}
	if err := wrong.orNil(); err != nil {
		return nil, err
	}
	return p, nil
}

type textProjector struct {
	bounds
	at path
}

// Project implements [harness.Projector]. The work is linear in the raw
// response, but for at most 20 passes over what is shown of it.
func (p *textProjector) Project(raw []byte) (projection harness.Projection, err error) {
	value, m, err := p.open(raw)
	if err != nil {
		return projection, err
	}
	if err := m.pass(3 * len(value)); err != nil {
		return projection, err
	}
	to := p.at
	if to == nil && value.Kind() == '{' {
		to = path{{kind: stepMember, name: "text"}}
	}
	found, ok := at(value, to)
	text, isText := textOf(found)
	if !ok || !isText && found.Kind() != 'n' {
		return projection, errors.New("raw response: want a text as the response or where the policy says, got none")
	}
	if projection.Evidence, err = p.judge(value, m, strings.TrimSpace(text) == ""); err != nil {
		return projection, err
	}
	var left leftOut
	scope, err := p.scopeOf(value, m, &left)
	if err != nil {
		return projection, err
	}
	if len(to) > 0 {
		left[leftPaths] += others(value, append([]path{to}, p.scope...))
	}
	projection.Result, err = p.render(text, m, scope, left)
	return projection, err
}

// render shows as much of the text as its bytes allow.
func (p *textProjector) render(text string, m *meter, scope []byte, left leftOut) ([]byte, error) {
	with := func(limit int) ([]byte, error) {
		left := left
		shown, _ := cut(text, limit)
		if err := m.pass(len(shown)); err != nil {
			return nil, err
		}
		left[leftBytes] = int64(len(text) - len(shown))
		out, err := jsontext.AppendQuote([]byte(`{"text":`), shown)
		if err != nil {
			return nil, err
		}
		return append(left.append(append(out, scope...)), '}'), nil
	}
	best, err := with(min(p.text, len(text)))
	if err != nil || len(best) <= p.result {
		return best, err
	}
	best = nil
	for low, high := 1, min(p.text, len(text), p.result); low <= high; {
		middle := low + (high-low)/2
		result, err := with(middle)
		if err != nil {
			return nil, err
		}
		if len(result) <= p.result {
			best, low = result, middle+1
		} else {
			high = middle - 1
		}
	}
	if best == nil {
		return nil, fmt.Errorf("result: want at most max_bytes %d, got more with one byte of text", p.result)
	}
	return best, nil
}

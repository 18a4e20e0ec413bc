package projector

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/harness"
)

// NamePassages names the projector of [PassagesConfig].
const NamePassages = "passages"

// PassagesConfig is the options of the passages projector, for what a retrieval
// found. It takes a list of passages, objects or texts, as the response or in
// it, and gives
//
//	{"passages": [{"source": "kb/42", "score": 0.83, "text": "…"}], "total": 5,
//	 "scope": {…}, "left_out": {"passages": 4, "strings": 1}}
//
// in the order in which they came. "total" is how many the response has. Source
// and score stand as they were given, a text or a number, where a passage has
// them. "left_out" counts the passages that are not shown, strings that were
// cut, and other members of shown passages and values around the passages.
//
// NO_EVIDENCE is a result without passages.
//
// Where the result is larger than MaxBytes, passages are left out from the end;
// one always stands. A passage without text is an error.
type PassagesConfig struct {
	Options
	// Passages leads to the list; empty is the response itself, or its member
	// "passages" where it is an object.
	Passages string `yaml:"passages"`
	// Text, Source and Score lead to these within one passage, and a text must then
	// be there. Empty takes the first there is of the usual names: text, content,
	// page_content, passage, chunk, snippet; source, url, uri, metadata.source,
	// metadata.url, document, document_id, id; score, relevance_score, relevance,
	// similarity, distance, _score.
	Text   string `yaml:"text"`
	Source string `yaml:"source"`
	Score  string `yaml:"score"`
	// MaxPassages bounds what is shown; MaxString bounds a text and a source.
	MaxPassages int64 `yaml:"max_passages"`
}

// DefaultPassages returns the defaults: 20 passages, 2 KiB a text.
func DefaultPassages() *PassagesConfig {
	c := &PassagesConfig{Options: defaultOptions(), MaxPassages: 20}
	c.MaxString = 2 << 10
	return c
}

// Validate implements [Config].
func (c *PassagesConfig) Validate() error {
	_, err := c.compile()
	return err
}

// New implements [Config].
func (c *PassagesConfig) New() (harness.Projector, error) { return c.compile() }

func (c *PassagesConfig) compile() (*passagesProjector, error) {
	var wrong FieldErrors
	p := &passagesProjector{
		bounds: c.Options.compile(&wrong),
		at:     parseMemberPath("passages", c.Passages, &wrong),
		most:   int(c.MaxPassages),
	}
	either := func(option, given string, usual ...string) []path {
		if given != "" {
			usual = []string{given}
		}
		paths := make([]path, 0, len(usual))
		for _, text := range usual {
			if to := parseMemberPath(option, text, &wrong); to != nil {
				paths = append(paths, to)
			}
		}
		return paths
	}
	p.text = either("text", c.Text, "text", "content", "page_content", "passage", "chunk", "snippet")
	p.source = either("source", c.Source, "source", "url", "uri", "metadata.source", "metadata.url", "document", "document_id", "id")
	p.score = either("score", c.Score, "score", "relevance_score", "relevance", "similarity", "distance", "_score")
	wrong.between("max_passages", c.MaxPassages, 1, MaxItems)
	if err := wrong.orNil(); err != nil {
		return nil, err
	}
	return p, nil
}

type passagesProjector struct {
	bounds
	at                  path
	text, source, score []path
	most                int
}

// Project implements [harness.Projector]. The work is linear in the raw
// response, but for one pass over what a shown passage has in metadata for each
// place there where a part of it may stand.
func (p *passagesProjector) Project(raw []byte) (projection harness.Projection, err error) {
	value, m, err := p.open(raw)
	if err != nil {
		return projection, err
	}
	if err := m.pass(3 * len(value)); err != nil {
		return projection, err
	}
	passages, used, err := list(value, p.at, "passages")
	if err != nil {
		return projection, err
	}
	count := 0
	var body []byte
	var parts []part
	for i, passage := range items(passages) {
		count++
		if i >= p.most || len(body) > p.result {
			continue
		}
		next := part{}
		if i > 0 {
			next = parts[i-1]
			body = append(body, ',')
		}
		if body, err = p.appendPassage(body, passage, i, m, &next.left); err != nil {
			return projection, err
		}
		next.end = len(body)
		parts = append(parts, next)
	}
	if projection.Evidence, err = p.judge(value, m, count == 0); err != nil {
		return projection, err
	}
	var around leftOut
	scope, err := p.scopeOf(value, m, &around)
	if err != nil {
		return projection, err
	}
	if len(used) > 0 {
		around[leftPaths] += others(value, append([]path{used}, p.scope...))
	}
	projection.Result, err = p.fit([]byte(`{"passages":[`), body, parts, 1, func(n int, left leftOut) []byte {
		left.add(&around)
		left[leftPassages] = int64(count - n)
		tail := strconv.AppendInt([]byte(`],"total":`), int64(count), 10)
		return append(left.append(append(tail, scope...)), '}')
	})
	return projection, err
}

func (p *passagesProjector) appendPassage(out []byte, passage jsontext.Value, i int, m *meter, left *leftOut) ([]byte, error) {
	if err := m.pass(2 * len(passage)); err != nil {
		return nil, err
	}
	if text, ok := textOf(passage); ok {
		return append(left.appendText(append(out, `{"text":`...), text, p.bounds.text), '}'), nil
	}
	fields := maps.Collect(members(passage))
	value, used, ok := first(fields, p.text, isTextValue)
	text, _ := textOf(value)
	if !ok {
		return nil, fmt.Errorf("raw response: want a text in every passage, or as every passage, got none in passage %d", i+1)
	}
	shown := []path{used}
	out = append(out, '{')
	for _, more := range [...]struct {
		name  string
		paths []path
	}{{"source", p.source}, {"score", p.score}} {
		value, used, ok := first(fields, more.paths, isTextOrNumber)
		if !ok {
			continue
		}
		shown = append(shown, used)
		out = append(append(append(out, '"'), more.name...), `":`...)
		if text, ok := textOf(value); ok {
			out = left.appendText(out, text, p.bounds.text)
		} else {
			if err := checkNumber(value); err != nil {
				return nil, err
			}
			out = append(out, value...)
		}
		out = append(out, ',')
	}
	left[leftPaths] += others(passage, shown)
	return append(left.appendText(append(out, `"text":`...), text, p.bounds.text), '}'), nil
}

// first gives the first of the values to which the paths lead that is fit.
func first(fields map[string]jsontext.Value, paths []path, fit func(jsontext.Value) bool) (jsontext.Value, path, bool) {
	for _, p := range paths {
		if field, ok := fields[p[0].name]; ok {
			if found, ok := at(field, p[1:]); ok && fit(found) {
				return found, p, true
			}
		}
	}
	return nil, nil, false
}

func isTextValue(value jsontext.Value) bool { return value.Kind() == '"' }

func isTextOrNumber(value jsontext.Value) bool { return value.Kind() == '"' || value.Kind() == '0' }

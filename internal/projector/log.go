package projector

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/harness"
)

// NameLog names the projector of [LogConfig].
const NameLog = "log"

// LogConfig is the options of the log projector. It takes log lines, as one text
// or as a list of texts or objects, as the response or in it, and gives
//
//	{"lines": 1200, "levels": {"ERROR": 3, "INFO": 1197},
//	 "first": {"line": 1, "level": "INFO", "text": "…"}, "last": {…},
//	 "samples": [{"line": 7, "level": "ERROR", "text": "…"}], "scope": {…}, "left_out": {…}}
//
// Blank lines of a text are no lines. The levels are FATAL, ERROR, WARN, INFO,
// DEBUG, TRACE and, for what tells none, OTHER; they are read from a line's own
// words (see levelOf). Samples are the most severe lines, of those the earliest,
// in the order of the log. A line that is a JSON object, or the text of one, is
// shown by its message and time. "left_out" counts the lines that are not shown,
// strings that were cut, and members of shown objects and values around the
// lines.
//
// NO_EVIDENCE is a log without lines.
//
// Where the result is larger than MaxBytes, samples are left out, the least
// severe first. The first line and the last always stand.
type LogConfig struct {
	Options
	// Lines leads to the lines; empty is the response itself, or its member "lines"
	// where it is an object.
	Lines string `yaml:"lines"`
	// MaxSamples bounds the samples; the first line and the last come on top.
	MaxSamples int64 `yaml:"max_samples"`
}

// DefaultLog returns the defaults: 20 samples, 500 bytes a line.
func DefaultLog() *LogConfig {
	c := &LogConfig{Options: defaultOptions(), MaxSamples: 20}
	c.MaxString = 500
	return c
}

// Validate implements [Config].
func (c *LogConfig) Validate() error {
	_, err := c.compile()
	return err
}

// New implements [Config].
func (c *LogConfig) New() (harness.Projector, error) { return c.compile() }

func (c *LogConfig) compile() (*logProjector, error) {
	var wrong FieldErrors
	p := &logProjector{bounds: c.Options.compile(&wrong), at: parseMemberPath("lines", c.Lines, &wrong), samples: int(c.MaxSamples)}
	wrong.between("max_samples", c.MaxSamples, 1, MaxItems)
	if err := wrong.orNil(); err != nil {
		return nil, err
	}
	return p, nil
}

type logProjector struct {
	bounds
	at      path
	samples int
}

// Project implements [harness.Projector]. The work is linear in the raw
// response.
func (p *logProjector) Project(raw []byte) (projection harness.Projection, err error) {
	value, m, err := p.open(raw)
	if err != nil {
		return projection, err
	}
	if err := m.pass(6 * len(value)); err != nil { // to find, unquote, split, read levels, and find what else there is
		return projection, err
	}
	lines, used, err := logLines(value, p.at)
	if err != nil {
		return projection, err
	}
	d := &digest{logProjector: p}
	for line := range lines {
		if err := m.spend(1); err != nil {
			return projection, err
		}
		if err := d.add(line); err != nil {
			return projection, err
		}
	}
	if projection.Evidence, err = p.judge(value, m, d.count == 0); err != nil {
		return projection, err
	}
	scope, err := p.scopeOf(value, m, &d.around)
	if err != nil {
		return projection, err
	}
	if len(used) > 0 {
		d.around[leftPaths] += others(value, append([]path{used}, p.scope...))
	}
	projection.Result, err = d.render(scope)
	return projection, err
}

// logLines gives the lines that a path leads to, each as a JSON string or
// object, or as text.
func logLines(value jsontext.Value, p path) (iter.Seq[logLine], path, error) {
	to := p
	if to == nil && value.Kind() == '{' {
		to = path{{kind: stepMember, name: "lines"}}
	}
	found, _ := at(value, to)
	if text, ok := textOf(found); ok {
		return textLines(text), to, nil
	}
	found, used, err := list(value, p, "lines")
	if err != nil {
		return nil, nil, fmt.Errorf("%w; a text does as well", err)
	}
	return func(yield func(logLine) bool) {
		for _, item := range items(found) {
			text, _ := textOf(item)
			if !yield(logLine{text: text, value: item}) {
				return
			}
		}
	}, used, nil
}

// logLine is one line: a text, or an item of a list.
type logLine struct {
	text  string
	value jsontext.Value // nil for a line of a text
	index int            // from 1
	level level
}

func textLines(text string) iter.Seq[logLine] {
	return func(yield func(logLine) bool) {
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimSuffix(line, "\r")
			if strings.TrimSpace(line) != "" && !yield(logLine{text: line}) {
				return
			}
		}
	}
}

// digest is what is kept of a log while it is read.
type digest struct {
	*logProjector
	count       int
	levels      [levelsEnd]int64
	first, last logLine
	severe      [levelsEnd][]logLine // the earliest of each level, without the first line
	around      leftOut
}

func (d *digest) add(line logLine) error {
	d.count++
	line.index = d.count
	fields := line.value
	switch kind := line.value.Kind(); {
	case line.value == nil, kind == '"':
		fields = nil
		if strings.HasPrefix(strings.TrimLeft(line.text, " \t"), "{") {
			fields, _ = strictValue([]byte(line.text))
		}
	case kind != '{':
		return fmt.Errorf("raw response: want log lines that are texts or objects, got another at line %d", d.count)
	}
	if fields != nil {
		line.value = fields
		line.level = levelOfObject(fields)
	} else {
		line.value = nil
		line.level = levelOf(line.text)
	}
	d.levels[line.level]++
	if d.count == 1 {
		d.first = line
		return nil
	}
	// One more than there may be samples, since one of them can be the last line.
	if of := &d.severe[line.level]; len(*of) <= d.samples {
		*of = append(*of, line)
	}
	d.last = line
	return nil
}

// render shows the first line, the last, and as many samples as fit.
func (d *digest) render(scope []byte) ([]byte, error) {
	head := strconv.AppendInt([]byte(`{"lines":`), int64(d.count), 10)
	head = append(head, `,"levels":{`...)
	for l, n := range d.levels {
		if n == 0 {
			continue
		}
		if head[len(head)-1] != '{' {
			head = append(head, ',')
		}
		head = append(head, '"')
		head = append(head, level(l).String()...)
		head = strconv.AppendInt(append(head, `":`...), n, 10)
	}
	head = append(head, '}')
	ends := 0
	for _, end := range [...]struct {
		name string
		line logLine
	}{{"first", d.first}, {"last", d.last}} {
		if end.line.index == 0 {
			continue
		}
		ends++
		head = append(append(append(head, `,"`...), end.name...), `":`...)
		head = d.appendLine(head, end.line, &d.around)
	}
	head = append(head, `,"samples":[`...)
	return d.fitSamples(head, scope, ends)
}

// fitSamples finds how many of the most severe lines fit, and puts those in the
// order of the log.
func (d *digest) fitSamples(head, scope []byte, ends int) ([]byte, error) {
	var chosen []logLine
	for l := range d.severe {
		for _, line := range d.severe[l] {
			if line.index != d.last.index && len(chosen) < d.samples {
				chosen = append(chosen, line)
			}
		}
	}
	var size []byte // of the samples; only its length counts
	var parts []part
	left := leftOut{}
	for i, line := range chosen {
		if len(size) > d.result {
			break
		}
		if i > 0 {
			size = append(size, ',')
		}
		size = d.appendLine(size, line, &left)
		parts = append(parts, part{end: len(size), left: left})
	}
	tail := func(n int, left leftOut) []byte {
		left.add(&d.around)
		left[leftLines] = int64(d.count - n - ends)
		end := append([]byte("]"), scope...)
		return append(left.append(end), '}')
	}
	shown := 0
	if _, err := d.fit(head, size, parts, 0, func(n int, left leftOut) []byte {
		shown = n // the last one asked for is the one that fits
		return tail(n, left)
	}); err != nil {
		return nil, err
	}
	chosen = chosen[:shown]
	slices.SortFunc(chosen, func(a, b logLine) int { return a.index - b.index })
	left = leftOut{}
	for i, line := range chosen {
		if i > 0 {
			head = append(head, ',')
		}
		head = d.appendLine(head, line, &left)
	}
	return append(head, tail(shown, left)...), nil
}

func (d *digest) appendLine(out []byte, line logLine, left *leftOut) []byte {
	out = strconv.AppendInt(append(out, `{"line":`...), int64(line.index), 10)
	out = append(append(append(out, `,"level":"`...), line.level.String()...), '"')
	text := line.text
	if line.value != nil {
		var when string
		when, text = partsOfObject(line.value, line.level, left)
		if when != "" {
			out = left.appendText(append(out, `,"time":`...), when, d.text)
		}
	}
	return append(left.appendText(append(out, `,"text":`...), text, d.text), '}')
}

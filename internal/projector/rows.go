package projector

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/harness"
)

// NameRows names the projector of [RowsConfig].
const NameRows = "rows"

// RowsConfig is the options of the rows projector, for the results of queries.
// It takes rows that are objects, or lists of cells under a list of columns, as
// the response or in it, and gives them in the shape in which they came:
//
//	{"rows": [{"id": 7, "name": "a"}], "total": 1, "scope": {…}, "left_out": {…}}
//	{"columns": ["id", "name"], "rows": [[7, "a"]], "total": 1, …}
//
// "total" is how many rows there are: those of the response, or what Total leads
// to. "left_out" counts the rows of the response that are not shown, the columns
// that no shown row has (each once), cells that are too large to show (null
// stands for them) and strings that were cut; and values around the rows.
//
// NO_EVIDENCE is a result of no rows whose total is 0.
//
// Where the result is larger than MaxBytes, rows are left out from the end; one
// row always stands. A row that is neither is an error, and so is a list with
// another number of cells than there are columns.
type RowsConfig struct {
	Options
	// Rows leads to the list of rows; empty is the response itself where that is a
	// list, and its member "rows" where it is an object.
	Rows string `yaml:"rows"`
	// Columns leads to the names of the columns: strings, or objects with a member
	// "name". Empty is the member "columns" where rows are lists.
	Columns string `yaml:"columns"`
	// Total leads to how many rows there are in all; then it must be there.
	Total string `yaml:"total"`
	// Keep lists the columns that the agent may see, by name; without any it may
	// see all of them.
	Keep []string `yaml:"keep"`
	// MaxRows and MaxColumns bound what is shown; MaxString bounds a cell.
	MaxRows    int64 `yaml:"max_rows"`
	MaxColumns int64 `yaml:"max_columns"`
}

// DefaultRows returns the defaults: 100 rows of 50 columns, 1 KiB a cell.
func DefaultRows() *RowsConfig {
	c := &RowsConfig{Options: defaultOptions(), MaxRows: 100, MaxColumns: 50}
	c.MaxString = 1 << 10
	return c
}

// Validate implements [Config].
func (c *RowsConfig) Validate() error {
	_, err := c.compile()
	return err
}

// New implements [Config].
func (c *RowsConfig) New() (harness.Projector, error) { return c.compile() }

func (c *RowsConfig) compile() (*rowsProjector, error) {
	var wrong FieldErrors
	p := &rowsProjector{
		bounds:    c.Options.compile(&wrong),
		rowsAt:    parseMemberPath("rows", c.Rows, &wrong),
		columnsAt: parseMemberPath("columns", c.Columns, &wrong),
		totalAt:   parseMemberPath("total", c.Total, &wrong),
		maxRows:   int(c.MaxRows), maxColumns: int(c.MaxColumns),
	}
	wrong.between("max_rows", c.MaxRows, 1, MaxItems)
	wrong.between("max_columns", c.MaxColumns, 1, MaxItems)
	if c.Keep != nil && len(c.Keep) == 0 || len(c.Keep) > MaxPaths {
		wrong.add("keep", "want 1 to %d columns, or no keep at all to keep all of them, got %d", MaxPaths, len(c.Keep))
	}
	for _, name := range c.Keep {
		if p.keep == nil {
			p.keep = map[string]bool{}
		}
		p.keep[name] = true
	}
	if err := wrong.orNil(); err != nil {
		return nil, err
	}
	return p, nil
}

type rowsProjector struct {
	bounds
	rowsAt, columnsAt, totalAt path
	keep                       map[string]bool // nil keeps all
	maxRows, maxColumns        int
}

// Project implements [harness.Projector]. The work is linear in the raw
// response.
func (p *rowsProjector) Project(raw []byte) (projection harness.Projection, err error) {
	value, m, err := p.open(raw)
	if err != nil {
		return projection, err
	}
	if err := m.pass(4 * len(value)); err != nil { // to find, count, and find what else there is
		return projection, err
	}
	rows, used, err := list(value, p.rowsAt, "rows")
	if err != nil {
		return projection, err
	}
	t := &table{rowsProjector: p, m: m, used: append([]path{used}, p.scope...), dropped: map[string]bool{}, seen: map[string]bool{}}
	if err := t.read(value, rows); err != nil {
		return projection, err
	}
	if projection.Evidence, err = p.judge(value, m, t.count == 0 && t.total == 0); err != nil {
		return projection, err
	}
	scope, err := p.scopeOf(value, m, &t.around)
	if err != nil {
		return projection, err
	}
	if len(used) > 0 {
		t.around[leftPaths] += others(value, t.used)
	}
	projection.Result, err = t.render(scope)
	return projection, err
}

// table is one result while it is put together.
type table struct {
	*rowsProjector
	m       *meter
	used    []path
	shape   jsontext.Kind // of every row
	names   []string      // of columns, where rows are lists
	shown   []bool        // of names
	count   int           // rows of the response
	total   int64
	around  leftOut         // not of single rows
	seen    map[string]bool // columns of objects that are shown
	dropped map[string]bool // and that are not
	body    []byte
	parts   []part
}

func (t *table) read(value, rows jsontext.Value) error {
	for _, first := range items(rows) {
		t.shape = first.Kind()
		break
	}
	if t.shape != '{' {
		if err := t.readColumns(value); err != nil {
			return err
		}
	}
	for i, row := range items(rows) {
		t.count++
		if i >= t.maxRows || len(t.body) > t.result {
			continue
		}
		if err := t.row(row); err != nil {
			return err
		}
	}
	t.total = int64(t.count)
	if t.totalAt == nil {
		return nil
	}
	t.used = append(t.used, t.totalAt)
	literal, ok := at(value, t.totalAt)
	n, err := strconv.ParseInt(string(literal), 10, 64)
	if !ok || err != nil || n < 0 {
		return fmt.Errorf("raw response: want a whole number of rows at %s, got none", t.totalAt)
	}
	t.total = n
	return nil
}

// readColumns reads the names of the columns. Rows that are lists need them; a
// table without rows may tell them.
func (t *table) readColumns(value jsontext.Value) error {
	p := t.columnsAt
	if p == nil {
		p = path{{kind: stepMember, name: "columns"}}
	}
	list, ok := at(value, p)
	if !ok && t.shape != '[' {
		return nil
	}
	if !ok || list.Kind() != '[' {
		return fmt.Errorf("raw response: want a list of columns at %s for rows that are lists, got none", p)
	}
	t.used = append(t.used, p)
	t.names = []string{}
	shown := 0
	for _, column := range items(list) {
		if name, ok := at(column, path{{kind: stepMember, name: "name"}}); ok {
			column = name
		}
		name, ok := textOf(column)
		if !ok {
			return errors.New("raw response: want columns that are strings or objects with a name, got another")
		}
		show := (t.keep == nil || t.keep[name]) && shown < t.maxColumns
		if show {
			shown++
		} else {
			t.around[leftColumns]++
		}
		t.names, t.shown = append(t.names, name), append(t.shown, show)
	}
	return nil
}

// row writes one row and remembers where it ends.
func (t *table) row(row jsontext.Value) error {
	next := part{}
	if n := len(t.parts); n > 0 {
		next = t.parts[n-1]
		t.body = append(t.body, ',')
	}
	var err error
	switch kind := row.Kind(); {
	case kind == '{' && t.shape == '{':
		err = t.object(row, &next.left)
	case kind == '[' && t.shape == '[':
		err = t.cells(row, &next.left)
	default:
		err = errors.New("raw response: want rows that are all objects, or all lists of cells, got another")
	}
	next.end = len(t.body)
	next.left[leftColumns] = int64(len(t.dropped))
	t.parts = append(t.parts, next)
	return err
}

func (t *table) object(row jsontext.Value, left *leftOut) error {
	t.body = append(t.body, '{')
	first := true
	for name, cell := range members(row) {
		if !t.seen[name] {
			if t.keep != nil && !t.keep[name] || len(t.seen) >= t.maxColumns {
				t.dropped[name] = true
				continue
			}
			t.seen[name] = true
		}
		if !first {
			t.body = append(t.body, ',')
		}
		first = false
		if len(name) > t.text {
			return fmt.Errorf("raw response: want names of columns of at most max_string %d bytes, got one of %d", t.text, len(name))
		}
		t.body, _ = jsontext.AppendQuote(t.body, name)
		t.body = append(t.body, ':')
		if err := t.cell(cell, left); err != nil {
			return err
		}
	}
	t.body = append(t.body, '}')
	return nil
}

func (t *table) cells(row jsontext.Value, left *leftOut) error {
	t.body = append(t.body, '[')
	n, first := 0, true
	for i, cell := range items(row) {
		if n++; n > len(t.names) || !t.shown[i] {
			continue
		}
		if !first {
			t.body = append(t.body, ',')
		}
		first = false
		if err := t.cell(cell, left); err != nil {
			return err
		}
	}
	if n != len(t.names) {
		return fmt.Errorf("raw response: want %d cells in every row, as there are columns, got %d", len(t.names), n)
	}
	t.body = append(t.body, ']')
	return nil
}

// cell writes one cell: a scalar, or JSON that is not too large.
func (t *table) cell(cell jsontext.Value, left *leftOut) error {
	if err := t.m.pass(len(cell)); err != nil {
		return err
	}
	switch cell.Kind() {
	case '"':
		text, _ := textOf(cell)
		t.body = left.appendText(t.body, text, t.text)
		return nil
	case '{', '[':
		w := newWalk(&t.bounds, t.m, cell, len(cell), t.text)
		w.maxText = len(cell)
		switch err := w.root(nil); {
		case err == nil && len(w.out) <= t.text:
			t.body = append(t.body, w.out...)
		case t.m.left < 0:
			return err
		default: // too large, or too deep
			left[leftCells]++
			t.body = append(t.body, "null"...)
		}
		return nil
	}
	t.body = append(t.body, cell...)
	return checkNumber(cell)
}

func (t *table) render(scope []byte) ([]byte, error) {
	head := []byte(`{"rows":[`)
	if t.names != nil {
		head = append(head[:0], `{"columns":[`...)
		for i, name := range t.names {
			if !t.shown[i] {
				continue
			}
			if head[len(head)-1] != '[' {
				head = append(head, ',')
			}
			head = t.around.appendText(head, name, t.text)
		}
		head = append(head, `],"rows":[`...)
	}
	return t.fit(head, t.body, t.parts, 1, func(n int, left leftOut) []byte {
		left.add(&t.around)
		left[leftRows] = int64(t.count - n)
		tail := strconv.AppendInt([]byte(`],"total":`), t.total, 10)
		tail = append(tail, scope...)
		return append(left.append(tail), '}')
	})
}

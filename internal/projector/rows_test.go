package projector_test

import (
	"fmt"
	"strings"
	"testing"

	"runledger/internal/projector"
)

func TestRowsKeepTheirShapeAndTellTheTotal(t *testing.T) {
	checkProjections(t, []projection{
		{name: "objects", config: rows(), raw: `[{"id":1,"name":"a"},{"id":2,"name":null}]`,
			want: `{"rows":[{"id":1,"name":"a"},{"id":2,"name":null}],"total":2}`, evidence: found},
		{name: "objects in a member", config: rows(), raw: `{"rows":[{"id":1}],"took_ms":3}`,
			want: `{"rows":[{"id":1}],"total":1,"left_out":{"paths":1}}`, evidence: found},
		{name: "columns and lists of cells", config: rows(), raw: `{"columns":["id","name"],"rows":[[1,"a"],[2,"b"]]}`,
			want: `{"columns":["id","name"],"rows":[[1,"a"],[2,"b"]],"total":2}`, evidence: found},
		{name: "columns that say their types", config: rows(), raw: `{"columns":[{"name":"id","type":"int4"}],"rows":[[1]]}`,
			want: `{"columns":["id"],"rows":[[1]],"total":1}`, evidence: found},
		{name: "two columns of one name, as a join gives them", config: rows(), raw: `{"columns":["id","id"],"rows":[[1,2]]}`,
			want: `{"columns":["id","id"],"rows":[[1,2]],"total":1}`, evidence: found},
		{name: "what a driver returns, found by paths",
			config: rows(func(c *projector.RowsConfig) {
				c.Rows, c.Columns, c.Total = "data.records", "data.fields", "data.rowCount"
			}),
			raw:  `{"command":"SELECT","data":{"fields":[{"name":"sku","dataTypeID":25}],"records":[["A-1"]],"rowCount":1207,"oid":null}}`,
			want: `{"columns":["sku"],"rows":[["A-1"]],"total":1207,"left_out":{"paths":2}}`, evidence: found},
		{name: "a row that lacks a column", config: rows(), raw: `[{"id":1},{"id":2,"note":"x"}]`,
			want: `{"rows":[{"id":1},{"id":2,"note":"x"}],"total":2}`, evidence: found},
		{name: "cells of every type, numbers as they were written", config: rows(), raw: `[{"a":1.10,"b":true,"c":null,"d":{"x":[1, 2]},"e":12345678901234567890}]`,
			want: `{"rows":[{"a":1.10,"b":true,"c":null,"d":{"x":[1,2]},"e":12345678901234567890}],"total":1}`, evidence: found},
		{name: "text that holds the rows", config: rows(func(c *projector.RowsConfig) { c.ParseText = true }), raw: `"[{\"id\":1}]"`,
			want: `{"rows":[{"id":1}],"total":1}`, evidence: found},
	})
}

func TestATableWithoutRowsIsNoEvidence(t *testing.T) {
	checkProjections(t, []projection{
		{name: "an empty list", config: rows(), raw: `[]`, want: `{"rows":[],"total":0}`, evidence: nothing},
		{name: "null", config: rows(), raw: `null`, want: `{"rows":[],"total":0}`, evidence: nothing},
		{name: "rows that are null", config: rows(), raw: `{"rows":null}`, want: `{"rows":[],"total":0}`, evidence: nothing},
		{name: "columns and no rows", config: rows(), raw: `{"columns":["id"],"rows":[]}`, want: `{"columns":["id"],"rows":[],"total":0}`, evidence: nothing},
		{name: "an empty page of a result that has rows", config: rows(func(c *projector.RowsConfig) { c.Total = "total" }), raw: `{"rows":[],"total":40}`,
			want: `{"rows":[],"total":40}`, evidence: found},
		{name: "an empty page of nothing", config: rows(func(c *projector.RowsConfig) { c.Total = "total" }), raw: `{"rows":[],"total":0}`,
			want: `{"rows":[],"total":0}`, evidence: nothing},
		{name: "one row of null is a row", config: rows(), raw: `[{"max":null}]`, want: `{"rows":[{"max":null}],"total":1}`, evidence: found},
	})
}

func TestRowsAreCappedAndEveryCutIsCounted(t *testing.T) {
	most := func(rows, columns, cell int64) func(*projector.RowsConfig) {
		return func(c *projector.RowsConfig) { c.MaxRows, c.MaxColumns, c.MaxString = rows, columns, cell }
	}
	columns := func(names ...string) func(*projector.RowsConfig) {
		return func(c *projector.RowsConfig) { c.Keep = names }
	}
	const three = `[{"a":1},{"a":2},{"a":3}]`
	checkProjections(t, []projection{
		{name: "a row less than the limit", config: rows(most(4, 9, 9)), raw: three, want: `{"rows":[{"a":1},{"a":2},{"a":3}],"total":3}`, evidence: found},
		{name: "rows of the limit", config: rows(most(3, 9, 9)), raw: three, want: `{"rows":[{"a":1},{"a":2},{"a":3}],"total":3}`, evidence: found},
		{name: "a row more", config: rows(most(2, 9, 9)), raw: three, want: `{"rows":[{"a":1},{"a":2}],"total":3,"left_out":{"rows":1}}`, evidence: found},
		{name: "columns of the limit", config: rows(most(9, 2, 9)), raw: `[{"a":1,"b":2}]`, want: `{"rows":[{"a":1,"b":2}],"total":1}`, evidence: found},
		{name: "a column more, in every row", config: rows(most(9, 2, 9)), raw: `[{"a":1,"b":2,"c":3},{"c":4,"b":5,"a":6}]`,
			want: `{"rows":[{"a":1,"b":2},{"b":5,"a":6}],"total":2,"left_out":{"columns":1}}`, evidence: found},
		{name: "a column more, of cells", config: rows(most(9, 2, 9)), raw: `{"columns":["a","b","c"],"rows":[[1,2,3]]}`,
			want: `{"columns":["a","b"],"rows":[[1,2]],"total":1,"left_out":{"columns":1}}`, evidence: found},
		{name: "columns that nobody may see", config: rows(columns("id", "name")), raw: `[{"id":1,"password":"x","name":"a"},{"id":2,"password":"y","salt":"z"}]`,
			want: `{"rows":[{"id":1,"name":"a"},{"id":2}],"total":2,"left_out":{"columns":2}}`, evidence: found},
		{name: "cells that nobody may see", config: rows(columns("id")), raw: `{"columns":["password","id"],"rows":[["x",1]]}`,
			want: `{"columns":["id"],"rows":[[1]],"total":1,"left_out":{"columns":1}}`, evidence: found},
		{name: "a text cell of the limit", config: rows(most(9, 9, 6)), raw: `[{"a":"abcdé"}]`, want: `{"rows":[{"a":"abcdé"}],"total":1}`, evidence: found},
		{name: "a text cell cut within a character", config: rows(most(9, 9, 5)), raw: `[{"a":"abcdé"},{"a":"abc😀"}]`,
			want: `{"rows":[{"a":"abcd"},{"a":"abc"}],"total":2,"left_out":{"strings":2}}`, evidence: found},
		{name: "a JSON cell of the limit", config: rows(most(9, 9, 7)), raw: `[{"a":[1, 2, 3]}]`, want: `{"rows":[{"a":[1,2,3]}],"total":1}`, evidence: found},
		{name: "a JSON cell over the limit", config: rows(most(9, 9, 6)), raw: `[{"a":[1, 2, 3]}]`, want: `{"rows":[{"a":null}],"total":1,"left_out":{"cells":1}}`, evidence: found},
		{name: "a JSON cell too deep", config: rows(func(c *projector.RowsConfig) { c.MaxDepth = 2 }), raw: `[{"a":[[1]],"b":[[[1]]]}]`,
			want: `{"rows":[{"a":[[1]],"b":null}],"total":1,"left_out":{"cells":1}}`, evidence: found},
	})
}

func TestRowsGoUntilTheBytesAreKept(t *testing.T) {
	raw := `[{"n":"aaaaaaaa"},{"n":"bbbbbbbb"},{"n":"cccccccc"},{"n":"dddddddd"}]`
	all := `{"rows":[{"n":"aaaaaaaa"},{"n":"bbbbbbbb"},{"n":"cccccccc"},{"n":"dddddddd"}],"total":4}` // 88 bytes
	two := `{"rows":[{"n":"aaaaaaaa"},{"n":"bbbbbbbb"}],"total":4,"left_out":{"rows":2}}`             // 76
	one := `{"rows":[{"n":"aaaaaaaa"}],"total":4,"left_out":{"rows":3}}`                              // 59
	for limit, want := range map[int64]string{87: two, 88: all, 89: all, 77: two, 76: two, 75: one} {
		got, err := compile(t, rows(func(c *projector.RowsConfig) { c.MaxBytes = limit })).Project([]byte(raw))
		if err != nil || string(got.Result) != want {
			t.Errorf("max_bytes %d: got %s %v\nwant %s", limit, got.Result, err, want)
		}
	}
	_, err := compile(t, rows(func(c *projector.RowsConfig) { c.MaxBytes = 64 })).Project([]byte(`[{"n":"` + strings.Repeat("x", 40) + `"}]`))
	if text(err) != "result: want at most max_bytes 64, got more with as little in it as may be" {
		t.Errorf("one row that is too large: %v", err)
	}
}

func TestRowsThatCannotBeReadAreAnError(t *testing.T) {
	checkProjections(t, []projection{
		{name: "an error message", config: rows(), raw: `{"error":"no such table: secret"}`, wantErr: "raw response: want a list of rows as the response or at rows in it, got none"},
		{name: "a text", config: rows(), raw: `"0 rows"`, wantErr: "raw response: want a list of rows as the response or at rows in it, got none"},
		{name: "nothing where the policy says", config: rows(func(c *projector.RowsConfig) { c.Rows = "a.b" }), raw: `{"a":{"c":[]}}`, wantErr: "raw response: want a list of rows at a.b, got none"},
		{name: "cells without columns", config: rows(), raw: `[[1,2]]`, wantErr: "raw response: want a list of columns at columns for rows that are lists, got none"},
		{name: "a cell too many", config: rows(), raw: `{"columns":["a"],"rows":[[1,2]]}`, wantErr: "raw response: want 1 cells in every row, as there are columns, got 2"},
		{name: "a cell too few", config: rows(), raw: `{"columns":["a","b"],"rows":[[1]]}`, wantErr: "raw response: want 2 cells in every row, as there are columns, got 1"},
		{name: "mixed rows", config: rows(), raw: `[{"a":1},7]`, wantErr: "raw response: want rows that are all objects, or all lists of cells, got another"},
		{name: "columns that are numbers", config: rows(), raw: `{"columns":[1],"rows":[[1]]}`, wantErr: "raw response: want columns that are strings or objects with a name, got another"},
		{name: "no total", config: rows(func(c *projector.RowsConfig) { c.Total = "total" }), raw: `{"rows":[]}`, wantErr: "raw response: want a whole number of rows at total, got none"},
		{name: "a negative total", config: rows(func(c *projector.RowsConfig) { c.Total = "total" }), raw: `{"rows":[],"total":-1}`, wantErr: "raw response: want a whole number of rows at total, got none"},
		{name: "a total that is a text", config: rows(func(c *projector.RowsConfig) { c.Total = "total" }), raw: `{"rows":[],"total":"4"}`, wantErr: "raw response: want a whole number of rows at total, got none"},
		{name: "a number of 400 digits", config: rows(), raw: `[{"a":` + strings.Repeat("9", 400) + `}]`, wantErr: "raw response: want numbers of at most 256 bytes, got one of 400"},
		{name: "a name too long", config: rows(func(c *projector.RowsConfig) { c.MaxString = 3 }), raw: `[{"abcd":1}]`, wantErr: "raw response: want names of columns of at most max_string 3 bytes, got one of 4"},
	})
}

func TestAHundredThousandRowsAreCountedAndFewShown(t *testing.T) {
	raw := "[" + strings.Repeat(`{"id":123456,"state":"open"},`, 99_999) + `{"id":1,"state":"x"}]`
	config := rows(func(c *projector.RowsConfig) { c.MaxInput, c.MaxRows = 4<<20, 2 })
	got, err := compile(t, config).Project([]byte(raw))
	want := fmt.Sprintf(`{"rows":[%[1]s,%[1]s],"total":100000,"left_out":{"rows":99998}}`, `{"id":123456,"state":"open"}`)
	if err != nil || string(got.Result) != want {
		t.Errorf("got %.300s %v\nwant %s", got.Result, err, want)
	}
}

package projector_test

import (
	"fmt"
	"strings"
	"testing"

	"runledger/internal/events"
	"runledger/internal/projector"
)

const failed = "evidence: want true or false of the expression for this response, got an error; guard what may be missing with has()"

func judged(expression string) *projector.JSONConfig {
	return jsons(func(c *projector.JSONConfig) { c.Evidence = expression })
}

func TestEvidenceIsWhatTheExpressionSays(t *testing.T) {
	for _, test := range []struct {
		expression, raw string
		want            events.Evidence
	}{
		{"size(result.rows) > 0", `{"rows":[1]}`, found},
		{"size(result.rows) > 0", `{"rows":[]}`, nothing},
		{"result.total > 0", `{"total":3}`, found},
		{"result.total > 0", `{"total":0.0}`, nothing},
		{"result.total == 3", `{"total":3}`, found},
		{"result.total + 1.0 > 3.5", `{"total":3}`, found},
		{"int(result.total) % 2 == 1", `{"total":3}`, found},
		{"double(result.total) > 2.5", `{"total":"3"}`, found},
		{"has(result.rows) && size(result.rows) > 0", `{"error":"x"}`, nothing},
		{"has(result.error) ? false : size(result.rows) > 0", `{"rows":[1]}`, found},
		{"result != null && result != [] && result != {'a': 1}['a']", `7`, ""},
		{`result.status in ["open", "new"]`, `{"status":"new"}`, found},
		{`result.status in ["open", "new"]`, `{"status":"closed"}`, nothing},
		{`"rows" in result`, `{"rows":[]}`, found},
		{`result["content-type"].startsWith("text/")`, `{"content-type":"text/html"}`, found},
		{`!result.text.contains("No results")`, `{"text":"No results found"}`, nothing},
		{`result.text.endsWith("é")`, `{"text":"café"}`, found},
		{`size(result.text) == 4`, `{"text":"café"}`, found}, // characters
		{"result.items.exists(i, i.score >= 0.5)", `{"items":[{"score":0.1},{"score":0.5}]}`, found},
		{"result.items.exists(i, i.score >= 0.5)", `{"items":[{"score":0.1}]}`, nothing},
		{"result.items.all(i, i.ok)", `{"items":[{"ok":true},{"ok":false}]}`, nothing},
		{"result.items.exists_one(i, i.ok)", `{"items":[{"ok":true},{"ok":false}]}`, found},
		{"size(result.items.filter(i, i.score > 0.5)) >= 2", `{"items":[{"score":0.6},{"score":0.7},{"score":0.1}]}`, found},
		{"result.counts.exists(k, result.counts[k] > 0)", `{"counts":{"a":0,"b":2}}`, found},
		{"result[0].id == 7", `[{"id":7}]`, found},
		{"result.a == result.b", `{"a":{"x":[1,2]},"b":{"x":[1.0,2]}}`, found},
		{"result.found == true", `{"found":true}`, found},
		{"result == null", `null`, found},
		{"true", `[]`, found}, // the policy wants it so
		{"false", `[1]`, nothing},
		{"result.missing || result.rows == 1", `{"rows":1}`, found}, // true, whatever the other side is
	} {
		t.Run(test.expression+" "+test.raw, func(t *testing.T) {
			p, err := judged(test.expression).New()
			if test.want == "" {
				if err == nil {
					t.Fatal("the expression was taken")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := p.Project([]byte(test.raw)); err != nil || got.Evidence != test.want {
				t.Errorf("got %s %v, want %s", got.Evidence, err, test.want)
			}
		})
	}
}

func TestAnExpressionThatFailsIsAnErrorAndTellsNothingOfTheResponse(t *testing.T) {
	deep := strings.Repeat("[", 129) + strings.Repeat("]", 129)
	for _, test := range []struct{ expression, raw, want string }{
		{"size(result.rows) > 0", `{"error":"x"}`, failed},
		{"size(result.rows) > 0", `{"rows":7}`, failed},
		{"size(result.rows) > 0", `{"rows":null}`, failed},
		{"size(result.rows) > 0", `null`, failed},
		{"result.total > 0", `{"total":"secret"}`, failed},
		{"result.total + 1 > 0", `{"total":3}`, failed}, // a double and a whole number
		{"result[5] == 1", `[1]`, failed},
		{"result[result.name] == 1", `{"name":"secret"}`, failed},
		{"int(result.n) == 1", `{"n":"secret"}`, failed},
		{"1 / int(result.n) == 1", `{"n":0}`, failed},
		{"result.items.all(i, i.ok)", `{"items":[{"ok":true},{}]}`, failed},
		{"result.found ? true : false", `{"found":"yes"}`, failed},
		{"result.n > 0", `{"n":1e400}`, "evidence: want a response within the levels and numbers that an expression can take"},
		{"size(result) > 0", deep, "evidence: want a response within the levels and numbers that an expression can take"},
	} {
		got, err := compile(t, jsons(func(c *projector.JSONConfig) { c.Evidence, c.MaxDepth = test.expression, 128 })).Project([]byte(test.raw))
		if text(err) != test.want || got.Evidence != "" || got.Result != nil {
			t.Errorf("%s over %.60s: got %s %s %v, want %s", test.expression, test.raw, got.Result, got.Evidence, err, test.want)
		}
	}
}

func TestAnExpressionIsCheckedBeforeItIsUsed(t *testing.T) {
	const over = "evidence: want a CEL expression over result: "
	for expression, want := range map[string]string{
		"size(result.rows)":                          "evidence: want an expression that is true or false, got one of type int; compare it, as in … == true",
		"result.found":                               "evidence: want an expression that is true or false, got one of type dyn; compare it, as in … == true",
		"response.rows == 1":                         over + "undeclared reference to 'response' (at 1:1 of the expression)",
		"rows(result) > 0":                           over + "undeclared reference to 'rows' (at 1:5 of the expression)",
		`result.a.matches("(a+)+$")`:                 over + "undeclared reference to 'matches' (at 1:17 of the expression)",
		`timestamp(result.t) > timestamp("2024")`:    over + "undeclared reference to 'timestamp' (at 1:10 of the expression); undeclared reference to 'timestamp' (at 1:32 of the expression)",
		`duration("1s") > duration(result.d)`:        over + "undeclared reference to 'duration' (at 1:9 of the expression); undeclared reference to 'duration' (at 1:26 of the expression)",
		`result.a.map(x, x) == []`:                   over + "undeclared reference to 'map' (at 1:13 of the expression); undeclared reference to 'x' (at 1:14 of the expression); undeclared reference to 'x' (at 1:17 of the expression)",
		"[result, result].exists(x, x == x)":         `evidence: want only constants in a list, as in ["open", "new"]`,
		"result.a.exists(x, [[x]] == result.b)":      `evidence: want only constants in a list, as in ["open", "new"]`,
		`{"a": result}.a == 1`:                       "evidence: want no maps or messages in the expression",
		`google.protobuf.Value{} == null`:            "evidence: want no maps or messages in the expression",
		strings.Repeat("true || ", 125) + "true":     "evidence: want an expression of at most 1000 bytes, got 1004",
		"1 == \"a\"":                                 "",
		strings.Repeat("(", 70) + "true":             "",
		"true" + strings.Repeat(" == true", 100):     "",
		"result.a == 1 &&\n undefined(result.b) > 1": over + "undeclared reference to 'undefined' (at 2:11 of the expression)",
	} {
		err := judged(expression).Validate()
		if err == nil || (want != "" && err.Error() != want) {
			t.Errorf("%.100q: got\n%v\nwant\n%s", expression, err, want)
		}
	}
}

// What an expression costs is what it looks at, not how long it took.
func TestAnExpressionThatCostsMoreThanItMayIsAnError(t *testing.T) {
	list := func(n int, item string) string { return `[` + strings.Repeat(item+",", n-1) + item + `]` }
	bounded := func(expression string, most int64) *projector.JSONConfig {
		return jsons(func(c *projector.JSONConfig) { c.Evidence, c.MaxCost, c.MaxInput = expression, most, 4<<20 })
	}
	const tooMuch = "evidence: want an expression that costs at most max_cost 100000, got more for this response"
	long := `"` + strings.Repeat("a", 80_000) + `"`
	for name, test := range map[string]struct{ expression, raw, want string }{
		"a loop":                         {"result.all(x, x == 1)", list(1000, "1"), ""},
		"a loop in a loop":               {"result.all(x, result.all(y, x == y))", list(1000, "1"), tooMuch},
		"loops in loops":                 {"result.exists(a, result.exists(b, result.exists(c, result.exists(d, a + b + c + d < 0.0))))", list(1000, "1"), tooMuch},
		"large values compared":          {"result.a == result.b", `{"a":` + list(4000, "[1]") + `,"b":` + list(4000, "[1]") + `}`, ""},
		"large values compared often":    {"result.n.all(x, result.a == result.b)", `{"n":` + list(50, "1") + `,"a":` + list(4000, "[1]") + `,"b":` + list(4000, "[1]") + `}`, tooMuch},
		"a large value looked for often": {"result.n.exists(x, x in result.a)", `{"n":` + list(50, "1") + `,"a":` + list(4000, `"b"`) + `}`, tooMuch},
		"characters counted often":       {"result.n.all(x, size(result.s) > 0)", `{"n":` + list(50, "1") + `,"s":` + long + `}`, tooMuch},
		"a text searched often":          {`result.n.all(x, !result.s.contains("b"))`, `{"n":` + list(50, "1") + `,"s":` + long + `}`, tooMuch},
		"a text that grows":              {`size(` + strings.Repeat("result.s + ", 20) + `result.s) > 0`, `{"s":` + long + `}`, tooMuch},
		"a list that grows":              {`(` + strings.Repeat("result.a + ", 20) + `result.a) == (` + strings.Repeat("result.a + ", 20) + `result.a)`, `{"a":` + list(5000, `1`) + `}`, tooMuch},
		"a text that is a number, often": {`result.n.all(x, double(result.s) > 0.0)`, `{"n":` + list(50, "1") + `,"s":"` + strings.Repeat("1", 80_000) + `"}`, tooMuch},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compile(t, bounded(test.expression, 100_000)).Project([]byte(test.raw))
			if got := text(err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Were an object gone through in another order each time, the cost of finding a
// member, and with it the answer, would change from replay to replay.
func TestAnExpressionGoesThroughAnObjectInItsOrder(t *testing.T) {
	config := jsons(func(c *projector.JSONConfig) {
		c.Evidence, c.MaxCost, c.MaxItems = `result.exists(k, result[k] == 1)`, 3600, 1
	})
	p := compile(t, config)
	var misses strings.Builder
	for i := range 300 {
		fmt.Fprintf(&misses, `"m%d":0,`, i)
	}
	for range 50 {
		if got, err := p.Project([]byte(`{"hit":1,` + misses.String() + `"end":0}`)); err != nil || got.Evidence != found {
			t.Fatalf("the first member: got %s %v", got.Evidence, err)
		}
		if got, err := p.Project([]byte(`{"end":0,` + misses.String() + `"hit":1}`)); err == nil {
			t.Fatalf("the last member: got %s, want that it costs too much", got.Evidence)
		}
	}
}

func TestTheExpressionSeesWhatTheTextHolds(t *testing.T) {
	config := rows(func(c *projector.RowsConfig) { c.ParseText, c.Evidence = true, "size(result.rows) > 1" })
	got, err := compile(t, config).Project([]byte(`"{\"rows\":[{\"a\":1}]}"`))
	if err != nil || got.Evidence != nothing || string(got.Result) != `{"rows":[{"a":1}],"total":1}` {
		t.Errorf("got %s %s %v", got.Result, got.Evidence, err)
	}
}

package projector_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/projector"
)

// seeds are responses of the shapes that projectors know, and of none.
func seeds() []string {
	return []string{
		`[{"id":1,"name":"a"},{"id":2}]`, `{"columns":["a","b"],"rows":[[1,"x"],[2,{"y":[1]}]],"total":9}`, `{"rows":null}`,
		`"2024-05-01 ERROR x\n{\"level\":\"warn\",\"msg\":\"y\"}\r\n"`, `{"lines":[{"level":30,"msg":"m","time":1},"E0501 x"]}`,
		`{"passages":[{"text":"é","source":"s","score":0.5},"plain"]}`, `[{"page_content":"a","metadata":{"source":"b"}}]`,
		`{"content":[{"type":"text","text":"{\"a\":1}"},{"type":"image","data":"AAEC"}],"structuredContent":{"a":1.0},"isError":false}`,
		`{"content":[{"type":"resource","resource":{"uri":"u","text":"t"}}],"isError":true}`, `{"text":"a","q":"scope"}`,
		`null`, `""`, `[]`, `{}`, `7`, `"[[1]]"`, `{"a":1,"a":2}`, "\"\xff\"", `"\ud800"`, `[1e400]`, `[[[[[[[[[[1]]]]]]]]]]`, `{"q":{"q":{"q":1}}}`,
	}
}

// fuzzed checks what holds for every projector: it gives valid JSON within its
// bytes and one of the two evidences, the same each time, or an error. A result
// that says that nothing is left out holds all the text of the response.
func fuzzed(f *testing.F, config func(options uint8) projector.Config) {
	for i, seed := range seeds() {
		f.Add([]byte(seed), uint16(64+8*i), uint8(i))
	}
	f.Fuzz(func(t *testing.T, raw []byte, maxBytes uint16, options uint8) {
		c := config(options)
		shared := c.Shared()
		shared.MaxBytes = int64(maxBytes)
		shared.MaxString = 1 + int64(options)
		shared.MaxDepth, shared.MaxCost = 8, 20_000
		shared.ParseText = options&1 != 0
		if options&2 != 0 {
			shared.Scope = []string{"q"}
		}
		if options&4 != 0 {
			shared.Evidence = `size(result) > 1 || (has(result.q) && result.q != "")`
		}
		p, err := c.New()
		if err != nil {
			return
		}
		first, err := p.Project(raw)
		second, again := p.Project(raw)
		if text(err) != text(again) || !bytes.Equal(first.Result, second.Result) || first.Evidence != second.Evidence {
			t.Fatalf("%q: two answers: %s %v and %s %v", raw, first.Result, err, second.Result, again)
		}
		if err != nil {
			return
		}
		if len(first.Result) > int(maxBytes) || !jsontext.Value(first.Result).IsValid() {
			t.Fatalf("%q: result of %d bytes, want valid JSON of at most %d: %s", raw, len(first.Result), maxBytes, first.Result)
		}
		if first.Evidence != found && first.Evidence != nothing {
			t.Fatalf("%q: evidence %q", raw, first.Evidence)
		}
		var told struct {
			LeftOut map[string]int64 `json:"left_out"`
		}
		if err := json.Unmarshal(first.Result, &told); err != nil {
			t.Fatal(err)
		}
		for kind, n := range told.LeftOut {
			if n <= 0 {
				t.Fatalf("%q: left out %d %s: %s", raw, n, kind, first.Result)
			}
		}
	})
}

func FuzzRows(f *testing.F) {
	fuzzed(f, func(options uint8) projector.Config {
		return rows(func(c *projector.RowsConfig) {
			c.MaxRows, c.MaxColumns = 1+int64(options>>4), 1+int64(options>>6)
			if options&8 != 0 {
				c.Keep = []string{"id", "a"}
			}
		})
	})
}

func FuzzLog(f *testing.F) {
	fuzzed(f, func(options uint8) projector.Config {
		return logs(func(c *projector.LogConfig) { c.MaxSamples = 1 + int64(options>>4) })
	})
}

func FuzzPassages(f *testing.F) {
	fuzzed(f, func(options uint8) projector.Config {
		return passages(func(c *projector.PassagesConfig) { c.MaxPassages = 1 + int64(options>>4) })
	})
}

func FuzzMCP(f *testing.F) {
	fuzzed(f, func(options uint8) projector.Config {
		return mcp(func(c *projector.MCPConfig) {
			c.MaxItems = 1 + int64(options>>4)
			if options&8 != 0 {
				c.Keep = []projector.Keep{{Path: "a", As: "b"}, {Path: "b"}}
				c.Keep = c.Keep[:1+options>>7]
			}
		})
	})
}

func FuzzText(f *testing.F) {
	fuzzed(f, func(uint8) projector.Config { return texts() })
}

// FuzzExpression: whatever a policy says, an expression that compiles is true,
// false or an error, the same each time, within its cost.
func FuzzExpression(f *testing.F) {
	for _, expression := range []string{
		"size(result.rows) > 0", "has(result.a) && result.a.exists(x, x.b == 1)", `result.s in ["a", "b"]`, "result.all(x, result.all(y, x == y))",
		"size(result.filter(x, x != null)) > 1", "result[0] + result[1] == 3.0", "-result.n < 1", `result["a b"] == {"a": 1}`, "[[1]] == result", "true ? false : true",
	} {
		for _, seed := range seeds() {
			f.Add(expression, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, expression string, raw []byte) {
		config := jsons(func(c *projector.JSONConfig) { c.Evidence, c.MaxCost = expression, 20_000 })
		p, err := config.New()
		if err != nil {
			return
		}
		first, err := p.Project(raw)
		second, again := p.Project(raw)
		if text(err) != text(again) || first.Evidence != second.Evidence {
			t.Fatalf("%q over %q: %s %v and %s %v", expression, raw, first.Evidence, err, second.Evidence, again)
		}
	})
}

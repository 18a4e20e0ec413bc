package projector_test

import (
	"strings"
	"testing"

	"runledger/internal/projector"
)

func TestANegativeResultKeepsItsScope(t *testing.T) {
	const searched = `"query":"refund","filter":{"lang":"de","secret":1}`
	const scope = `"scope":{"query":"refund","filter":{"lang":"de"}}`
	paths := []string{"query", "filter.lang"}
	checkProjections(t, []projection{
		{name: "json", config: jsons(func(c *projector.JSONConfig) {
			c.Scope, c.Keep, c.NoEvidenceWhenEmpty = paths, projector.KeepPaths("hits"), []string{"hits"}
		}), raw: `{` + searched + `,"hits":[]}`, want: `{"result":{"hits":[]},` + scope + `,"left_out":{"paths":2}}`, evidence: nothing},
		{name: "rows", config: rows(func(c *projector.RowsConfig) { c.Scope = paths }), raw: `{` + searched + `,"rows":[]}`,
			want: `{"rows":[],"total":0,` + scope + `,"left_out":{"paths":1}}`, evidence: nothing},
		{name: "log", config: logs(func(c *projector.LogConfig) { c.Scope = paths }), raw: `{` + searched + `,"lines":""}`,
			want: `{"lines":0,"levels":{},"samples":[],` + scope + `,"left_out":{"paths":1}}`, evidence: nothing},
		{name: "passages", config: passages(func(c *projector.PassagesConfig) { c.Scope = paths }), raw: `{` + searched + `,"passages":[]}`,
			want: `{"passages":[],"total":0,` + scope + `,"left_out":{"paths":1}}`, evidence: nothing},
		{name: "mcp", config: mcp(func(c *projector.MCPConfig) {
			c.Scope, c.Keep = []string{"_meta.query"}, projector.KeepPaths("rows")
			c.Evidence = "size(result.structuredContent.rows) > 0"
		}), raw: `{"_meta":{"query":"refund","n":1},"content":[],"structuredContent":{"rows":[]}}`,
			want: `{"structuredContent":{"rows":[]},"content":[],"scope":{"_meta":{"query":"refund"}},"left_out":{"paths":1}}`, evidence: nothing},
		{name: "text", config: texts(func(c *projector.TextConfig) { c.Scope = paths }), raw: `{` + searched + `,"text":""}`,
			want: `{"text":"",` + scope + `,"left_out":{"paths":1}}`, evidence: nothing},
		{name: "a positive result keeps it too", config: rows(func(c *projector.RowsConfig) { c.Scope = paths }), raw: `{` + searched + `,"rows":[{"a":1}]}`,
			want: `{"rows":[{"a":1}],"total":1,` + scope + `,"left_out":{"paths":1}}`, evidence: found},
		{name: "cuts in the scope are counted", config: rows(func(c *projector.RowsConfig) { c.Scope, c.MaxString = []string{"q", "in"}, 3 }),
			raw:  `{"q":"abé","in":[` + strings.Repeat("1,", 100) + `1],"rows":[]}`,
			want: `{"rows":[],"total":0,"scope":{"q":"ab","in":[1` + strings.Repeat(",1", 99) + `]},"left_out":{"items":1,"strings":1}}`, evidence: nothing},
		{name: "a scope that is not there", config: rows(func(c *projector.RowsConfig) { c.Scope = paths }), raw: `{"query":"x","rows":[]}`,
			wantErr: "raw response: want every path in scope, got none at filter.lang"},
		{name: "a response that has no room for a scope", config: jsons(func(c *projector.JSONConfig) { c.Scope = []string{"query"} }), raw: `[]`,
			wantErr: "raw response: want every path in scope, got none at query"},
		{name: "a scope too large for the result", config: rows(func(c *projector.RowsConfig) { c.Scope, c.MaxBytes = []string{"query"}, 64 }),
			raw: `{"query":"` + strings.Repeat("x", 50) + `","rows":[]}`, wantErr: "result: want at most max_bytes 64, got more with as little in it as may be"},
	})
}

package projector_test

import (
	"strings"
	"testing"

	"runledger/internal/projector"
)

func TestPassagesKeepTheirOrderSourcesAndScores(t *testing.T) {
	checkProjections(t, []projection{
		{name: "a plain list", config: passages(), raw: `[{"text":"a","source":"kb/1","score":0.5},{"text":"b","source":"kb/2","score":0.90}]`,
			want: `{"passages":[{"source":"kb/1","score":0.5,"text":"a"},{"source":"kb/2","score":0.90,"text":"b"}],"total":2}`, evidence: found},
		{name: "documents of a framework", config: passages(func(c *projector.PassagesConfig) { c.Passages = "documents" }),
			raw:  `{"query":"refund","documents":[{"page_content":"a","metadata":{"source":"faq.md","page":3},"type":"Document"}]}`,
			want: `{"passages":[{"source":"faq.md","text":"a"}],"total":1,"left_out":{"paths":3}}`, evidence: found},
		{name: "hits of a search engine", config: passages(func(c *projector.PassagesConfig) {
			c.Passages, c.Text, c.Source = "hits.hits", "_source.body", "_id"
		}),
			raw:  `{"took":3,"hits":{"total":{"value":1},"hits":[{"_index":"kb","_id":"42","_score":7.1,"_source":{"body":"a","secret":1}}]}}`,
			want: `{"passages":[{"source":"42","score":7.1,"text":"a"}],"total":1,"left_out":{"paths":4}}`, evidence: found},
		{name: "plain texts", config: passages(), raw: `{"passages":["a","b"]}`, want: `{"passages":[{"text":"a"},{"text":"b"}],"total":2}`, evidence: found},
		{name: "a source that is a number, none, and null", config: passages(), raw: `[{"text":"a","id":7},{"content":"b"},{"text":"c","source":null,"url":"u","score":null}]`,
			want: `{"passages":[{"source":7,"text":"a"},{"text":"b"},{"source":"u","text":"c"}],"total":3,"left_out":{"paths":2}}`, evidence: found},
		{name: "no passages", config: passages(), raw: `[]`, want: `{"passages":[],"total":0}`, evidence: nothing},
		{name: "passages that are null", config: passages(), raw: `{"passages":null}`, want: `{"passages":[],"total":0}`, evidence: nothing},
		{name: "a passage without text", config: passages(), raw: `[{"text":"a"},{"source":"s"}]`, wantErr: "raw response: want a text in every passage, or as every passage, got none in passage 2"},
		{name: "text where the policy does not say", config: passages(func(c *projector.PassagesConfig) { c.Text = "body" }), raw: `[{"text":"a"}]`,
			wantErr: "raw response: want a text in every passage, or as every passage, got none in passage 1"},
		{name: "an error message", config: passages(), raw: `{"error":"index not found"}`, wantErr: "raw response: want a list of passages as the response or at passages in it, got none"},
		{name: "a score of 400 digits", config: passages(), raw: `[{"text":"a","score":` + strings.Repeat("1", 400) + `}]`, wantErr: "raw response: want numbers of at most 256 bytes, got one of 400"},
	})
}

func TestPassagesAreCappedAndEveryCutIsCounted(t *testing.T) {
	most := func(n, bytes, text int64) func(*projector.PassagesConfig) {
		return func(c *projector.PassagesConfig) { c.MaxPassages, c.MaxBytes, c.MaxString = n, bytes, text }
	}
	const three = `[{"text":"aaaaaaaa"},{"text":"bbbbbbbb"},{"text":"cccccccc"}]`
	all := `{"passages":[{"text":"aaaaaaaa"},{"text":"bbbbbbbb"},{"text":"cccccccc"}],"total":3}` // 84 bytes
	one := `{"passages":[{"text":"aaaaaaaa"}],"total":3,"left_out":{"passages":2}}`               // 70
	checkProjections(t, []projection{
		{name: "passages of the limit", config: passages(most(3, 999, 9)), raw: three, want: all, evidence: found},
		{name: "a passage more", config: passages(most(2, 999, 9)), raw: three,
			want: `{"passages":[{"text":"aaaaaaaa"},{"text":"bbbbbbbb"}],"total":3,"left_out":{"passages":1}}`, evidence: found},
		{name: "exactly the bytes", config: passages(most(9, 84, 9)), raw: three, want: all, evidence: found},
		{name: "a byte less", config: passages(most(9, 83, 9)), raw: three, want: one, evidence: found},
		{name: "one passage exactly", config: passages(most(9, 70, 9)), raw: three, want: one, evidence: found},
		{name: "not one", config: passages(most(9, 69, 9)), raw: three, wantErr: "result: want at most max_bytes 69, got more with as little in it as may be"},
		{name: "texts and sources cut within a character", config: passages(most(9, 999, 3)), raw: `[{"text":"abé","source":"ab😀"},{"text":"ab","source":"é1"}]`,
			want: `{"passages":[{"source":"ab","text":"ab"},{"source":"é1","text":"ab"}],"total":2,"left_out":{"strings":2}}`, evidence: found},
	})
}

package projector_test

import (
	"strings"
	"testing"

	"runledger/internal/projector"
)

func TestATextIsShownFromItsBeginningAndTheRestCounted(t *testing.T) {
	most := func(bytes, text int64) func(*projector.TextConfig) {
		return func(c *projector.TextConfig) { c.MaxBytes, c.MaxString = bytes, text }
	}
	checkProjections(t, []projection{
		{name: "a text", config: texts(), raw: `"no flights today\n"`, want: `{"text":"no flights today\n"}`, evidence: found},
		{name: "in a member", config: texts(), raw: `{"text":"a","lang":"en"}`, want: `{"text":"a","left_out":{"paths":1}}`, evidence: found},
		{name: "found by a path", config: texts(func(c *projector.TextConfig) { c.Text = "choices.summary" }), raw: `{"choices":{"summary":"a"}}`, want: `{"text":"a"}`, evidence: found},
		{name: "a blank text", config: texts(), raw: `" \n"`, want: `{"text":" \n"}`, evidence: nothing},
		{name: "an empty text", config: texts(), raw: `""`, want: `{"text":""}`, evidence: nothing},
		{name: "null", config: texts(), raw: `null`, want: `{"text":""}`, evidence: nothing},
		{name: "a byte less than the limit", config: texts(most(999, 7)), raw: `"abcdé"`, want: `{"text":"abcdé"}`, evidence: found},
		{name: "a text of the limit", config: texts(most(999, 6)), raw: `"abcdé"`, want: `{"text":"abcdé"}`, evidence: found},
		{name: "cut within a character", config: texts(most(999, 5)), raw: `"abcdé"`, want: `{"text":"abcd","left_out":{"bytes":2}}`, evidence: found},
		{name: "a character that does not fit at all", config: texts(most(999, 3)), raw: `"😀"`, want: `{"text":"","left_out":{"bytes":4}}`, evidence: found},
		{name: "exactly the bytes of the result", config: texts(most(64, 99)), raw: `"` + strings.Repeat("x", 53) + `"`, want: `{"text":"` + strings.Repeat("x", 53) + `"}`, evidence: found},
		{name: "a byte more", config: texts(most(64, 99)), raw: `"` + strings.Repeat("x", 54) + `"`,
			want: `{"text":"` + strings.Repeat("x", 29) + `","left_out":{"bytes":25}}`, evidence: found},
		{name: "characters that are escaped need more", config: texts(most(64, 99)), raw: `"` + strings.Repeat(`\u0001`, 20) + `"`,
			want: `{"text":"\u0001\u0001\u0001\u0001","left_out":{"bytes":16}}`, evidence: found},
		{name: "a number", config: texts(), raw: `7`, wantErr: "raw response: want a text as the response or where the policy says, got none"},
		{name: "no text", config: texts(), raw: `{"error":"x"}`, wantErr: "raw response: want a text as the response or where the policy says, got none"},
	})
}

package projector_test

import (
	"strings"
	"testing"

	"runledger/internal/projector"
)

func renamed(pairs ...string) *projector.JSONConfig {
	return jsons(func(c *projector.JSONConfig) {
		for i := 0; i < len(pairs); i += 2 {
			c.Keep = append(c.Keep, projector.Keep{Path: pairs[i], As: pairs[i+1]})
		}
	})
}

func TestKeptMembersGetTheNamesThatThePolicyGives(t *testing.T) {
	const twice = "raw response: want no member that has the name which keep gives another one in the same object"
	checkProjections(t, []projection{
		{name: "a member", config: renamed("a", "b"), raw: `{"a":1,"c":2}`, want: `{"result":{"b":1},"left_out":{"paths":1}}`, evidence: found},
		{name: "in a list", config: renamed("items[].reservation_id", "id", "items[].n", ""), raw: `{"items":[{"reservation_id":1,"n":2},{"n":3,"reservation_id":4,"x":5}]}`,
			want: `{"result":{"items":[{"id":1,"n":2},{"n":3,"id":4}]},"left_out":{"paths":1}}`, evidence: found},
		{name: "under every member", config: renamed("*.src", "source"), raw: `{"x":{"src":1},"y":{"src":2}}`, want: `{"result":{"x":{"source":1},"y":{"source":2}}}`, evidence: found},
		{name: "with all that it holds", config: renamed("a", "b"), raw: `{"a":{"a":[1]}}`, want: `{"result":{"b":{"a":[1]}}}`, evidence: found},
		{name: "within what another path keeps", config: renamed("a", "", "a.x", "z"), raw: `{"a":{"x":1,"y":2}}`, want: `{"result":{"a":{"z":1,"y":2}}}`, evidence: found},
		{name: "two members that change names", config: renamed("a", "b", "b", "a"), raw: `{"a":1,"b":2}`, want: `{"result":{"b":1,"a":2}}`, evidence: found},
		{name: "a name that needs escapes", config: renamed("a", `q"é`), raw: `{"a":1}`, want: `{"result":{"q\"é":1}}`, evidence: found},
		{name: "a name that another kept member has", config: renamed("*", "", "a", "b"), raw: `{"a":1,"b":2}`, wantErr: twice},
		{name: "and that comes first", config: renamed("x", "", "x.a", "b"), raw: `{"x":{"b":1,"a":2}}`, wantErr: twice},
		{name: "a name that only a member has which is left out", config: renamed("a", "b"), raw: `{"a":1,"b":2}`, want: `{"result":{"b":1},"left_out":{"paths":1}}`, evidence: found},
	})
}

func TestNamesThatCannotBeGivenAreRefused(t *testing.T) {
	for want, config := range map[string]*projector.JSONConfig{
		"keep[0].as: want a path that ends in a member's name, which can be another, got one that ends in [] or *": renamed("a[]", "b"),
		"keep[0].as: want a name of 1 to 256 bytes, got 257":                                                       renamed("a", strings.Repeat("b", 257)),
		`keep[0].as: want a name without control characters, got "b\n"`:                                            renamed("a", "b\n"),
		`keep[1]: want a name of its own in the result, got a second "b" in the same place`:                        renamed("x.a", "b", "x.b", ""),
		`keep[1]: want a name of its own in the result, got a second "c" in the same place`:                        renamed("x[].a", "c", "x[].b", "c"),
	} {
		if err := config.Validate(); text(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, config := range []*projector.JSONConfig{renamed("a[].x", "b", "a.*.y", "b"), renamed("a", "", "a", ""), renamed("x.a", "b", "y.a", "b")} {
		if err := config.Validate(); err != nil {
			t.Error(err)
		}
	}
}

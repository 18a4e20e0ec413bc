package projector_test

import (
	"fmt"
	"strings"
	"testing"

	"runledger/internal/events"
	"runledger/internal/projector"
)

// project runs the json projector with the defaults as change leaves them.
func project(t *testing.T, raw string, change func(*projector.JSONConfig)) (result string, evidence events.Evidence, err error) {
	t.Helper()
	config := projector.DefaultJSON()
	if change != nil {
		change(config)
	}
	p, err := config.New()
	if err != nil {
		t.Fatalf("config: %v", err)
	}
	projection, err := p.Project([]byte(raw))
	return string(projection.Result), projection.Evidence, err
}

func keep(paths ...string) func(*projector.JSONConfig) {
	return func(c *projector.JSONConfig) {
		if paths != nil {
			c.Keep = projector.KeepPaths(paths...)
		}
	}
}

func TestResultIsWhatThePathsKeepWithTheCountOfTheRest(t *testing.T) {
	tests := []struct {
		name, raw string
		keep      []string
		want      string
	}{
		{"everything without paths, compact", " { \"a\" : [ 1 , 2 ] }\n", nil, `{"result":{"a":[1,2]}}`},
		{"a member", `{"a":1,"b":2}`, []string{"a"}, `{"result":{"a":1},"left_out":{"paths":1}}`},
		{"what a member holds", `{"a":{"x":[1,{"y":2}]},"b":2}`, []string{"a"}, `{"result":{"a":{"x":[1,{"y":2}]}},"left_out":{"paths":1}}`},
		{"a member of a member", `{"a":{"x":1,"y":2}}`, []string{"a.x"}, `{"result":{"a":{"x":1}},"left_out":{"paths":1}}`},
		{"in the order of the response", `{"b":1,"a":2}`, []string{"a", "b"}, `{"result":{"b":1,"a":2}}`},
		{"items of a list", `{"items":[{"id":1,"n":2},{"id":3}]}`, []string{"items[].id"}, `{"result":{"items":[{"id":1},{"id":3}]},"left_out":{"paths":1}}`},
		{"items of a list at the root", `[{"id":1,"n":2}]`, []string{"[].id"}, `{"result":[{"id":1}],"left_out":{"paths":1}}`},
		{"lists in lists", `[[{"id":1,"n":2}]]`, []string{"[][].id"}, `{"result":[[{"id":1}]],"left_out":{"paths":1}}`},
		{"every member", `{"cards":{"x":{"kind":"visa","no":"4"},"y":{"kind":"mc","no":"5"}}}`, []string{"cards.*.kind"},
			`{"result":{"cards":{"x":{"kind":"visa"},"y":{"kind":"mc"}}},"left_out":{"paths":2}}`},
		{"a name and every member together", `{"a":{"x":1,"y":2,"z":3},"b":{"x":4,"y":5}}`, []string{"a.x", "*.y"},
			`{"result":{"a":{"x":1,"y":2},"b":{"y":5}},"left_out":{"paths":2}}`},
		{"a short path covers a long one", `{"a":{"x":1,"y":2}}`, []string{"a.x", "a"}, `{"result":{"a":{"x":1,"y":2}}}`},
		{"names that need quotes", `{"content-type":1,"x.y":{"é\"":2}}`, []string{`["x.y"]["é\""]`, "content-type"},
			`{"result":{"content-type":1,"x.y":{"é\"":2}}}`},
		{"an object in the wrong place is left out", `{"a":{"x":1},"b":2}`, []string{"a[].x", "b"}, `{"result":{"b":2},"left_out":{"paths":1}}`},
		{"a scalar in the wrong place is left out", `{"a":[7,{"x":1},[{"x":2}]]}`, []string{"a[].x"}, `{"result":{"a":[{"x":1}]},"left_out":{"paths":2}}`},
		{"an empty list on the way is kept", `{"items":[],"n":0}`, []string{"items[].id"}, `{"result":{"items":[]},"left_out":{"paths":1}}`},
		{"an object on the way may end up with nothing", `{"a":{"y":1},"b":2}`, []string{"a.x", "b"}, `{"result":{"a":{},"b":2},"left_out":{"paths":1}}`},
		{"numbers as they were written", `[1.0,1e5,-0,12345678901234567890123456789,0.10]`, nil, `{"result":[1.0,1e5,-0,12345678901234567890123456789,0.10]}`},
		{"scalars", `true`, nil, `{"result":true}`},
		{"escapes in their shortest form", `"\u0041\u00e9\/\ud83d\ude00\n"`, nil, `{"result":"Aé/😀\n"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, evidence, err := project(t, test.raw, keep(test.keep...))
			if err != nil || got != test.want || evidence != events.EvidenceFound {
				t.Errorf("got  %s %s %v\nwant %s EVIDENCE_FOUND", got, evidence, err, test.want)
			}
		})
	}
}

func TestTextThatIsJSONIsLookedIntoOnDemand(t *testing.T) {
	tests := []struct {
		name, raw string
		parse     bool
		want      string
	}{
		{"an object", `"{\"a\": 1}"`, true, `{"result":{"a":1}}`},
		{"a number", `"55.0"`, true, `{"result":55.0}`},
		{"only on demand", `"{\"a\": 1}"`, false, `{"result":"{\"a\": 1}"}`},
		{"once", `"\"{}x\""`, true, `{"result":"{}x"}`},
		{"plain text", `"no flights today"`, true, `{"result":"no flights today"}`},
		{"JSON with something after it is text", `"{} {}"`, true, `{"result":"{} {}"}`},
		{"a name twice is text", `"{\"a\":1,\"a\":2}"`, true, `{"result":"{\"a\":1,\"a\":2}"}`},
		{"inside an object text stays text", `{"t":"{\"a\":1}"}`, true, `{"result":{"t":"{\"a\":1}"}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := project(t, test.raw, func(c *projector.JSONConfig) { c.ParseText = test.parse })
			if err != nil || got != test.want {
				t.Errorf("got  %s %v\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestWhatIsEmptyIsNoEvidence(t *testing.T) {
	empty := []string{`null`, `""`, `" \t\n\u00a0"`, `[]`, ` [ ] `, `{}`, `{ }`, `"null"`, `"[]"`, `" { } "`, `"\"\""`, `"\"  \""`}
	for _, raw := range empty {
		for _, parse := range []bool{false, true} {
			result, evidence, err := project(t, raw, func(c *projector.JSONConfig) { c.ParseText, c.Keep = parse, projector.KeepPaths("a") })
			if err != nil || evidence != events.EvidenceNone || !strings.HasPrefix(result, `{"result":`) {
				t.Errorf("%s (parse_text %t): got %s %s %v, want NO_EVIDENCE", raw, parse, result, evidence, err)
			}
		}
	}
	found := []string{`0`, `false`, `[null]`, `[[]]`, `{"a":null}`, `"0"`, `"false"`, `"-"`, `"[] []"`, `"{"`, `"\"\\\"\\\"\""`}
	for _, raw := range found {
		if _, evidence, err := project(t, raw, nil); err != nil || evidence != events.EvidenceFound {
			t.Errorf("%s: got %s %v, want EVIDENCE_FOUND", raw, evidence, err)
		}
	}
}

func TestNoEvidenceWhenEveryListedPathIsThereAndEmpty(t *testing.T) {
	tests := []struct {
		raw   string
		paths []string
		want  events.Evidence
	}{
		{`{"items":[],"total":0}`, []string{"items"}, events.EvidenceNone},
		{`{"items":[1],"total":0}`, []string{"items"}, events.EvidenceFound},
		{`{"total":0}`, []string{"items"}, events.EvidenceFound}, // not there
		{`{"error":"no such index"}`, []string{"items", "rows"}, events.EvidenceFound},
		{`{"items":[],"rows":null}`, []string{"items", "rows"}, events.EvidenceNone},
		{`{"items":[],"rows":[0]}`, []string{"items", "rows"}, events.EvidenceFound},
		{`{"items":[]}`, []string{"items", "rows"}, events.EvidenceFound},
		{`{"pages":[{"hits":[]},{"hits":""}]}`, []string{"pages[].hits"}, events.EvidenceNone},
		{`{"pages":[{"hits":[]},{"hits":[1]}]}`, []string{"pages[].hits"}, events.EvidenceFound},
		{`{"pages":[{"hits":[]},{}]}`, []string{"pages[].hits"}, events.EvidenceFound},
		{`{"pages":[],"n":1}`, []string{"pages[].hits"}, events.EvidenceNone},
		{`{"pages":"x"}`, []string{"pages[].hits"}, events.EvidenceFound},
		{`{"by":{"x":[],"y":{}}}`, []string{"by.*"}, events.EvidenceNone},
		{`{"by":{"x":[],"y":1}}`, []string{"by.*"}, events.EvidenceFound},
		{`[[],[]]`, []string{"[]"}, events.EvidenceNone},
		{`[[],[1]]`, []string{"[]"}, events.EvidenceFound},
		{`{"x":1,"items":[],"y":{"items":[1]}}`, []string{"items"}, events.EvidenceNone},
		{`"{\"items\":[]}"`, []string{"items"}, events.EvidenceNone},
	}
	for _, test := range tests {
		_, evidence, err := project(t, test.raw, func(c *projector.JSONConfig) {
			c.NoEvidenceWhenEmpty, c.ParseText = test.paths, true
		})
		if err != nil || evidence != test.want {
			t.Errorf("%s with %q: got %s %v, want %s", test.raw, test.paths, evidence, err, test.want)
		}
	}
}

func TestCapsLeaveOutAndCount(t *testing.T) {
	tests := []struct {
		name, raw string
		change    func(*projector.JSONConfig)
		want      string
	}{
		{"as many items as allowed", `[1,2,3]`, func(c *projector.JSONConfig) { c.MaxItems = 3 }, `{"result":[1,2,3]}`},
		{"one item too many", `[1,2,3,4]`, func(c *projector.JSONConfig) { c.MaxItems = 3 }, `{"result":[1,2,3],"left_out":{"items":1}}`},
		{"each list on its own", `[[1,2],[3,4],[5]]`, func(c *projector.JSONConfig) { c.MaxItems = 2 }, `{"result":[[1,2],[3,4]],"left_out":{"items":1}}`},
		{"a string of the limit", `"abcdé"`, func(c *projector.JSONConfig) { c.MaxString = 6 }, `{"result":"abcdé"}`},
		{"a string over the limit is cut between characters", `"abcdé"`, func(c *projector.JSONConfig) { c.MaxString = 5 }, `{"result":"abcd","left_out":{"strings":1}}`},
		{"a character that does not fit at all", `"😀"`, func(c *projector.JSONConfig) { c.MaxString = 3 }, `{"result":"","left_out":{"strings":1}}`},
		{"all three kinds", `{"l":[1,2],"s":"abc","x":0}`, func(c *projector.JSONConfig) {
			c.MaxItems, c.MaxString, c.Keep = 1, 2, projector.KeepPaths("l", "s")
		}, `{"result":{"l":[1],"s":"ab"},"left_out":{"items":1,"strings":1,"paths":1}}`},
		{"items go until the bytes are kept", `["aaaaaaaa","bbbbbbbb","cccccccc","dddddddd","eeeeeeee","ffffffff","gggggggg"]`, func(c *projector.JSONConfig) { c.MaxBytes = 80 },
			`{"result":["aaaaaaaa","bbbbbbbb","cccccccc","dddddddd"],"left_out":{"items":3}}`},
		{"of every list the same number", `{"a":["aaaaaaaa","bbbbbbbb","cccccccc"],"b":["dddddddd","eeeeeeee","ffffffff"]}`, func(c *projector.JSONConfig) { c.MaxBytes = 70 },
			`{"result":{"a":["aaaaaaaa"],"b":["dddddddd"]},"left_out":{"items":4}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := project(t, test.raw, test.change)
			if err != nil || got != test.want {
				t.Errorf("got  %s %v\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestTheResultMayHaveExactlyItsBytes(t *testing.T) {
	raw := fmt.Sprintf("%q", strings.Repeat("x", 100)) // with {"result":…} 113 bytes
	for limit, fits := range map[int64]bool{112: false, 113: true, 114: true} {
		result, _, err := project(t, raw, func(c *projector.JSONConfig) { c.MaxBytes = limit })
		if (err == nil) != fits {
			t.Errorf("max_bytes %d: got %s %v, want it to fit: %t", limit, result, err, fits)
		}
	}
}

func TestWhatCannotBeProjectedIsAnErrorThatSaysWhatIsWanted(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	const notJSON = "raw response: want one JSON value in UTF-8 with unique member names, got something else at byte "
	tests := []struct {
		name, raw string
		change    func(*projector.JSONConfig)
		want      string
	}{
		{"nothing", ``, nil, notJSON + "0"},
		{"text", `hello`, nil, notJSON + "0"},
		{"two values", `1 2`, nil, notJSON + "3"},
		{"a cut value", `{"a":`, nil, notJSON + "5"},
		{"a name twice", `{"secret":1,"secret":2}`, nil, notJSON + "12"},
		{"a lone surrogate", `"\ud800"`, nil, notJSON + "1"},
		{"invalid UTF-8", "\"\xff\"", nil, notJSON + "1"},
		{"a control character", "\"\x01\"", nil, notJSON + "1"},
		{"ten thousand and one levels", deep(10_001), nil, notJSON + "10000"},
		{"a level too deep", deep(33), nil, "raw response: want at most max_depth 32 levels, got more"},
		{"a number too long", "[" + strings.Repeat("9", 257) + "]", nil, "raw response: want numbers of at most 256 bytes, got one of 257"},
		{"a name too long", `{"` + strings.Repeat("n", 11) + `":1}`, func(c *projector.JSONConfig) { c.MaxString = 10 },
			"raw response: want member names of at most max_string 10 bytes, got one of 11"},
		{"nothing kept", `{"b":1}`, keep("a"), "raw response: none of the paths in keep is there; want a response of the shape that the policy describes"},
		{"nothing kept at the end of the paths", `[{"b":1},{}]`, keep("[].a.c"), ""}, // the second item is empty, which is something
		{"nothing kept deep down", `[{"a":{"b":1}}]`, keep("[].a.c"), "raw response: none of the paths in keep is there; want a response of the shape that the policy describes"},
		{"a text where an object is described", `"secret text"`, keep("a"), "raw response: none of the paths in keep is there; want a response of the shape that the policy describes"},
		{"too large without lists", `{"a":"` + strings.Repeat("x", 200) + `"}`, func(c *projector.JSONConfig) { c.MaxBytes = 64 },
			"result: want at most max_bytes, got more even with one item in every list"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result, evidence, err := project(t, test.raw, test.change)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %q (%.100s %s)\nwant %q", got, result, evidence, test.want)
			}
		})
	}
}

func TestOptionsOutOfBoundsAreAllReported(t *testing.T) {
	config := &projector.JSONConfig{
		Keep: projector.KeepPaths("a..b", "", "a[0]", "a[", `a["x"`, "a b", ".a", "a[]b", strings.Repeat("a.", 16)+"a", strings.Repeat("a", 257), "ok[].x"),
		Options: projector.Options{
			MaxBytes: 63, MaxString: 1<<20 + 1, MaxDepth: 129, MaxInput: 64<<20 + 1, MaxCost: 999, Scope: []string{"a[]", "b"}, Evidence: "true",
		},
		MaxItems: 0, NoEvidenceWhenEmpty: make([]string, 17),
	}
	want := []string{
		`max_bytes: want 64 to 1048576, got 63`,
		`max_string: want 1 to 1048576, got 1048577`,
		`max_depth: want 1 to 128, got 129`,
		`max_input: want 1 to 67108864, got 67108865`,
		`max_cost: want 1000 to 1000000000, got 999`,
		`scope[0]: want a path of member names alone, such as meta.query, got "a[]"`,
		`keep[0]: want a path such as items[].id, got "a..b": a name is not empty, and one with . [ ] * " or white space stands as ["name"] at byte 1`,
		`keep[1]: want a path of 1 to 256 bytes, got 0`,
		`keep[2]: want a path such as items[].id, got "a[0]": a bracket holds nothing or a JSON string, as in [] and ["name"] at byte 1`,
		`keep[3]: want a path such as items[].id, got "a[": a bracket holds nothing or a JSON string, as in [] and ["name"] at byte 1`,
		`keep[4]: want a path such as items[].id, got "a[\"x\"": a bracket is closed after its string at byte 1`,
		`keep[5]: want a path such as items[].id, got "a b": a name is not empty, and one with . [ ] * " or white space stands as ["name"] at byte 0`,
		`keep[6]: want a path such as items[].id, got ".a": a name follows a dot, and the first stands alone at byte 0`,
		`keep[7]: want a path such as items[].id, got "a[]b": a name follows a dot, and the first stands alone at byte 3`,
		`keep[8]: want at most 16 steps, got more`,
		`keep[9]: want a path of 1 to 256 bytes, got 257`,
		`no_evidence_when_empty: want at most 16 paths, got 17`,
		`max_items: want 1 to 100000, got 0`,
		`no_evidence_when_empty: want either this or evidence, got both`,
	}
	if got := config.Validate(); got == nil || got.Error() != strings.Join(want, "; ") {
		t.Errorf("got  %v\nwant %s", got, strings.Join(want, "; "))
	}
	if _, err := config.New(); err == nil {
		t.Error("New took a config that Validate refuses")
	}
	nothing := projector.DefaultJSON()
	nothing.Keep = []projector.Keep{}
	if err := nothing.Validate(); err == nil {
		t.Error("an empty keep was taken")
	}
	if err := projector.DefaultJSON().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestTheRegistryKnowsItsNamesAndNoOther(t *testing.T) {
	for _, name := range projector.Names() {
		config, ok := projector.NewConfig(name)
		if !ok || config.Validate() != nil || config.Shared().MaxBytes <= 0 {
			t.Errorf("%s: want a config with valid defaults, got %+v %t", name, config, ok)
		}
	}
	if _, ok := projector.NewConfig("csv"); ok {
		t.Error(`NewConfig("csv"): want none`)
	}
}

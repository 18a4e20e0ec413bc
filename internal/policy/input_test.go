package policy_test

import (
	"strings"
	"testing"

	"runledger/internal/harness"
	"runledger/internal/policy"
)

// input compiles a schema as that of a tool.
func input(t testing.TB, schema string) harness.InputSchema {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte(tool("    input_schema: "+schema+"\n")))
	if err != nil {
		t.Fatal(err)
	}
	return p.Tools["look"].Input
}

func TestCheckTellsWhatIsWantedAndNothingOfTheArguments(t *testing.T) {
	const user = `{type: object, required: [user_id], properties: {user_id: {type: string, maxLength: 5}, n: {type: integer, minimum: 1}, tags: {type: array, items: {type: string}}}, additionalProperties: false}`
	tests := []struct{ name, schema, arguments, want string }{
		{"good", user, `{"user_id":"abc","n":1,"tags":["a"]}`, ""},
		{"missing", user, `{"n":1}`, `arguments: want "user_id", got none`},
		{"wrong type", user, `{"user_id":424242}`, "arguments.user_id: want string, got number"},
		{"too long, in characters", user, `{"user_id":"ééééé"}`, ""},
		{"too long by one", user, `{"user_id":"canary"}`, "arguments.user_id: want at most 5 characters, got 6"},
		{"too small", user, `{"user_id":"a","n":0}`, "arguments.n: want a number of at least 1"},
		{"in a list", user, `{"user_id":"a","tags":["a",5]}`, "arguments.tags[1]: want string, got number"},
		{"unknown members by their count", user, `{"user_id":"a","canary":1,"canary2":1}`, "arguments: want only the members that the schema names, got 2 more"},
		{"three at most", `{properties: {a: {type: string}, b: {type: string}, c: {type: string}, d: {type: string}}}`, `{"d":1,"c":1,"b":1,"a":1}`,
			"arguments.a: want string, got number; arguments.b: want string, got number; arguments.c: want string, got number; and more"},
		{"names that the schema does not give", `{additionalProperties: {type: string}}`, `{"canary":{"canary":1}}`, "arguments.*: want string, got object"},
		{"enum", `{properties: {a: {enum: [x, 1, null, true]}}}`, `{"a":"canary"}`, `arguments.a: want one of "x", 1, null, true`},
		{"const", `{properties: {a: {const: x}}}`, `{"a":"canary"}`, `arguments.a: want "x"`},
		{"const object", `{properties: {a: {const: {b: 1}}}}`, `{"a":"canary"}`, "arguments.a: want the values that the schema gives"},
		{"pattern", `{properties: {a: {pattern: "^[a-z]+$"}}}`, `{"a":"CANARY"}`, "arguments.a: want a string that matches ^[a-z]+$"},
		{"any of", `{properties: {a: {anyOf: [{type: string}, {type: "null"}]}}}`, `{"a":5}`, "arguments.a: want one of the forms that the schema gives"},
		{"one of, several", `{properties: {a: {oneOf: [{type: number}, {type: integer}]}}}`, `{"a":5}`, "arguments.a: want exactly one of the forms that the schema gives, got several at once"},
		{"not", `{properties: {a: {not: {type: string}}}}`, `{"a":"canary"}`, "arguments.a: want another form; the schema excludes this one"},
		{"false", `{properties: {a: false}}`, `{"a":"canary"}`, "arguments.a: want nothing here"},
		{"unique", `{properties: {a: {uniqueItems: true}}}`, `{"a":[1,2,1.0]}`, "arguments.a: want items that differ, got items 0 and 2 alike"},
		{"multiple", `{properties: {a: {multipleOf: 0.01}}}`, `{"a":1.005}`, "arguments.a: want a multiple of 1/100"},
		{"through a reference", `{properties: {a: {$ref: "#/$defs/s"}}, $defs: {s: {type: string}}}`, `{"a":5}`, "arguments.a: want string, got number"},
		{"member names", `{propertyNames: {pattern: "^[a-z]+$"}}`, `{"CANARY":5}`, "arguments: want member names as the schema gives them"},
		{"contains", `{properties: {a: {contains: {type: string}}}}`, `{"a":[1]}`, "arguments.a: want an item of the form that the schema gives, got none"},
		{"dependent", `{dependentRequired: {a: [b]}}`, `{"a":1}`, `arguments: want "b" beside the other members, got none`},
		{"not an object", user, `["canary"]`, "arguments: want object, got array"},
		{"not JSON", user, `{canary}`, "arguments: JSON: want one value in UTF-8 with unique member names, got something else at byte 1"},
		{"a name twice", user, `{"a":1,"a":2}`, "arguments: JSON: want one value in UTF-8 with unique member names, got something else at byte 7"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := input(t, test.schema).Check([]byte(test.arguments)); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if strings.Contains(strings.ToLower(got), "canary") {
				t.Errorf("the arguments show: %s", got)
			}
		})
	}
}

func TestNumbersAreComparedExactly(t *testing.T) {
	schema := input(t, `{properties: {a: {maximum: 9007199254740993, multipleOf: 0.1}}}`)
	for arguments, good := range map[string]bool{
		`{"a":9007199254740993}`: true, // 2^53 + 1, which a float64 cannot hold
		`{"a":9007199254740994}`: false,
		`{"a":0.3}`:              true, // a float64 would have it as 0.299999…
		`{"a":0.31}`:             false,
		`{"a":3e-1}`:             true,
	} {
		if err := schema.Check([]byte(arguments)); (err == nil) != good {
			t.Errorf("%s: %v, want good: %t", arguments, err, good)
		}
	}
}

func TestFormatsAreForPeople(t *testing.T) {
	if err := input(t, `{properties: {a: {type: string, format: email}}}`).Check([]byte(`{"a":"nobody"}`)); err != nil {
		t.Errorf("format was asserted, which draft 2020-12 does not: %v", err)
	}
}

func TestASchemaMaySayMoreForPeople(t *testing.T) {
	schema := input(t, `{$schema: "https://json-schema.org/draft/2020-12/schema", title: t, description: d, x-ui: {order: [a]}, properties: {$ref: {type: string, examples: [{$ref: 1}], default: x}, a: {$ref: "#/definitions/a"}}, definitions: {a: {type: [string, "null"], $comment: c}}}`)
	for arguments, good := range map[string]bool{`{"$ref":"x","a":null}`: true, `{"$ref":1}`: false, `{"a":1}`: false} {
		if err := schema.Check([]byte(arguments)); (err == nil) != good {
			t.Errorf("%s: %v, want good: %t", arguments, err, good)
		}
	}
}

func TestArgumentsThatWouldCostTooMuchAreRefusedByCount(t *testing.T) {
	list := func(n int) string { return `{"a":[` + strings.Repeat("1,", n-1) + `1]}` }
	text := func(n int) string { return `{"a":"` + strings.Repeat("x", n) + `"}` }
	const items = `{properties: {a: {type: array, items: {type: integer}}}}` // 7 keywords and values
	const pattern = `{properties: {a: {pattern: "(x+x+)+y"}}}`               // 10 instructions
	tests := []struct{ name, schema, arguments, want string }{
		{"many values", items, list(100_000), ""},
		{"too many values", items, list(200_000), "arguments: want at most 142857 JSON values for a schema of this size, got 200002"},
		{"much text", pattern, text(1_000_000), "arguments.a: want a string that matches (x+x+)+y"},
		{"too much text", pattern, text(20_000_000), "arguments: want at most 10000000 bytes of text for patterns of this size, got 20000001"},
		{"a long number", items, `{"a":[` + strings.Repeat("9", 1024) + `]}`, ""},
		{"a number too long", items, `{"a":[` + strings.Repeat("9", 1025) + `]}`, "arguments: JSON: want numbers of at most 1024 bytes, got one of 1025"},
		{"an exponent too large", items, `{"a":[1e1001]}`, "arguments: JSON: want numbers with exponents from -1000 to 1000, got another"},
		{"an exponent that no number can have", items, `{"a":[1e999999999999]}`, "arguments: JSON: want numbers with exponents from -1000 to 1000, got another"},
		{"levels", `{}`, `{"a":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`, ""},
		{"too many levels", `{}`, `{"a":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, "arguments: JSON: want at most 128 levels, got more"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := input(t, test.schema).Check([]byte(test.arguments)); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestTheSameArgumentsGetTheSameAnswer(t *testing.T) {
	schema := input(t, `{properties: {a: {type: string}, b: {type: string}, c: {type: string}, d: {type: string}, e: {type: string}}, additionalProperties: false}`)
	arguments := []byte(`{"e":1,"d":1,"c":1,"b":1,"a":1,"z":1,"y":1}`)
	first := schema.Check(arguments).Error()
	for range 50 {
		if again := schema.Check(arguments).Error(); again != first {
			t.Fatalf("first %q, then %q", first, again)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(smallest))
	f.Add([]byte(complete))
	f.Add(policy.Airline())
	for _, faults := range [][]fault{policyFaults(), schemaFaults()} {
		for _, fault := range faults {
			if len(fault.text) < 4096 {
				f.Add([]byte(fault.text))
				f.Add([]byte(tool("    input_schema: " + fault.text + "\n")))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := policy.Parse("p.yaml", data)
		if (p == nil) == (err == nil) {
			t.Fatalf("want a policy or an error, got %v and %v", p, err)
		}
		if err != nil && len(err.Error()) > 200_000 {
			t.Fatalf("error of %d bytes", len(err.Error()))
		}
		if p != nil {
			for _, tool := range p.Tools {
				if tool.Input != nil {
					_ = tool.Input.Check([]byte(`{"user_id":"x","a":[1,2.5,{"b":null}]}`))
				}
				_, _ = tool.Projector.Project([]byte(`{"a":[1]}`))
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	schema := input(b, `{type: object, required: [user_id], properties: {user_id: {type: string}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := schema.Check([]byte(`{"user_id":"mia_li_3668"}`)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseAirline(b *testing.B) {
	for b.Loop() {
		if _, err := policy.Parse(policy.AirlineName, policy.Airline()); err != nil {
			b.Fatal(err)
		}
	}
}

package schemas_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"runledger/schemas"
)

func registry(t testing.TB) *schemas.Registry {
	t.Helper()
	r, err := schemas.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEverySchemaIsNamedByItsFileAndDescribesEachMember(t *testing.T) {
	for _, eventType := range schemas.Types() {
		source, err := schemas.Source(eventType)
		if err != nil {
			t.Fatal(err)
		}
		var schema struct {
			ID                   string `json:"$id"`
			Dialect              string `json:"$schema"`
			Title                string `json:"title"`
			Description          string `json:"description"`
			AdditionalProperties *bool  `json:"additionalProperties"`
			Properties           map[string]struct {
				Description string `json:"description"`
			} `json:"properties"`
			Examples []any `json:"examples"`
		}
		if err := json.Unmarshal(source, &schema); err != nil {
			t.Fatalf("%s: %v", eventType, err)
		}
		if schema.ID != "urn:runledger:schema:"+eventType || schema.Dialect != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: $id %q, $schema %q", eventType, schema.ID, schema.Dialect)
		}
		if "harness."+schema.Title+".v1" != eventType || schema.Description == "" || len(schema.Examples) == 0 {
			t.Errorf("%s: want title, description and examples, got %q, %q, %d", eventType, schema.Title, schema.Description, len(schema.Examples))
		}
		if schema.AdditionalProperties == nil || *schema.AdditionalProperties {
			t.Errorf("%s: want additionalProperties false", eventType)
		}
		for name, property := range schema.Properties {
			if property.Description == "" {
				t.Errorf("%s: %s has no description", eventType, name)
			}
		}
	}
}

func TestValidateSaysWhatIsWantedAndShowsNoValue(t *testing.T) {
	const call = "harness.tool.call.v1"
	tests := []struct{ name, eventType, data, want string }{
		{"good", call, `{"run_id":"r","tool_call_id":"c","tool":"t","arguments":{}}`, ""},
		{"missing", call, `{"run_id":"r"}`, `harness.tool.call.v1: data: want "tool_call_id", "tool", "arguments", got none`},
		{"wrong type", call, `{"run_id":"r","tool_call_id":"c","tool":424242,"arguments":{}}`, "harness.tool.call.v1: data.tool: want string, got number"},
		{"unknown member", call, `{"run_id":"r","tool_call_id":"c","tool":"t","arguments":{},"Tool":"canary"}`,
			`harness.tool.call.v1: data: want only the members that the schema names, got 1 more: "Tool"`},
		{"several", call, `{"run_id":1,"tool_call_id":2,"tool":"","arguments":{},"authorized":"canary","x":1}`,
			`harness.tool.call.v1: data: want only the members that the schema names, got 1 more: "x"; data.authorized: want null or boolean, got string; data.run_id: want string, got number; and more`},
		{"enum", "harness.run.finish.v1", `{"run_id":"r","outcome":"canary"}`, `harness.run.finish.v1: data.outcome: want one of "SUCCESS", "FAILED"`},
		{"not an object", "harness.run.finish.v1", `[]`, "harness.run.finish.v1: data: want object, got array"},
		{"not JSON", "harness.run.finish.v1", `{canary`, "harness.run.finish.v1: JSON: want one value in UTF-8 with unique member names, got something else at byte 1"},
		{"two values", "harness.run.finish.v1", `{} {}`, "harness.run.finish.v1: JSON: want one value in UTF-8 with unique member names, got something else at byte 4"},
		{"a name twice", "harness.run.finish.v1", `{"a":1,"a":2}`, "harness.run.finish.v1: JSON: want one value in UTF-8 with unique member names, got something else at byte 7"},
		{"too deep", call, `{"arguments":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, "harness.tool.call.v1: JSON: want at most 128 levels, got more"},
		{"number too long", call, `{"arguments":` + strings.Repeat("9", 1025) + `}`, "harness.tool.call.v1: JSON: want numbers of at most 1024 bytes, got one of 1025"},
		{"exponent too large", call, `{"arguments":1e1001}`, "harness.tool.call.v1: JSON: want numbers with exponents from -1000 to 1000, got another"},
		{"exponent that no integer holds", call, `{"arguments":1e-99999999999999999999}`, "harness.tool.call.v1: JSON: want numbers with exponents from -1000 to 1000, got another"},
		{"unknown type", "harness.tool.call.v2", `{}`, `event type: want one that has a schema, such as harness.tool.call.v1, got "harness.tool.call.v2"`},
		{"no way out of the folder", "../schemas/harness.tool.call.v1", `{}`, `event type: want one that has a schema, such as harness.tool.call.v1, got "../schemas/harness.tool.call.v1"`},
	}
	r := registry(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := r.Validate(test.eventType, []byte(test.data)); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAnErrorIsBounded(t *testing.T) {
	r := registry(t)
	data := `{"` + strings.Repeat("é", 100_000) + `":1,"limits":{"` + strings.Repeat("x", 100_000) + `":[]}}`
	err := r.Validate("harness.run.start.v1", []byte(data))
	if err == nil || len(err.Error()) > 2000 {
		t.Errorf("want an error of at most 2,000 bytes, got %d", len(err.Error()))
	}
}

func FuzzValidate(f *testing.F) {
	r := registry(f)
	types := schemas.Types()
	for i, eventType := range types {
		source, err := schemas.Source(eventType)
		if err != nil {
			f.Fatal(err)
		}
		var schema struct {
			Examples []jsontext.Value `json:"examples"`
		}
		if err := json.Unmarshal(source, &schema); err != nil {
			f.Fatal(err)
		}
		for _, example := range schema.Examples {
			f.Add(uint8(i), []byte(example))
		}
	}
	f.Add(uint8(0), []byte(`{"limits":{"run_bytes":1e1000}}`))
	f.Fuzz(func(t *testing.T, i uint8, data []byte) {
		if err := r.Validate(types[int(i)%len(types)], data); err != nil && len(err.Error()) > 4000 {
			t.Fatalf("error of %d bytes", len(err.Error()))
		}
	})
}

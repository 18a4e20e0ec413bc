package projector_test

import (
	"strings"
	"testing"

	"runledger/internal/projector"
)

// everyConfig gives each projector with its defaults, and a response for it that
// has n entries.
func everyConfig(n int) map[string]struct {
	config projector.Config
	raw    string
} {
	list := func(item string) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	type pair = struct {
		config projector.Config
		raw    string
	}
	return map[string]pair{
		"json":     {jsons(), list(`{"id":1,"name":"n"}`)},
		"rows":     {rows(), list(`{"id":1,"name":"n"}`)},
		"log":      {logs(), list(`"2024-05-01 10:00:00 ERROR disk full"`)},
		"passages": {passages(), list(`{"text":"a text","source":"kb/1","score":0.5}`)},
		"mcp":      {mcp(), `{"content":` + list(`{"type":"text","text":"a text"}`) + `}`},
		"text":     {texts(), `"` + strings.Repeat("a word ", n) + `"`},
	}
}

func TestEveryProjectorIsBoundedInInput(t *testing.T) {
	for name, test := range everyConfig(3) {
		size := int64(len(test.raw))
		for limit, fits := range map[int64]bool{size - 1: false, size: true, size + 1: true} {
			test.config.Shared().MaxInput = limit
			_, err := compile(t, test.config).Project([]byte(test.raw))
			if (err == nil) != fits || err != nil && !strings.HasPrefix(err.Error(), "raw response: want at most max_input ") {
				t.Errorf("%s: %d bytes with max_input %d: %v", name, size, limit, err)
			}
		}
	}
}

func TestEveryProjectorIsBoundedInCost(t *testing.T) {
	for name, test := range everyConfig(10_000) {
		test.config.Shared().MaxCost = 1000
		_, err := compile(t, test.config).Project([]byte(test.raw))
		if text(err) != "projection: want at most max_cost 1000 steps, got more" {
			t.Errorf("%s: %v", name, err)
		}
		test.config.Shared().MaxCost = 10_000_000
		if _, err := compile(t, test.config).Project([]byte(test.raw)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever a raw response of the default size holds, the default cost lets it
// through.
func TestTheDefaultCostIsEnoughForTheDefaultSizeOfResponses(t *testing.T) {
	const size = 768 << 10
	for name, item := range map[string]string{
		"numbers": "1", "empty lists": "[]", "empty objects": "{}", "small objects": `{"a":1}`, "texts": `"a"`,
		"records": `{"id":123456,"name":"a name of some length","tags":["x","y"]}`,
	} {
		raw := []byte("[" + strings.Repeat(item+",", size/(len(item)+1)-1) + item + "]")
		for of, config := range map[string]projector.Config{
			"json": jsons(), "json in few bytes": jsons(func(c *projector.JSONConfig) { c.MaxBytes, c.MaxItems = 150, projector.MaxItems }),
			"json that is judged": jsons(func(c *projector.JSONConfig) { c.Evidence = "result.exists(x, x == 7)" }),
		} {
			if _, err := compile(t, config).Project(raw); err != nil {
				t.Errorf("%s of %s: %v", of, name, err)
			}
		}
	}
}

func TestAsManyPathsAsThereMayBeAreCountedInTheCost(t *testing.T) {
	var members strings.Builder
	for i := range 60_000 {
		members.WriteString(`"` + strings.Repeat("m", 1+i%3) + string(rune(0x4e00+i%20_000)) + `":1,`)
	}
	raw := []byte("{" + members.String() + `"z":[1,2,3]}`)
	config := jsons(func(c *projector.JSONConfig) {
		for i := range projector.MaxPaths - 1 {
			c.Keep = append(c.Keep, projector.Keep{Path: strings.Repeat("k", i+1) + ".x"})
		}
		c.Keep = append(c.Keep, projector.Keep{Path: "z"})
		c.MaxCost = 500_000
	})
	if _, err := compile(t, config).Project(raw); text(err) != "projection: want at most max_cost 500000 steps, got more" {
		t.Errorf("got %v", err)
	}
}

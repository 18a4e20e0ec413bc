package projector_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/events"
	"runledger/internal/projector"
)

// FuzzJSON: whatever comes, the projector gives valid JSON within its bytes, the
// same twice, or an error.
func FuzzJSON(f *testing.F) {
	seeds := []string{
		`{"a":[1,2,{"b":"text"}],"c":null}`, `"{\"a\":[]}"`, `[[[[]]]]`, `"\ud800"`, `{"a":1,"a":2}`, "\"\xff\"",
		`1e400`, `-0.0`, ` `, `[`, `{"x":"éééééééééé"}`, `[1,2,3,4,5,6,7,8,9,10]`,
	}
	for i, seed := range seeds {
		f.Add([]byte(seed), "a[].b", uint16(64+i), uint8(3), uint8(i))
	}
	f.Fuzz(func(t *testing.T, raw []byte, path string, maxBytes uint16, maxItems, options uint8) {
		config := projector.DefaultJSON()
		config.MaxBytes, config.MaxItems = int64(maxBytes), int64(maxItems)
		config.ParseText = options&1 != 0
		config.MaxString, config.MaxDepth = int64(options>>2)+1, 8
		if options&2 != 0 {
			config.Keep, config.NoEvidenceWhenEmpty = projector.KeepPaths(path, "a"), []string{path}
		}
		p, err := config.New()
		if err != nil {
			return
		}
		first, err := p.Project(raw)
		if err != nil {
			return
		}
		if len(first.Result) > int(maxBytes) || !jsontext.Value(first.Result).IsValid() {
			t.Fatalf("%q: result of %d bytes, want valid JSON of at most %d: %s", raw, len(first.Result), maxBytes, first.Result)
		}
		if first.Evidence != events.EvidenceFound && first.Evidence != events.EvidenceNone {
			t.Fatalf("%q: evidence %q", raw, first.Evidence)
		}
		if second, err := p.Project(raw); err != nil || !bytes.Equal(first.Result, second.Result) || first.Evidence != second.Evidence {
			t.Fatalf("%q: two results: %s and %s %v", raw, first.Result, second.Result, err)
		}
	})
}

func BenchmarkJSON(b *testing.B) {
	item := `{"id":123456,"name":"a name of some length","price":12.50,"tags":["x","y"],"secret":"not for the agent"},`
	for _, size := range []struct {
		name  string
		items int
	}{{"4KiB", 40}, {"64KiB", 640}, {"768KiB", 7600}} {
		raw := []byte("[" + string(bytes.Repeat([]byte(item), size.items)) + "null]")
		config := projector.DefaultJSON()
		config.Keep, config.MaxItems = projector.KeepPaths("[].id", "[].name", "[].price"), 50
		p, err := config.New()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(size.name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Project(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

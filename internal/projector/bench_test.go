package projector_test

import (
	"strings"
	"testing"

	"runledger/internal/projector"
)

func BenchmarkProjectors(b *testing.B) {
	for _, size := range []struct {
		name    string
		entries int
	}{{"small", 20}, {"large", 5000}} {
		for name, test := range everyConfig(size.entries) {
			p := compile(b, test.config)
			b.Run(name+"/"+size.name, func(b *testing.B) {
				b.SetBytes(int64(len(test.raw)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.Project([]byte(test.raw)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkExpression(b *testing.B) {
	raw := `{"rows":[` + strings.Repeat(`{"id":1,"name":"n","score":0.5},`, 499) + `{"id":7}]}`
	for _, expression := range []string{"", "size(result.rows) > 0", "result.rows.exists(r, r.id == 7)"} {
		p := compile(b, rows(func(c *projector.RowsConfig) { c.Evidence = expression }))
		b.Run(expression, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Project([]byte(raw)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := rows(func(c *projector.RowsConfig) { c.Evidence = "size(result.rows) > 0" }).Validate(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The dearest that the default cost lets through.
func BenchmarkWorst(b *testing.B) {
	raw := "[" + strings.Repeat("1,", 390_000) + "1]"
	for name, config := range map[string]projector.Config{
		"expression": jsons(func(c *projector.JSONConfig) { c.Evidence = "result.all(x, result.all(y, x == y))" }),
		"cut":        jsons(func(c *projector.JSONConfig) { c.MaxBytes, c.MaxItems = 150, projector.MaxItems }),
	} {
		p := compile(b, config)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = p.Project([]byte(raw))
			}
		})
	}
}

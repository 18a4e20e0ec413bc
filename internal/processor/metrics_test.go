package processor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"runledger/internal/events"

	"github.com/prometheus/client_golang/prometheus"
)

// declared gives the values of the constants of a type, as the source has them.
func declared(t *testing.T, dir, typeName string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != typeName {
				return true
			}
			for _, value := range spec.Values {
				if literal, ok := value.(*ast.BasicLit); ok {
					text, err := strconv.Unquote(literal.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, text)
				}
			}
			return true
		})
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// gathered gives the values of one label of a metric that has not counted yet.
func gathered(t *testing.T, metric, label string) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			if n := m.GetCounter().GetValue(); n != 0 {
				t.Errorf("%s begins at %v, want 0", metric, n)
			}
			for _, pair := range m.GetLabel() {
				if pair.GetName() == label {
					values = append(values, pair.GetValue())
				}
			}
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func TestDeadLettersBeginAtZeroForEveryReason(t *testing.T) {
	want := declared(t, "../harness", "Reason")
	if got := gathered(t, "runledger_dead_letters_total", "reason"); len(want) < 11 || !slices.Equal(got, want) {
		t.Errorf("got %v, want every constant of harness.Reason: %v", got, want)
	}
}

func TestFactsBeginAtZeroForEveryKindAndCode(t *testing.T) {
	want := declared(t, "../events", "Kind")
	if got := gathered(t, "runledger_facts_total", "fact"); len(want) < 9 || !slices.Equal(got, want) {
		t.Errorf("got %v, want every constant of events.Kind: %v", got, want)
	}
	codes := gathered(t, "runledger_facts_total", "code")
	for _, code := range events.Codes() {
		if !slices.Contains(codes, string(code)) {
			t.Errorf("no series for the code %s", code)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const results = `{"Action":"pass","Package":"runledger/internal/harness","Test":"TestGood"}
{"Action":"fail","Package":"runledger/internal/harness","Test":"TestBad"}
{"Action":"skip","Package":"runledger/internal/harness","Test":"TestSkipped"}
{"Action":"run","Package":"runledger/internal/harness","Test":"TestHung"}
{"Action":"pass","Package":"runledger/internal/harness"}
`

// checked checks a table of one row below a heading.
func checked(t *testing.T, lines string) (string, error) {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("internal/there.go", "")
	problems, _, err := check(write("docs/requirements.md", "| id | a | b | c |\n"+lines), write("test.json", results))
	return strings.Join(problems, "\n"), err
}

func TestEachFaultOfARowIsNamed(t *testing.T) {
	for row, want := range map[string]string{
		"| R1.1 | it holds | `internal/there.go` | `internal/harness.TestGood` |":                             "",
		"| R1.1 | it holds | `internal/gone.go` | `internal/harness.TestGood` |":                              "docs/requirements.md:2: R1.1: there is no internal/gone.go",
		"| R1.1 | it holds | nowhere | `internal/harness.TestGood` |":                                         "docs/requirements.md:2: R1.1: names no place in the code",
		"| S1.1 | it holds | `internal/there.go` | by itself |":                                               "docs/requirements.md:2: S1.1: names no test",
		"| S1.1 | it holds | `internal/there.go` | `internal/harness.TestGood`, `internal/harness.TestBad` |": "docs/requirements.md:2: S1.1: internal/harness.TestBad: fail",
		"| S1.1 | it holds | `internal/there.go` | `internal/harness.TestSkipped` |":                          "docs/requirements.md:2: S1.1: internal/harness.TestSkipped: skip",
		"| S1.1 | it holds | `internal/there.go` | `internal/harness.TestHung` |":                             "docs/requirements.md:2: S1.1: there is no test internal/harness.TestHung, or it did not finish",
		"| S1.1 | it holds | `internal/there.go` | `internal/store.TestGood` |":                               "docs/requirements.md:2: S1.1: there is no test internal/store.TestGood, or it did not finish",
	} {
		if got, err := checked(t, row); err != nil || got != want {
			t.Errorf("%s\ngot  %q, %v\nwant %q", row, got, err, want)
		}
	}
}

func TestATableThatCannotBeReadIsAnError(t *testing.T) {
	for _, lines := range []string{
		"no rows at all",
		"| R1.1 | three | columns |",
		"| R1.1 | a | `internal/there.go` | `internal/harness.TestGood` |\n| R1.1 | a | `internal/there.go` | `internal/harness.TestGood` |",
	} {
		if _, err := checked(t, lines); err == nil {
			t.Errorf("%q was taken", lines)
		}
	}
}

package judge

import (
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestTheJudgeSharesNothingWithWhatItJudges holds that no file of this package,
// tests included, imports anything of this module.
func TestTheJudgeSharesNothingWithWhatItJudges(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		read++
		for _, i := range file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil || strings.HasPrefix(path, "runledger") || strings.Contains(path, ".") {
				t.Errorf("%s imports %s; want the standard library alone", entry.Name(), i.Path.Value)
			}
		}
	}
	if read < 5 {
		t.Fatalf("read %d files", read)
	}
}

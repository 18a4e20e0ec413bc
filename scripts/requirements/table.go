package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// row is one requirement.
type row struct {
	id    string
	line  int
	files []string
	tests []string
}

var (
	rowStart = regexp.MustCompile(`^\| ([RS]\d+\.\d+) \|`)
	quoted   = regexp.MustCompile("`([^`]+)`")
)

// readTable reads the rows of a document; other lines pass.
func readTable(r io.Reader) ([]row, error) {
	var rows []row
	seen := make(map[string]bool)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		match := rowStart.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		columns := strings.Split(strings.Trim(lines.Text(), "| "), " | ")
		if len(columns) != 4 {
			return nil, fmt.Errorf("line %d: want 4 columns, got %d", n, len(columns))
		}
		if seen[match[1]] {
			return nil, fmt.Errorf("line %d: %s stands twice", n, match[1])
		}
		seen[match[1]] = true
		rows = append(rows, row{id: match[1], line: n, files: between(columns[2]), tests: between(columns[3])})
	}
	return rows, lines.Err()
}

// between gives what stands between backquotes.
func between(text string) []string {
	var all []string
	for _, match := range quoted.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

// check gives a sentence for each fault, and a summary.
func check(table, results string) (problems []string, summary string, err error) {
	document, err := os.Open(table)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = document.Close() }()
	rows, err := readTable(document)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", table, err)
	}
	if len(rows) == 0 {
		return nil, "", fmt.Errorf("%s: it has no rows", table)
	}
	tests, err := os.Open(results)
	if err != nil {
		return nil, "", fmt.Errorf("%w; run the tests first", err)
	}
	defer func() { _ = tests.Close() }()
	outcomes, err := readOutcomes(tests)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", results, err)
	}
	root := filepath.Dir(filepath.Dir(table))
	named := make(map[string]bool)
	for _, r := range rows {
		problems = append(problems, r.faults(root, outcomes, named)...)
	}
	return problems, fmt.Sprintf("%d requirements, proven by %d tests; %d faults", len(rows), len(named), len(problems)), nil
}

func (r row) faults(root string, outcomes map[string]string, named map[string]bool) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("docs/requirements.md:%d: %s: %s", r.line, r.id, fmt.Sprintf(format, args...)))
	}
	if len(r.files) == 0 {
		fault("names no place in the code")
	}
	for _, file := range r.files {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			fault("there is no %s", file)
		}
	}
	if len(r.tests) == 0 {
		fault("names no test")
	}
	for _, test := range r.tests {
		named[test] = true
		switch outcome := outcomes[test]; outcome {
		case "pass":
		case "":
			fault("there is no test %s, or it did not finish", test)
		default:
			fault("%s: %s", test, outcome)
		}
	}
	return faults
}

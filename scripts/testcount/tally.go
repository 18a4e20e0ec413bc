package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is one line of `go test -json`, as `go doc test2json` and `go help
// buildjson` describe it.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a package that is built; also names what it is built for
	Test        string // "" for events of the whole package
	Output      string
	Elapsed     float64 // seconds
	FailedBuild string  // ImportPath of the build that made the package fail
}

// test is one test or subtest that has begun.
type test struct {
	name   string
	output []string
	done   bool
}

// pkg is what is known of one package.
type pkg struct {
	tests                   []*test
	output                  []string // of no test
	passed, failed, skipped int
}

func (p *pkg) test(name string) *test {
	for _, t := range slices.Backward(p.tests) {
		if t.name == name && !t.done {
			return t
		}
	}
	t := &test{name: name}
	p.tests = append(p.tests, t)
	return t
}

// tally counts the events of one go test.
type tally struct {
	out      io.Writer
	packages map[string]*pkg
	builds   map[string][]string // output of builds by import path

	finished                int // packages
	passed, failed, skipped int // tests
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, packages: map[string]*pkg{}, builds: map[string][]string{}}
}

// read takes all events. Lines that are not JSON are shown as they are.
func (t *tally) read(in io.Reader) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil {
				t.take(e)
			} else {
				fmt.Fprint(t.out, line)
			}
		}
		if errors.Is(err, io.EOF) {
			t.finishRest()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) take(e event) {
	switch e.Action {
	case "build-output":
		t.builds[e.ImportPath] = append(t.builds[e.ImportPath], e.Output)
		return
	case "build-fail":
		return // the package that needs the build fails, too
	}
	p := t.packages[e.Package]
	if p == nil {
		p = &pkg{}
		t.packages[e.Package] = p
	}
	if e.Test == "" {
		t.takePackage(p, e)
		return
	}
	switch e.Action {
	case "run":
		p.test(e.Test)
	case "output":
		one := p.test(e.Test)
		one.output = append(one.output, e.Output)
	case "pass", "fail", "skip":
		t.takeTest(p, e)
	}
}

func (t *tally) takeTest(p *pkg, e event) {
	one := p.test(e.Test)
	one.done = true
	switch e.Action {
	case "pass":
		p.passed++
	case "skip":
		p.skipped++
		fmt.Fprintf(t.out, "SKIP  %s %s\n%s", e.Package, e.Test, strings.Join(one.output, ""))
	case "fail":
		p.failed++
		fmt.Fprintf(t.out, "FAIL  %s %s (%.2f s)\n%s", e.Package, e.Test, e.Elapsed, strings.Join(one.output, ""))
	}
	one.output = nil
}

func (t *tally) takePackage(p *pkg, e event) {
	switch e.Action {
	case "output":
		p.output = append(p.output, e.Output)
	case "pass", "skip": // skip: it has no tests
		t.finish(e.Package, p, false, e.Elapsed)
	case "fail":
		p.output = append(t.builds[e.FailedBuild], p.output...)
		t.finish(e.Package, p, true, e.Elapsed)
	}
}

// finish closes a package: what has begun and not ended has failed.
func (t *tally) finish(name string, p *pkg, failed bool, seconds float64) {
	for _, one := range p.tests {
		if !one.done {
			p.failed++
			fmt.Fprintf(t.out, "FAIL  %s %s did not finish\n%s", name, one.name, strings.Join(one.output, ""))
		}
	}
	verdict := "ok  "
	if failed {
		verdict = "FAIL"
		if p.failed == 0 {
			p.failed++
			fmt.Fprintf(t.out, "FAIL  %s\n%s", name, strings.Join(p.output, ""))
		}
	}
	t.finished++
	t.passed += p.passed
	t.failed += p.failed
	t.skipped += p.skipped
	delete(t.packages, name)
	if p.passed+p.failed+p.skipped > 0 {
		fmt.Fprintf(t.out, "%s  %-40s %5d passed %4d failed %4d skipped %7.1f s\n", verdict, name, p.passed, p.failed, p.skipped, seconds)
	}
}

// finishRest closes the packages of which the end was never told: go test was
// killed.
func (t *tally) finishRest() {
	names := make([]string, 0, len(t.packages))
	for name := range t.packages {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.finish(name, t.packages[name], true, 0)
	}
}

func (t *tally) summary(took time.Duration) {
	fmt.Fprintf(t.out, "\n%d packages, %d skipped, %.1f s\n", t.finished, t.skipped, took.Seconds())
	fmt.Fprintf(t.out, "%d passed, %d failed\n", t.passed, t.failed)
}

// verdict is nil where all that should have been tested was, and passed.
func (t *tally) verdict() error {
	switch {
	case t.failed > 0:
		return fmt.Errorf("%d failed", t.failed)
	case t.skipped > 0:
		return fmt.Errorf("%d skipped: a test here runs, or fails and says what it needs", t.skipped)
	case t.passed == 0:
		return errors.New("no test ran: want at least one; does RUN or PKG name any?")
	}
	return nil
}

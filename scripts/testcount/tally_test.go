package main

import (
	"strings"
	"testing"
	"time"
)

// counted plays lines of go test -json and returns what a person sees, and the
// verdict ("" is success).
func counted(t *testing.T, lines ...string) (output, verdict string) {
	t.Helper()
	var out strings.Builder
	c := newTally(&out)
	if err := c.read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	c.summary(1500 * time.Millisecond)
	if err := c.verdict(); err != nil {
		verdict = err.Error()
	}
	return out.String(), verdict
}

func TestCounts(t *testing.T) {
	const (
		runA     = `{"Action":"run","Package":"p","Test":"A"}`
		outA     = `{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:1: why\n"}`
		passA    = `{"Action":"pass","Package":"p","Test":"A","Elapsed":0.1}`
		failA    = `{"Action":"fail","Package":"p","Test":"A","Elapsed":0.1}`
		skipA    = `{"Action":"skip","Package":"p","Test":"A","Elapsed":0}`
		runSub   = `{"Action":"run","Package":"p","Test":"A/sub"}`
		passSub  = `{"Action":"pass","Package":"p","Test":"A/sub"}`
		passP    = `{"Action":"pass","Package":"p","Elapsed":0.2}`
		failP    = `{"Action":"fail","Package":"p","Elapsed":0.2}`
		emptyQ   = `{"Action":"skip","Package":"q","Elapsed":0}`
		buildOut = `{"ImportPath":"r [r.test]","Action":"build-output","Output":"r.go:3: undefined: x\n"}`
		buildBad = `{"ImportPath":"r [r.test]","Action":"build-fail"}`
		failR    = `{"Action":"fail","Package":"r","Elapsed":0,"FailedBuild":"r [r.test]"}`
		panicP   = `{"Action":"output","Package":"p","Output":"goleak: found leaks\n"}`
	)
	for _, test := range []struct {
		name    string
		lines   []string
		counts  string
		verdict string
		shown   []string
	}{
		{"a test and its subtest pass", []string{runA, runSub, passSub, passA, passP}, "1 packages, 0 skipped, 1.5 s\n2 passed, 0 failed\n", "", nil},
		{"a package without tests is not a skipped test", []string{runA, passA, passP, emptyQ}, "2 packages, 0 skipped, 1.5 s\n1 passed, 0 failed\n", "", nil},
		{"a failure shows its output", []string{runA, outA, failA, failP}, "1 packages, 0 skipped, 1.5 s\n0 passed, 1 failed\n", "1 failed", []string{"FAIL  p A", "a_test.go:1: why"}},
		{"a skip fails", []string{runA, outA, skipA, passP}, "1 packages, 1 skipped, 1.5 s\n0 passed, 0 failed\n", "1 skipped", []string{"SKIP  p A", "why"}},
		{"the same test twice, as with -count=2", []string{runA, passA, runA, passA, passP}, "1 packages, 0 skipped, 1.5 s\n2 passed, 0 failed\n", "", nil},
		{"a package that does not build shows the compiler's words", []string{buildOut, buildBad, failR}, "1 packages, 0 skipped, 1.5 s\n0 passed, 1 failed\n", "1 failed", []string{"undefined: x"}},
		{"a package that fails after its tests passed", []string{runA, passA, panicP, failP}, "1 packages, 0 skipped, 1.5 s\n1 passed, 1 failed\n", "1 failed", []string{"goleak: found leaks"}},
		{"a test that does not finish", []string{runA, outA, failP}, "1 packages, 0 skipped, 1.5 s\n0 passed, 1 failed\n", "1 failed", []string{"A did not finish", "why"}},
		{"output that stops in the middle", []string{runA, passA}, "1 packages, 0 skipped, 1.5 s\n1 passed, 1 failed\n", "1 failed", nil},
		{"nothing at all", nil, "0 packages, 0 skipped, 1.5 s\n0 passed, 0 failed\n", "no test ran", nil},
		{"only packages without tests", []string{emptyQ}, "1 packages, 0 skipped, 1.5 s\n0 passed, 0 failed\n", "no test ran", nil},
		{"lines that are not JSON are shown", []string{"go: something else", runA, passA, passP}, "1 packages, 0 skipped, 1.5 s\n1 passed, 0 failed\n", "", []string{"go: something else\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			output, verdict := counted(t, test.lines...)
			if !strings.HasSuffix(output, "\n"+test.counts) {
				t.Errorf("ends with:\n%s\nwant:\n%s", output, test.counts)
			}
			if (verdict == "") != (test.verdict == "") || !strings.HasPrefix(verdict, test.verdict) {
				t.Errorf("verdict is %q, want %q", verdict, test.verdict)
			}
			for _, want := range test.shown {
				if !strings.Contains(output, want) {
					t.Errorf("does not show %q:\n%s", want, output)
				}
			}
		})
	}
}

// Testcount reads the output of `go test -json` on stdin, shows a person what
// happened, a line a package and everything about failures, and ends with the
// counts:
//
//	18 packages, 0 skipped, 41.3 s
//	123 passed, 0 failed
//
// Its exit status is 1 if anything failed, was skipped or did not finish, and
// if no test ran at all: a gate that tested nothing must not pass.
//
// Tests and their subtests count one each, as do examples and fuzz targets
// with their seeds. A package that fails without a failed test (it does not
// build, it panics, TestMain refuses) counts as one failure.
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	begin := time.Now()
	t := newTally(os.Stdout)
	if err := t.read(os.Stdin); err != nil {
		fmt.Fprintf(os.Stderr, "testcount: read the output of go test -json: %v\n", err)
		os.Exit(1)
	}
	t.summary(time.Since(begin))
	if err := t.verdict(); err != nil {
		fmt.Fprintf(os.Stderr, "testcount: %v\n", err)
		os.Exit(1)
	}
}

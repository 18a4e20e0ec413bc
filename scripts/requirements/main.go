// Requirements reads the table of docs/requirements.md and the output of one
// `go test -json ./...`, and fails where a row names no test, or a test that
// does not exist, was skipped, failed or did not finish, or a file that is not
// there:
//
//	requirements docs/requirements.md .cache/test.json
//
// A row begins with an identifier such as R1.2 (a sentence that SHALL hold) or
// S1.2 (a scenario) and has four columns: identifier, what holds, where, proven
// by. Files and tests stand between backquotes; a test is written as its folder
// and name, `internal/harness.TestX` or `internal/harness.TestX/sub`.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: requirements TABLE.md TEST.json")
		os.Exit(2)
	}
	problems, summary, err := check(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stdout, problem)
	}
	fmt.Fprintln(os.Stdout, summary)
	if len(problems) > 0 {
		os.Exit(1)
	}
}

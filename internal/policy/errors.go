package policy

import (
	"fmt"
	"slices"
	"strings"

	"runledger/internal/events"
)

// maxProblems is how many problems an [Error] shows.
const maxProblems = 50

// Problem is one fault of a policy file.
type Problem struct {
	Line, Column int    // from 1; columns count characters
	Path         string // for instance tools[3].timeout; empty for the file itself
	Text         string // what is wanted, and what came
}

// Error is a policy file that was refused, with all faults that were found, in
// the order of the file.
type Error struct {
	Name     string // of the file, as given to [Parse]
	Problems []Problem
	Newer    bool // it is of a newer form, and nothing else in it was judged
}

// Is implements the comparison with [events.ErrNewer].
func (e *Error) Is(target error) bool { return e.Newer && target == events.ErrNewer }

// Error gives one line a problem, in the form
//
//	policy.yaml:7:14: tools[0].timeout: want a duration such as 10s, got "soon"
//
// It shows the first 50.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == maxProblems {
			b.WriteString(fmt.Sprintf("%s: and %d more", e.Name, len(e.Problems)-i))
			break
		}
		b.WriteString(fmt.Sprintf("%s:%d:%d: ", e.Name, p.Line, p.Column))
		if p.Path != "" {
			b.WriteString(p.Path + ": ")
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// inOrder sorts the problems as they stand in the file.
func inOrder(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return problems
}

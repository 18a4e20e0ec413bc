package judge

import (
	"fmt"
	"slices"
)

// due says what should have followed by itself by an instant; empty for nothing.
func (s *state) due(at int64, policy Policy) string {
	if s.Phase != phaseRunning {
		return "" // what is due of an ending has its own place in the history
	}
	for _, n := range s.Open {
		if s.calls[n].Deadline <= at {
			return fmt.Sprintf("call %d is overdue", n)
		}
	}
	switch {
	case s.Exhausted != "":
		return "the run has used up its " + s.Exhausted
	case s.Deadline <= at:
		return "the deadline of the run has passed"
	case s.Released != "" && s.GraceUntil <= at:
		return "its grace has passed"
	case s.Released == "" && s.Invalid > policy.MaxRepairs:
		return "the run was wrong too often to go on unreleased"
	case s.Released == "" && s.mostRepeated() > policy.MaxRepeats:
		return "the run repeats itself too often to go on unreleased"
	}
	return ""
}

// next gives the first instant at which something follows by itself.
func (s *state) next() int64 {
	next := s.Deadline
	if s.Phase == phaseEnding {
		return s.At
	}
	for _, n := range s.Open {
		next = min(next, s.calls[n].Deadline)
	}
	if s.Released != "" {
		next = min(next, s.GraceUntil)
	}
	return next
}

func (s *state) mostRepeated() int {
	if len(s.repeats) == 0 {
		return 0
	}
	return slices.Max(s.repetitions())
}

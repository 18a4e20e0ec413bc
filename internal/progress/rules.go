package progress

import (
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// Rules are the progress rules that a run is judged by. They hold no state.
type Rules struct{}

var _ harness.ProgressRules = Rules{}

// Project implements harness.ProgressRules; see [Project].
func (Rules) Project(run *harness.Run, completed []harness.Record, now time.Time, max int) *events.RunProgress {
	return Project(run, completed, now, max)
}

// Check implements harness.ProgressRules; see [Check].
func (Rules) Check(report *events.ProgressReport, record func(string) *harness.Record, now time.Time) []events.Violation {
	return Check(report, record, now)
}

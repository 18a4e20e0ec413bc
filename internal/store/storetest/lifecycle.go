package storetest

import (
	"testing"

	"runledger/internal/events"
	"runledger/internal/store"

	"time"
)

func lifecycle() map[string]test {
	return map[string]test{
		"ARecordGoesFromProjectingToReady":                readyRecord,
		"ARecordGoesFromProjectingToError":                errorRecord,
		"ASettledRecordIsNotSettledOtherwise":             settledOtherwise,
		"AnOpenCallLeavesTheRunWhenItSettles":             openCalls,
		"ARecordOfAnotherReservationIsNotTouched":         anotherReservation,
		"ARecordOfTheSameFactAtAnotherInstantIsAnother":   anotherInstant,
		"NothingOfARefusedProjectionIsWritten":            refusedWhole,
		"ARecordAheadOfItsRunIsNotTakenBack":              recordAhead,
		"ARecordThatIsThereIsCompletedWhenWrittenAgain":   writtenAgain,
		"ASettlementKeepsWhatTheReservationWrote":         keepsRequest,
		"ACallReservedAndSettledAtOnceIsWrittenComplete":  atOnce,
		"LoadedRunsAndRecordsAreTheCallersOwnToBeChanged": callersOwn,
	}
}

func readyRecord(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	s.mustProject(t, h.all(0))
	s.wantRecord(t, h.full("a"))
	h.settle("a")
	s.mustProject(t, h.all(2))
	s.wantAll(t, h)
}

func errorRecord(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	s.mustProject(t, h.all(0))
	h.fail("a")
	s.mustProject(t, h.all(2))
	s.wantAll(t, h)
}

func settledOtherwise(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.settle("a")
	h.refuse()
	s.mustProject(t, h.stretch(0, 3))
	for _, from := range []uint64{0, 1, 2} {
		p := h.stretch(from, 4)
		p.Records[0].Record.Status = events.StatusError
		wantConflict(t, s.project(t, p))
	}
	s.wantRun(t, h.at(3))
	s.wantRecord(t, h.full("a"))
}

func openCalls(t *testing.T, s Subject) {
	h := start(t, "run")
	for _, id := range []string{"a", "b", "c"} {
		h.reserve(id)
	}
	s.mustProject(t, h.all(0))
	s.wantRun(t, h.at(4))
	h.settle("b")
	s.mustProject(t, h.all(4))
	run := s.run(t, "run")
	if len(run.Open) != 2 || run.Open[0].ToolCallID != "a" || run.Open[1].ToolCallID != "c" {
		t.Fatalf("open calls are %v, want a and c", run.Open)
	}
}

func anotherReservation(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.refuse()
	h.refuse()
	s.mustProject(t, h.stretch(0, 2))
	p := h.stretch(2, 4)
	record := *h.full("a")
	record.Call = 4
	p.Records = []store.RecordChange{{Record: &record, Reserved: true}}
	wantConflict(t, s.project(t, p))
	s.wantRun(t, h.at(2))
	s.wantRecord(t, h.full("a"))
}

func anotherInstant(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.settle("a")
	s.mustProject(t, h.stretch(0, 2))
	p := h.stretch(2, 3)
	p.Records[0].Record.ReservedAt = p.Records[0].Record.ReservedAt.Add(time.Millisecond)
	wantConflict(t, s.project(t, p))
	s.wantRecord(t, h.find("a").reserved)
}

func refusedWhole(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.reserve("b")
	h.settle("b")
	s.mustProject(t, h.stretch(0, 2))
	p := h.stretch(1, 4) // a and b: a is refused
	p.Records[0].Record.ReservedAt = p.Records[0].Record.ReservedAt.Add(time.Millisecond)
	wantConflict(t, s.project(t, p))
	s.wantRun(t, h.at(2))
	s.wantNoRecord(t, "run", "b")
	s.wantCompleted(t, h)
}

// recordAhead is a run that was lost while its records were not, and that is
// then written anew up to an earlier fact.
func recordAhead(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.settle("a")
	s.mustProject(t, h.all(0))
	s.LoseRun(t, "run")
	s.mustProject(t, h.stretch(0, 2))
	s.wantRun(t, h.at(2))
	s.wantRecord(t, h.full("a"))
	s.mustProject(t, h.stretch(2, 3))
	s.wantAll(t, h)
}

func writtenAgain(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	p := h.all(0)
	p.Records[0].Record.Request = nil // lost to whoever wrote it first
	s.mustProject(t, p)
	s.mustProject(t, h.all(0))
	s.wantAll(t, h)
}

func keepsRequest(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	s.mustProject(t, h.all(0))
	h.settle("a")
	p := h.all(2)
	p.Records[0].Record.Request = nil // the settlement does not bring it
	s.mustProject(t, p)
	s.wantAll(t, h)
}

func atOnce(t *testing.T, s Subject) {
	h := start(t, "run")
	s.mustProject(t, h.all(0))
	h.reserve("a")
	h.settle("a")
	h.reserve("b")
	h.fail("b")
	s.mustProject(t, h.all(1))
	s.wantAll(t, h)
}

func callersOwn(t *testing.T, s Subject) {
	h := eventful(t, "run")
	s.mustProject(t, h.all(0))
	run, record := s.run(t, "run"), s.record(t, "run", "a")
	run.Calls[events.StatusReady], run.Open[0].Tool = 99, "changed"
	record.Request[0] = 'X'
	s.wantAll(t, h)
}

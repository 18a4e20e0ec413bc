package replay

// Unchecked says why something could not be decided again. The set is closed.
type Unchecked string

// What a verification counts and does not pass as checked.
const (
	// Facts whose event IN no longer has, and events that aged out before their
	// turn came.
	UncheckedEventAged Unchecked = "EVENT_NOT_IN_IN"
	// Facts of runs whose policy POLICIES does not have; their chain is checked.
	UncheckedPolicyGone Unchecked = "POLICY_NOT_KEPT"
	// Facts of runs whose beginning RUNS no longer has, and events whose answer
	// may have aged out with it.
	UncheckedHistoryAged Unchecked = "HISTORY_BEGINS_BEFORE_RUNS"
	// Facts of a run after its first difference, or after one before the stretch.
	UncheckedAfterDifference Unchecked = "AFTER_A_DIFFERENCE"
	// Events of runs that were given up for a while: kept under invalid, and
	// their agents told INTERNAL_ERROR.
	UncheckedGivenUp Unchecked = "RUN_WAS_GIVEN_UP"
	// Dead letters that must have been written and that INVALID no longer has.
	UncheckedLetterGone Unchecked = "DEAD_LETTER_NOT_KEPT"
	// Events behind the position of their partition: not decided yet.
	UncheckedUndecided Unchecked = "NOT_DECIDED_YET"
	// Events of runs of which more wait than are held; see mostWaiting.
	UncheckedTooMany Unchecked = "TOO_MANY_EVENTS_WAIT"
)

// StoreReport is what the comparison with the store found.
type StoreReport struct {
	Compared int64 `json:"compared"` // the same last fact and digest
	Further  int64 `json:"further"`  // went on since the stretch was read
	Behind   int64 `json:"behind"`   // it has lost writes; they are made good when the run is next touched
	Missing  int64 `json:"missing"`  // it has lost the run, likewise
	Expired  int64 `json:"expired"`  // nothing is left to compare
	Failed   int64 `json:"failed"`   // cannot be read
}

// Report is what a verification found.
type Report struct {
	Facts   int64 `json:"facts"`   // read
	Checked int64 `json:"checked"` // decided again, and the same to the byte
	State   int64 `json:"state"`   // of earlier events: they only built state

	// The others, so that Facts is the sum of these four.
	FactsUnchecked int64 `json:"facts_not_checked,omitempty"`
	FactsDiffer    int64 `json:"facts_that_differ,omitempty"`

	StoredLate int64 `json:"stored_late,omitempty"` // facts whose time is more than 5 minutes before RUNS stored them
	Dispatches int64 `json:"dispatches,omitempty"`  // the same as their reservations lead to

	LettersPurged bool `json:"letters_purged,omitempty"` // INVALID no longer has its first messages
	NoPosition    int  `json:"no_position,omitempty"`    // partitions with events of which no position counts in this IN

	Events  int64 `json:"events"`  // that led to a fact, or rightly to none
	Ignored int64 `json:"ignored"` // of these: known already, or a tick with nothing due
	Letters int64 `json:"letters"` // of these: kept for the operator, with the right reason
	Runs    int64 `json:"runs"`    // that have facts in the stretch
	Ended   int64 `json:"ended"`   // of these: whose chain is closed by run.terminated

	Unchecked map[Unchecked]int64 `json:"unchecked,omitempty"`
	Store     *StoreReport        `json:"store,omitempty"` // nil where nothing was compared

	NoSuchRuns []string `json:"no_such_runs,omitempty"` // that were asked for, and of which the streams have nothing
	EndedEarly bool     `json:"ended_early,omitempty"`  // what follows was not read

	DifferenceCount int64        `json:"difference_count"`
	Differences     []Difference `json:"differences,omitempty"` // the first of them
}

// NotChecked is how many facts, events and dead letters were not checked, for
// any reason.
func (r *Report) NotChecked() (n int64) {
	for _, some := range r.Unchecked {
		n += some
	}
	return n
}

// OK reports whether no difference was found.
func (r *Report) OK() bool { return r.DifferenceCount == 0 }

// Nothing reports whether nothing at all was checked.
func (r *Report) Nothing() bool {
	return r.Facts == 0 && r.Events == 0 && r.DifferenceCount == 0
}

// Add adds what was found in another stretch. So many differences are kept at most.
func (r *Report) Add(other *Report, most int) {
	r.Facts += other.Facts
	r.Checked += other.Checked
	r.State += other.State
	r.FactsUnchecked += other.FactsUnchecked
	r.FactsDiffer += other.FactsDiffer
	r.StoredLate += other.StoredLate
	r.Dispatches += other.Dispatches
	r.LettersPurged = r.LettersPurged || other.LettersPurged
	r.NoPosition = max(r.NoPosition, other.NoPosition)
	r.Events += other.Events
	r.Ignored += other.Ignored
	r.Letters += other.Letters
	r.Runs += other.Runs
	r.Ended += other.Ended
	for why, n := range other.Unchecked {
		r.unchecked(why, n)
	}
	if other.Store != nil {
		if r.Store == nil {
			r.Store = &StoreReport{}
		}
		r.Store.add(*other.Store)
	}
	r.DifferenceCount += other.DifferenceCount
	for _, d := range other.Differences {
		if len(r.Differences) < most {
			r.Differences = append(r.Differences, d)
		}
	}
}

func (s *StoreReport) add(other StoreReport) {
	s.Compared += other.Compared
	s.Further += other.Further
	s.Behind += other.Behind
	s.Missing += other.Missing
	s.Expired += other.Expired
	s.Failed += other.Failed
}

// factUnchecked counts one fact that is not checked.
func (r *Report) factUnchecked(why Unchecked) {
	r.FactsUnchecked++
	r.unchecked(why, 1)
}

func (r *Report) unchecked(why Unchecked, n int64) {
	if n == 0 {
		return
	}
	if r.Unchecked == nil {
		r.Unchecked = make(map[Unchecked]int64)
	}
	r.Unchecked[why] += n
}

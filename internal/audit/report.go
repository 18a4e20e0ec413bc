package audit

import "encoding/json"

// Report is what the streams tell. The members stand in the order of the
// demonstration's summary.
type Report struct {
	Runs          int64            `json:"runs"`     // started
	Calls         int64            `json:"calls"`    // decided: reserved or rejected
	Reserved      int64            `json:"reserved"` // accepted
	Ready         int64            `json:"ready"`    // settled as READY
	Error         int64            `json:"error"`    // settled as ERROR
	EvidenceFound int64            `json:"evidence_found"`
	NoEvidence    int64            `json:"no_evidence"`
	Rejected      map[string]int64 `json:"rejected"`   // tool calls by code; one event counts once
	Terminated    map[string]int64 `json:"terminated"` // runs by outcome
	Facts         int64            `json:"facts"`      // all messages of RUNS

	SequenceGaps        int64 `json:"sequence_gaps"`        // facts that do not follow the one before
	DuplicateDispatches int64 `json:"duplicate_dispatches"` // dispatches of a call beyond its first

	// What the summary of a demonstration does not show.
	Events      int64            `json:"-"` // of IN, ticks left out
	DeadLetters map[string]int64 `json:"-"` // events kept in INVALID, by reason

	// Seconds is what the caller measured; Count leaves it 0.
	Seconds float64 `json:"seconds"`

	// Violations are sentences, each about one broken promise, at most
	// MaxViolations.
	Violations []string `json:"violations,omitempty"`
	// ViolationCount also counts those that were left out.
	ViolationCount int64 `json:"violation_count,omitempty"`
}

// MaxViolations bounds Report.Violations.
const MaxViolations = 1000

// OK reports whether every promise was kept.
func (r *Report) OK() bool { return r.ViolationCount == 0 }

// JSON is the report on one line, in the order of its members, the violations
// last and only where there are some.
func (r *Report) JSON() ([]byte, error) { return json.Marshal(r) }

package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"runledger/internal/events"
)

// Claim is one sentence of a [Report] and the calls that support it.
type Claim struct {
	Text string // 1 to 2,048 bytes
	// Negative says that something is not there; only such a claim may rest on a
	// call that found NO_EVIDENCE.
	Negative bool
	// Supports are tool call ids of READY calls of this run: one at least, 32 at
	// most, each once. All ids of a report have 256 KiB at most.
	Supports []string
}

// Report is what the agent says that it knows after a step.
type Report struct {
	Step   int     // 1, 2, 3 …; a step that was found invalid is reported again under its number
	Claims []Claim // at most 32
	Final  bool    // nothing may be reported after it
}

// ViolationCode says what is wrong with a claim or a report. The set is closed.
type ViolationCode string

// The violations of the progress protocol.
const (
	ViolationEnvelope     ViolationCode = "INVALID_ENVELOPE"    // a number or a text is outside its bounds
	ViolationStep         ViolationCode = "STEP_OUT_OF_ORDER"   // neither the next step nor the one under repair
	ViolationUnsupported  ViolationCode = "CLAIM_UNSUPPORTED"   // no call supports the claim
	ViolationUnknownCall  ViolationCode = "UNKNOWN_CALL"        // this run has no such call
	ViolationNotReady     ViolationCode = "CALL_NOT_READY"      // it is not settled, or ended as ERROR
	ViolationExpired      ViolationCode = "CALL_EXPIRED"        // its record has expired
	ViolationNoEvidence   ViolationCode = "NO_EVIDENCE"         // it found nothing, and the claim is not negative
	ViolationRepeated     ViolationCode = "SUPPORT_REPEATED"    // the claim names it twice
	ViolationAlreadyFinal ViolationCode = "FINAL_REPORT_EXISTS" // a final report was accepted before
)

// Violation names what is wrong with a report, and where.
type Violation struct {
	Code       ViolationCode
	Claim      int    // index in Report.Claims; -1 for the report as a whole
	ToolCallID string // the call, where it is about one
}

func (v Violation) String() string {
	text := string(v.Code)
	if v.Claim >= 0 {
		text += fmt.Sprintf(" in claim %d", v.Claim)
	}
	if v.ToolCallID != "" {
		text += fmt.Sprintf(" of call %.80q", v.ToolCallID)
	}
	return text
}

// InvalidProgressError says that a report does not hold. Repair what is named
// and report the same step again.
type InvalidProgressError struct {
	RunID       string
	Step        int
	Message     string
	Violations  []Violation
	RepairsLeft int // how often reports may still be wrong; once more releases the run
}

func (e *InvalidProgressError) Error() string {
	wrong := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		wrong[i] = v.String()
	}
	return fmt.Sprintf("progress report of step %d in run %s does not hold: %s; it may be wrong %d more times",
		e.Step, e.RunID, strings.Join(wrong, ", "), e.RepairsLeft)
}

// Report tells what the agent knows after a step, and returns nil when it was
// accepted: every claim rests on calls of this run that bear it. The error is
// *[InvalidProgressError] if the report does not hold and can be repaired,
// *[RejectedError] if it was refused, and otherwise as in [Run.Call].
func (r *Run) Report(ctx context.Context, report Report) error {
	p := &events.ProgressReport{RunID: r.id, Step: report.Step, Final: report.Final, Claims: make([]events.Claim, len(report.Claims))}
	for i, claim := range report.Claims {
		p.Claims[i] = events.Claim(claim)
	}
	what := fmt.Sprintf("progress report of step %d in run %s", report.Step, r.id)
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	_, err = r.askAndAwait(ctx, events.VerbProgressReport, data, what)
	return err
}

// Why a run is released.
const (
	ReleaseProtocolViolated = "PROGRESS_PROTOCOL_VIOLATED" // reports were wrong too often; SUCCESS needs a final one that holds
	ReleaseStalled          = "PROGRESS_STALLED"           // the run repeats itself
)

// Release says that a run may finish, and nothing else: further calls are
// refused as RUN_RELEASED. Calls and attempts that are under way go on.
type Release struct {
	Reason     string
	GraceUntil time.Time // the run ends as FAILED then, unless it is finished before
}

// Released is closed once the run is released, and stays open if it never is.
func (r *Run) Released() <-chan struct{} { return r.released }

// Release tells why the run was released; ok is false while it is not.
func (r *Run) Release() (release Release, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.release == nil {
		return Release{}, false
	}
	return *r.release, true
}

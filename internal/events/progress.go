package events

import (
	"fmt"
	"time"
)

// Limits of a progress report.
const (
	MaxClaims     = 32   // in a report
	MaxSupports   = 32   // call ids that support one claim
	MaxClaimBytes = 2048 // of a claim's text

	// MaxSupportBytes bounds all call ids of a report together, since the answer
	// may repeat each of them, and must fit in a message.
	MaxSupportBytes = 256 << 10
)

// Claim is one sentence of a report and the calls that support it. A negative
// claim says that something is not there; only it may rest on NO_EVIDENCE.
type Claim struct {
	Text     string   `json:"text"`
	Negative bool     `json:"negative,omitzero"`
	Supports []string `json:"supports"`
}

// ProgressReport is what an agent says that it knows after a step. Steps count
// 1, 2, 3 …; a step that was found invalid is reported again under its number.
type ProgressReport struct {
	RunID  string  `json:"run_id"`
	Step   int     `json:"step"`
	Claims []Claim `json:"claims"`
	Final  bool    `json:"final,omitzero"`
}

// ProgressAccepted says that every claim of a step holds.
type ProgressAccepted struct {
	Step   int  `json:"step"`
	Claims int  `json:"claims"`
	Final  bool `json:"final"`
}

// ViolationCode says what is wrong with a claim or a report; the set is closed.
type ViolationCode string

// The violations of the progress protocol.
const (
	ViolationEnvelope     ViolationCode = "INVALID_ENVELOPE"    // the report does not follow its schema
	ViolationStep         ViolationCode = "STEP_OUT_OF_ORDER"   // not the next step, or the step under repair
	ViolationUnsupported  ViolationCode = "CLAIM_UNSUPPORTED"   // no call supports the claim
	ViolationUnknownCall  ViolationCode = "UNKNOWN_CALL"        // this run has no such call
	ViolationNotReady     ViolationCode = "CALL_NOT_READY"      // it is not settled, or settled as ERROR
	ViolationExpired      ViolationCode = "CALL_EXPIRED"        // its record has expired
	ViolationNoEvidence   ViolationCode = "NO_EVIDENCE"         // it found nothing, and the claim is not negative
	ViolationRepeated     ViolationCode = "SUPPORT_REPEATED"    // the claim names it twice
	ViolationAlreadyFinal ViolationCode = "FINAL_REPORT_EXISTS" // a final report was accepted
)

// Violation names what is wrong, and where: the index of the claim from 0 (-1
// for the report as a whole), and the call.
type Violation struct {
	Code       ViolationCode `json:"code"`
	Claim      int           `json:"claim"`
	ToolCallID string        `json:"tool_call_id,omitempty"`
}

// ProgressInvalid is the INVALID_PROGRESS_PROTOCOL observation: it names each
// violation, so that the agent can repair the report and send the same step
// again. RepairsLeft is how often it may still be wrong.
type ProgressInvalid struct {
	RunID       string      `json:"run_id"`
	Code        string      `json:"code"` // InvalidProgressProtocol, or the code of a refusal
	Message     string      `json:"message"`
	Step        int         `json:"step"`
	Violations  []Violation `json:"violations,omitempty"`
	RepairsLeft int         `json:"repairs_left"`
}

// InvalidProgressProtocol is the code of the observation.
const InvalidProgressProtocol = "INVALID_PROGRESS_PROTOCOL"

// ReleaseReason says why a run was released; the set is closed.
type ReleaseReason string

// Why a run is released.
const (
	ReleaseProtocolViolated ReleaseReason = "PROGRESS_PROTOCOL_VIOLATED" // reports were wrong too often
	ReleaseStalled          ReleaseReason = "PROGRESS_STALLED"           // the run repeats itself
)

// RunReleased lets a run finish and nothing else, until GraceUntil.
type RunReleased struct {
	Reason     ReleaseReason `json:"reason"`
	GraceUntil time.Time     `json:"grace_until"`
}

// Kind implements [Payload].
func (*ProgressAccepted) Kind() Kind { return KindProgressAccepted }

// Kind implements [Payload].
func (*ProgressInvalid) Kind() Kind { return KindProgressInvalid }

// Kind implements [Payload].
func (*RunReleased) Kind() Kind { return KindRunReleased }

func (p *ProgressReport) check() error {
	if p.Step < 1 {
		return fmt.Errorf("step: want 1 or more, got %d", p.Step)
	}
	if p.Claims == nil || len(p.Claims) > MaxClaims {
		return fmt.Errorf("claims: want a list of at most %d, got %d", MaxClaims, len(p.Claims))
	}
	supportBytes := 0
	for i, c := range p.Claims {
		if c.Text == "" || len(c.Text) > MaxClaimBytes {
			return fmt.Errorf("claims[%d].text: want 1 to %d bytes, got %d", i, MaxClaimBytes, len(c.Text))
		}
		if len(c.Supports) > MaxSupports {
			return fmt.Errorf("claims[%d].supports: want at most %d, got %d", i, MaxSupports, len(c.Supports))
		}
		for _, id := range c.Supports {
			supportBytes += len(id)
		}
	}
	if supportBytes > MaxSupportBytes {
		return fmt.Errorf("claims: want call ids of at most %d bytes in all, got %d", MaxSupportBytes, supportBytes)
	}
	return nil
}

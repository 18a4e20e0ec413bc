package progress

import (
	"slices"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// Check names everything that does not hold in the claims of a report, in their
// order: each claim must rest on at least one call of this run that is READY and
// not expired at now. A call that found nothing supports negative claims only
// (requirement: NO_EVIDENCE is a negative observation). record finds a call of
// this run, nil if there is none.
func Check(report *events.ProgressReport, record func(toolCallID string) *harness.Record, now time.Time) []events.Violation {
	var violations []events.Violation
	for i, claim := range report.Claims {
		if len(claim.Supports) == 0 {
			violations = append(violations, events.Violation{Code: events.ViolationUnsupported, Claim: i})
		}
		for j, id := range claim.Supports {
			code := unsupported(claim, record(id), now)
			if slices.Contains(claim.Supports[:j], id) {
				code = events.ViolationRepeated
			}
			if code != "" {
				violations = append(violations, events.Violation{Code: code, Claim: i, ToolCallID: named(id)})
			}
		}
	}
	return violations
}

// unsupported gives why the call does not support the claim; empty if it does.
func unsupported(claim events.Claim, call *harness.Record, now time.Time) events.ViolationCode {
	switch {
	case call == nil:
		return events.ViolationUnknownCall
	case call.Expired(now):
		return events.ViolationExpired
	case call.Status != events.StatusReady:
		return events.ViolationNotReady
	case call.Evidence == events.EvidenceNone && !claim.Negative:
		return events.ViolationNoEvidence
	}
	return ""
}

// named repeats an id to the agent if it is one that a call can have.
func named(id string) string {
	if harness.CheckToolCallID(id, true) != nil {
		return ""
	}
	return id
}

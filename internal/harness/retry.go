package harness

// Operation is a kind of controlled work that may be attempted more than once.
type Operation string

// The operations of a run.
const (
	OperationIntentRouter   Operation = "INTENT_ROUTER"
	OperationSemanticGuard  Operation = "SEMANTIC_GUARD"
	OperationDiagnosisAgent Operation = "DIAGNOSIS_AGENT"
	OperationEvidenceRepair Operation = "EVIDENCE_REPAIR"
	OperationToolCall       Operation = "TOOL_CALL"
)

// RetryPolicies says how often each operation may be attempted. It cannot be
// changed.
type RetryPolicies struct{}

// MaxAttempts gives the number of attempts that the operation may have,
// the first included: two for the intent router and the semantic guard, one for
// everything else.
func (RetryPolicies) MaxAttempts(op Operation) int {
	if op == OperationIntentRouter || op == OperationSemanticGuard {
		return 2
	}
	return 1
}

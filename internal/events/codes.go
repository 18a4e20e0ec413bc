package events

// Code says why a call or an intent was refused or failed. The set is closed;
// each code has one fixed sentence that is safe to show to an agent. Details
// are for the operator's log alone.
type Code string

// Refusals of the preflight, in the order in which it checks.
const (
	CodeInvalidEnvelope   Code = "INVALID_ENVELOPE"
	CodeInvalidToolCallID Code = "INVALID_TOOL_CALL_ID"
	CodeRunMismatch       Code = "RUN_MISMATCH"
	CodeRunNotFound       Code = "RUN_NOT_FOUND"
	CodeRunNotOwned       Code = "RUN_NOT_OWNED"
	CodeInvalidInput      Code = "INVALID_INPUT"
	CodeRequestTooLarge   Code = "REQUEST_TOO_LARGE"
	CodeToolNotFound      Code = "TOOL_NOT_FOUND"
	CodeUnauthorized      Code = "UNAUTHORIZED"
	CodeNotReadOnly       Code = "NOT_READ_ONLY"
	CodeRunNotActive      Code = "RUN_NOT_ACTIVE"
	CodeDeadlineExceeded  Code = "DEADLINE_EXCEEDED"
	CodeRunReleased       Code = "RUN_RELEASED"
	CodeDuplicateToolCall Code = "DUPLICATE_TOOL_CALL"
	CodeBudgetExhausted   Code = "BUDGET_EXHAUSTED"
)

// Refusals of a model call or report.
const (
	CodeRetryNotAllowed Code = "RETRY_NOT_ALLOWED"
	CodeAttemptNotOpen  Code = "ATTEMPT_NOT_OPEN"
)

// Refusals of a start.
const (
	CodeRunExists       Code = "RUN_ALREADY_EXISTS"
	CodeInvalidIdentity Code = "INVALID_IDENTITY"
	CodeInvalidLimits   Code = "INVALID_LIMITS"
	CodeInvalidDeadline Code = "INVALID_DEADLINE"
)

// Ends of a call as ERROR.
const (
	CodeToolExecutionFailed Code = "TOOL_EXECUTION_FAILED"
	CodeToolTimeout         Code = "TOOL_TIMEOUT"
	CodeResultTooLarge      Code = "RESULT_TOO_LARGE"
	CodeProjectionFailed    Code = "PROJECTION_FAILED"
	CodeRunTerminated       Code = "RUN_TERMINATED"
)

// CodeInternal answers an event that the processor could not decide through no
// fault of the agent; the operator finds it under invalid.
const CodeInternal Code = "INTERNAL_ERROR"

// Message is the fixed sentence for an agent; it is empty for a code outside
// the set.
func (c Code) Message() string {
	for _, s := range sentences() {
		if s.code == c {
			return s.text
		}
	}
	return ""
}

// Codes returns the closed set.
func Codes() []Code {
	var codes []Code
	for _, s := range sentences() {
		codes = append(codes, s.code)
	}
	return codes
}

type sentence struct {
	code Code
	text string
}

func sentences() []sentence {
	return []sentence{
		{CodeInvalidEnvelope, "The event does not follow the schema of its type."},
		{CodeInvalidToolCallID, "The tool call id is missing, too long or holds a character that is not allowed."},
		{CodeRunMismatch, "The run id in the data is not the run of the subject."},
		{CodeRunNotFound, "There is no such run."},
		{CodeRunNotOwned, "The run belongs to another agent."},
		{CodeInvalidInput, "The arguments are not a JSON object that the tool's input schema accepts."},
		{CodeRequestTooLarge, "The request is larger than the policy allows."},
		{CodeToolNotFound, "The policy of this run has no such tool."},
		{CodeUnauthorized, "This agent may not call this tool."},
		{CodeNotReadOnly, "The call is not read-only; only read-only tools may be called."},
		{CodeRunNotActive, "The run has ended."},
		{CodeDeadlineExceeded, "The deadline of the run has passed."},
		{CodeRunReleased, "The run is released: it may finish, and not call any more."},
		{CodeRetryNotAllowed, "The retry policy allows no further attempt of this operation."},
		{CodeAttemptNotOpen, "No such attempt of this operation is under way."},
		{CodeDuplicateToolCall, "This tool call id was used before in this run; the first call stands."},
		{CodeBudgetExhausted, "A limit of the run is used up; the run has ended."},
		{CodeRunExists, "A run with this id exists already."},
		{CodeInvalidIdentity, "The session id is blank, too long or holds a control character."},
		{CodeInvalidLimits, "Each limit of a run must be positive and within the policy's ceiling."},
		{CodeInvalidDeadline, "The deadline must lie in the future and within the policy's longest run."},
		{CodeToolExecutionFailed, "The tool reported a failure."},
		{CodeToolTimeout, "The tool did not answer in time."},
		{CodeResultTooLarge, "The result is larger than the policy allows."},
		{CodeProjectionFailed, "The result could not be reduced to a safe form."},
		{CodeRunTerminated, "The run ended before the call was answered."},
		{CodeInternal, "The event could not be processed; an operator has been told."},
	}
}

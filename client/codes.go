package client

// Code says why an intent was refused or a call failed. The set is closed.
type Code string

// Why a tool call is refused (*[RejectedError]), in the order in which the
// processor checks. Other intents are refused for some of these too.
const (
	CodeInvalidEnvelope   Code = "INVALID_ENVELOPE"
	CodeInvalidToolCallID Code = "INVALID_TOOL_CALL_ID"
	CodeRunMismatch       Code = "RUN_MISMATCH"
	CodeRunNotFound       Code = "RUN_NOT_FOUND"
	CodeRunNotOwned       Code = "RUN_NOT_OWNED"
	CodeInvalidInput      Code = "INVALID_INPUT" // not what the tool's input schema takes
	CodeRequestTooLarge   Code = "REQUEST_TOO_LARGE"
	CodeToolNotFound      Code = "TOOL_NOT_FOUND"
	CodeUnauthorized      Code = "UNAUTHORIZED"
	CodeNotReadOnly       Code = "NOT_READ_ONLY"
	CodeRunNotActive      Code = "RUN_NOT_ACTIVE"
	CodeDeadlineExceeded  Code = "DEADLINE_EXCEEDED"
	CodeRunReleased       Code = "RUN_RELEASED"        // the run may finish, and nothing else; see [Run.Release]
	CodeDuplicateToolCall Code = "DUPLICATE_TOOL_CALL" // the first call with this id stands
	CodeBudgetExhausted   Code = "BUDGET_EXHAUSTED"    // and the run ends; also of a call that fails
)

// Why a model call, or the report of its attempt, is refused (*[RejectedError]).
const (
	CodeRetryNotAllowed Code = "RETRY_NOT_ALLOWED"
	CodeAttemptNotOpen  Code = "ATTEMPT_NOT_OPEN"
)

// Why a start is refused (*[RejectedError]).
const (
	CodeRunExists       Code = "RUN_ALREADY_EXISTS"
	CodeInvalidIdentity Code = "INVALID_IDENTITY"
	CodeInvalidLimits   Code = "INVALID_LIMITS"
	CodeInvalidDeadline Code = "INVALID_DEADLINE"
)

// Why an accepted call fails (*[FailedError]).
const (
	CodeToolExecutionFailed Code = "TOOL_EXECUTION_FAILED"
	CodeToolTimeout         Code = "TOOL_TIMEOUT"
	CodeResultTooLarge      Code = "RESULT_TOO_LARGE"
	CodeProjectionFailed    Code = "PROJECTION_FAILED"
	CodeRunTerminated       Code = "RUN_TERMINATED" // wrapped by *EndedError
)

// CodeInternal says that the processor could not decide, through no fault of
// the agent; an operator has been told.
const CodeInternal Code = "INTERNAL_ERROR"

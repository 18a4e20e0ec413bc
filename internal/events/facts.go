package events

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind names a fact; it is the tail of the fact's subject, always two tokens.
type Kind string

// The facts. See docs/protocol.md for when each is published.
const (
	KindRunStarted       Kind = "run.started"
	KindRunRejected      Kind = "run.rejected"
	KindToolReserved     Kind = "tool.reserved"
	KindToolRejected     Kind = "tool.rejected"
	KindToolSettled      Kind = "tool.settled"
	KindToolLate         Kind = "tool.late"
	KindModelGranted     Kind = "model.granted"
	KindModelRejected    Kind = "model.rejected"
	KindModelRecorded    Kind = "model.recorded"
	KindProgressAccepted Kind = "progress.accepted"
	KindProgressInvalid  Kind = "progress.invalid"
	KindRunReleased      Kind = "run.released"
	KindRunEnding        Kind = "run.ending"
	KindRunProgress      Kind = "run.progress"
	KindRunTerminated    Kind = "run.terminated"
)

// Type gives the CloudEvents type of the fact.
func (k Kind) Type() string { return "harness." + string(k) + ".v1" }

// Payload is the data of a fact.
type Payload interface {
	Kind() Kind
}

// RunStarted is the first fact of every run. Policy is the digest of the
// policy that the run keeps; ExpiresAt is when its records leave the store.
type RunStarted struct {
	RunID     string    `json:"run_id"`
	SessionID string    `json:"session_id"`
	Agent     string    `json:"agent"`
	Policy    string    `json:"policy"`
	Deadline  time.Time `json:"deadline"`
	ExpiresAt time.Time `json:"expires_at"`
	Limits    Limits    `json:"limits"`
}

// RunRejected answers an intent about a run (start, cancel, finish) that was
// refused. It never belongs to a run's history. Limit names the limit that is
// not positive or above its ceiling, where that is the reason.
type RunRejected struct {
	RunID   string `json:"run_id"`
	Intent  Verb   `json:"intent"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Limit   string `json:"limit,omitempty"`
}

// ToolReserved says that a call passed its preflight, that budget was taken
// for it and that its canonical record stands as PROJECTING. The event that
// caused it holds the complete request.
type ToolReserved struct {
	ToolCallID      string    `json:"tool_call_id"`
	Tool            string    `json:"tool"`
	Executor        string    `json:"executor"`
	Deadline        time.Time `json:"deadline"`
	RequestBytes    int64     `json:"request_bytes"`
	RequestDigest   string    `json:"request_digest"`
	ArgumentsDigest string    `json:"arguments_digest"`
}

// ToolRejected answers a call that was refused. ToolCallID and Tool are left
// out where they are not of the form that the protocol allows. SameArguments
// is told of a duplicate: whether it repeats the first call's arguments. Limit names
// the limit that is used up, where that is the reason.
type ToolRejected struct {
	RunID         string `json:"run_id"`
	ToolCallID    string `json:"tool_call_id,omitempty"`
	Tool          string `json:"tool,omitempty"`
	Code          Code   `json:"code"`
	Message       string `json:"message"`
	SameArguments *bool  `json:"same_arguments,omitempty"`
	Limit         string `json:"limit,omitempty"`
}

// Status is the lifecycle of a call: PROJECTING, then READY or ERROR, once.
type Status string

// The states of a call.
const (
	StatusProjecting Status = "PROJECTING"
	StatusReady      Status = "READY"
	StatusError      Status = "ERROR"
)

// Evidence says what a call's result may be used for. NO_EVIDENCE supports
// negative observations only; ERROR supports nothing.
type Evidence string

// The evidence of a settled call.
const (
	EvidenceFound Evidence = "EVIDENCE_FOUND"
	EvidenceNone  Evidence = "NO_EVIDENCE"
	EvidenceError Evidence = "ERROR"
)

// ToolSettled is the end of a call. Result is the bounded agent result, only
// where Status is READY. RawBytes and RawDigest describe the raw response,
// which no fact holds; RawStored says whether the canonical record keeps it.
type ToolSettled struct {
	ToolCallID string         `json:"tool_call_id"`
	Tool       string         `json:"tool"`
	Call       uint64         `json:"call"` // sequence of the call's tool.reserved
	Status     Status         `json:"status"`
	Evidence   Evidence       `json:"evidence"`
	Code       Code           `json:"code,omitempty"`
	Message    string         `json:"message,omitempty"`
	Result     jsontext.Value `json:"result,omitzero"` // [] and "" are results too, and omitempty would lose them
	RawBytes   int64          `json:"raw_bytes"`
	RawDigest  string         `json:"raw_digest,omitempty"`
	RawStored  bool           `json:"raw_stored"`
	Limit      string         `json:"limit,omitempty"` // the limit that this result would have passed
}

// ToolLate tells, once, of a result that came after its call had settled. It
// changes nothing and never belongs to a run's history.
type ToolLate struct {
	RunID      string        `json:"run_id"`
	ToolCallID string        `json:"tool_call_id"`
	Call       uint64        `json:"call"`
	Outcome    ResultOutcome `json:"outcome"`
	RawBytes   int64         `json:"raw_bytes"`
}

// RunEnding fixes the outcome of a run: from here on nothing else is accepted.
type RunEnding struct {
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"`
	Limit   string  `json:"limit,omitempty"` // the limit that is used up, where that is the reason
}

// Observation is one READY call of the run. Its bounded result stands in the
// canonical record and in the call's tool.settled, and is not repeated here.
type Observation struct {
	ToolCallID string   `json:"tool_call_id"`
	Tool       string   `json:"tool"`
	Call       uint64   `json:"call"`
	Evidence   Evidence `json:"evidence"`
}

// RunProgress tells what a run observed, in order of reservation, and counts
// by reason what was left out.
type RunProgress struct {
	Observed []Observation    `json:"observed"`
	LeftOut  map[string]int64 `json:"left_out,omitempty"`
	Steps    int              `json:"steps"` // reports that were accepted
	Final    bool             `json:"final"` // whether the last was a final one
}

// RunTerminated is the last fact of a run and closes its chain.
type RunTerminated struct {
	Outcome Outcome          `json:"outcome"`
	Reason  string           `json:"reason"`
	EndedAt time.Time        `json:"ended_at"` // when run.ending fixed the outcome
	Usage   Usage            `json:"usage"`
	Calls   map[string]int64 `json:"calls"` // settled calls by status
}

// Kind implements [Payload].
func (*RunStarted) Kind() Kind { return KindRunStarted }

// Kind implements [Payload].
func (*RunRejected) Kind() Kind { return KindRunRejected }

// Kind implements [Payload].
func (*ToolReserved) Kind() Kind { return KindToolReserved }

// Kind implements [Payload].
func (*ToolRejected) Kind() Kind { return KindToolRejected }

// Kind implements [Payload].
func (*ToolSettled) Kind() Kind { return KindToolSettled }

// Kind implements [Payload].
func (*ToolLate) Kind() Kind { return KindToolLate }

// Kind implements [Payload].
func (*RunEnding) Kind() Kind { return KindRunEnding }

// Kind implements [Payload].
func (*RunProgress) Kind() Kind { return KindRunProgress }

// Kind implements [Payload].
func (*RunTerminated) Kind() Kind { return KindRunTerminated }

// NewPayload returns an empty payload for the kind, nil for an unknown one.
func NewPayload(kind Kind) Payload {
	switch kind {
	case KindRunStarted:
		return &RunStarted{}
	case KindRunRejected:
		return &RunRejected{}
	case KindToolReserved:
		return &ToolReserved{}
	case KindToolRejected:
		return &ToolRejected{}
	case KindToolSettled:
		return &ToolSettled{}
	case KindToolLate:
		return &ToolLate{}
	case KindModelGranted:
		return &ModelGranted{}
	case KindModelRejected:
		return &ModelRejected{}
	case KindModelRecorded:
		return &ModelRecorded{}
	case KindProgressAccepted:
		return &ProgressAccepted{}
	case KindProgressInvalid:
		return &ProgressInvalid{}
	case KindRunReleased:
		return &RunReleased{}
	case KindRunEnding:
		return &RunEnding{}
	case KindRunProgress:
		return &RunProgress{}
	case KindRunTerminated:
		return &RunTerminated{}
	}
	return nil
}

package harness

import (
	"slices"
	"time"

	"runledger/internal/events"
)

// InputSchema says whether arguments fit a tool. The policy compiles it.
type InputSchema interface {
	// Check reports what is wrong with the arguments, a JSON object.
	Check(arguments []byte) error
}

// Projector reduces a raw response to a bounded agent result. It is pure and
// bounded in depth, items, bytes and counted cost, so that a replay gives the
// same.
type Projector interface {
	Project(raw []byte) (Projection, error)
}

// Projection is what a projector made of a raw response: a JSON value that is
// safe for the agent, and what it may be used for.
type Projection struct {
	Result   []byte
	Evidence events.Evidence // EVIDENCE_FOUND or NO_EVIDENCE
}

// Tool is what a policy says of one tool.
type Tool struct {
	Name      string
	Executor  string
	ReadOnly  bool
	Timeout   time.Duration // of one call
	Input     InputSchema   // nil takes any object
	Projector Projector
}

// ByteLimits bound what one call may carry, in UTF-8 bytes.
type ByteLimits struct {
	Request     int64 // the complete request
	RawResponse int64
	Record      int64 // request and raw response together
	AgentResult int64
}

// Policy is the rules that a run keeps from start to end. It is immutable;
// Digest names its content.
type Policy struct {
	Digest   string
	Tools    map[string]Tool
	Grants   map[string][]string // tools by agent; "*" stands for every agent, or every tool
	Ceilings events.Limits
	Bytes    ByteLimits

	LongestRun time.Duration // from start to deadline
	TTL        time.Duration // of records, after the run's deadline
	AllowColon bool          // in tool call ids; a deviation from the requirement
	Observed   int           // observations in run.progress at most

	Progress ProgressLimits
}

// ProgressLimits bound how long a run may go on without making progress.
type ProgressLimits struct {
	MaxRepairs int           // wrong progress reports that a run may have; one more releases it
	MaxRepeats int           // times that one call may come to the same result; once more releases the run
	Grace      time.Duration // for a released run to finish
}

// Granted reports whether the policy lets the agent call the tool.
func (p *Policy) Granted(agent, tool string) bool {
	return grants(p.Grants[agent], tool) || grants(p.Grants["*"], tool)
}

func grants(tools []string, tool string) bool {
	return slices.Contains(tools, tool) || slices.Contains(tools, "*")
}

package judge

import (
	"fmt"
	"maps"
	"slices"
)

// Cause names the event that led to something.
type Cause struct {
	Source   string
	ID       string
	Sequence uint64 // in IN
}

// Run is a run as the facts make it, or as the store has it. Instants are Unix
// milliseconds, 0 for none.
type Run struct {
	ID, Session, Agent, Policy             string
	Limits                                 [7]int64 // in the order of [LimitNames]
	StartedAt, Deadline, ExpiresAt         int64
	Start                                  Cause
	Sequence, Stream                       uint64
	Digest                                 string
	At                                     int64
	Inbound                                uint64
	ModelCalls, ToolCalls, KnownUsage      int64
	InputTokens, OutputTokens, TotalTokens int64
	RunBytes                               int64
	CallsByTool                            map[string]int64
	Open                                   []uint64         // sequences of the reservations
	Calls                                  map[string]int64 // settled, by status
	Exhausted, Phase                       string
	Outcome, Reason                        string
	EndedAt                                int64
	ProgressTold                           bool
	Released                               string
	GraceUntil                             int64
	Steps                                  int
	Final                                  bool
	Invalid                                int
	ReportSource, ReportID                 string
	Repeats                                []int // how often calls came to the same, ascending
	TimerAt                                int64 // as the store has it; facts do not say
}

// LimitNames are the limits of a run, as run.start names them.
func LimitNames() [7]string {
	return [7]string{"model_calls", "tool_calls", "calls_per_tool", "input_tokens", "output_tokens", "total_tokens", "run_bytes"}
}

// Record is one call.
type Record struct {
	ToolCallID, Tool, Executor                 string
	Call                                       uint64
	Status, Evidence, Code                     string
	ReservedAt, Deadline, ExpiresAt, SettledAt int64
	Cause, ResultCause                         Cause
	RequestBytes, RawBytes                     int64
	RequestDigest, ArgumentsDigest, RawDigest  string
	RawStored                                  bool
	Request, RawResponse, AgentResult          string
}

// Operation is one model operation.
type Operation struct {
	ID, Operation, Failure string
	Attempts               int
	Open, Succeeded        bool
	Granted, Reported      Cause
}

// differences collects what is not as it should be.
type differences []string

func differ[T comparable](d *differences, name string, got, want T) {
	if got != want {
		*d = append(*d, fmt.Sprintf("%s is %v, the facts say %v", name, got, want))
	}
}

// compare gives what differs between a run in the store and the facts.
func (got *Run) compare(want *Run) (d differences) {
	got.compareFixed(want, &d)
	differ(&d, "sequence", got.Sequence, want.Sequence)
	differ(&d, "stream sequence", got.Stream, want.Stream)
	differ(&d, "digest", got.Digest, want.Digest)
	differ(&d, "last instant", got.At, want.At)
	differ(&d, "applied inbound sequence", got.Inbound, want.Inbound)
	differ(&d, "model calls", got.ModelCalls, want.ModelCalls)
	differ(&d, "known usage", got.KnownUsage, want.KnownUsage)
	differ(&d, "tool calls", got.ToolCalls, want.ToolCalls)
	differ(&d, "input tokens", got.InputTokens, want.InputTokens)
	differ(&d, "output tokens", got.OutputTokens, want.OutputTokens)
	differ(&d, "total tokens", got.TotalTokens, want.TotalTokens)
	differ(&d, "run bytes", got.RunBytes, want.RunBytes)
	if !maps.Equal(got.CallsByTool, want.CallsByTool) {
		differ(&d, "calls by tool", fmt.Sprint(got.CallsByTool), fmt.Sprint(want.CallsByTool))
	}
	if !slices.Equal(got.Open, want.Open) {
		differ(&d, "open calls", fmt.Sprint(got.Open), fmt.Sprint(want.Open))
	}
	if !maps.Equal(got.Calls, want.Calls) {
		differ(&d, "calls by status", fmt.Sprint(got.Calls), fmt.Sprint(want.Calls))
	}
	if !slices.Equal(got.Repeats, want.Repeats) {
		differ(&d, "repetitions", fmt.Sprint(got.Repeats), fmt.Sprint(want.Repeats))
	}
	got.compareEnd(want, &d)
	return d
}

func (got *Run) compareFixed(want *Run, d *differences) {
	differ(d, "id", got.ID, want.ID)
	differ(d, "session", got.Session, want.Session)
	differ(d, "agent", got.Agent, want.Agent)
	differ(d, "policy", got.Policy, want.Policy)
	differ(d, "limits", got.Limits, want.Limits)
	differ(d, "start", got.StartedAt, want.StartedAt)
	differ(d, "deadline", got.Deadline, want.Deadline)
	differ(d, "expiry", got.ExpiresAt, want.ExpiresAt)
	differ(d, "start cause", got.Start, want.Start)
}

func (got *Run) compareEnd(want *Run, d *differences) {
	differ(d, "exhausted limit", got.Exhausted, want.Exhausted)
	differ(d, "phase", got.Phase, want.Phase)
	differ(d, "outcome", got.Outcome, want.Outcome)
	differ(d, "reason", got.Reason, want.Reason)
	differ(d, "instant of the end", got.EndedAt, want.EndedAt)
	differ(d, "progress told", got.ProgressTold, want.ProgressTold)
	differ(d, "release", got.Released, want.Released)
	differ(d, "grace", got.GraceUntil, want.GraceUntil)
	differ(d, "steps", got.Steps, want.Steps)
	differ(d, "final report", got.Final, want.Final)
	differ(d, "wrong reports", got.Invalid, want.Invalid)
	differ(d, "last report", got.ReportSource+" "+got.ReportID, want.ReportSource+" "+want.ReportID)
}

func (got *Record) compare(want *Record) (d differences) {
	if *got == *want {
		return nil
	}
	g, w := fmt.Sprintf("%+v", *got), fmt.Sprintf("%+v", *want)
	return differences{fmt.Sprintf("record %s is %s, the facts say %s", got.ToolCallID, g, w)}
}

func (got *Operation) compare(want *Operation) (d differences) {
	differ(&d, "operation "+got.ID, *got, *want)
	return d
}

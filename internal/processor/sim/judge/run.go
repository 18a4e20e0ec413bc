package judge

import (
	"slices"
	"strings"
	"time"
)

// The phases of a run and the states of a call, as the protocol names them.
const (
	phaseRunning    = "RUNNING"
	phaseEnding     = "ENDING"
	phaseTerminated = "TERMINATED"

	statusProjecting = "PROJECTING"
	statusReady      = "READY"
	statusError      = "ERROR"
)

// run is one run: its facts, what they amount to, and how far the world has
// followed them.
type run struct {
	id        string
	facts     []*fact
	state     *state // nil before run.started
	projected uint64 // the highest fact that the store ever stood at
	unread    int    // events that no position has passed
	schedules map[int64]bool
	wakes     time.Time // the first of the schedules that have not fired; zero for none
	disturbed bool      // the world removed something of it from the store

	violation func(format string, args ...any)
}

// state is what facts amount to.
type state struct {
	Run
	records    map[string]*call // by tool call id
	calls      map[uint64]*call // by sequence of the reservation
	operations map[string]*Operation
	done       []string       // tool call ids, in order of settlement
	repeats    map[string]int // by what a call came to
}

type call struct {
	Record
	late       bool // a late result was told
	dispatched bool
}

// take appends a fact to the history of the run.
func (r *run) take(f *fact, policies map[string]Policy) {
	if want := uint64(len(r.facts)) + 1; f.sequence != want {
		r.violation("want fact %d, got %v", want, f)
		return
	}
	r.facts = append(r.facts, f)
	if r.state == nil {
		if f.kind != "run.started" || f.previous != "" || !f.decision {
			r.violation("its history begins with %v", f)
		}
		r.state = &state{
			records: map[string]*call{}, calls: map[uint64]*call{}, operations: map[string]*Operation{}, repeats: map[string]int{},
		}
		r.checkStart(f, policies)
	} else {
		r.follows(f)
		r.check(f, policies[r.state.Policy])
	}
	r.state.apply(f)
}

// follows holds the chain.
func (r *run) follows(f *fact) {
	s := r.state
	switch {
	case f.agent != s.Agent:
		r.violation("%v is of %s, and the run of %s", f, f.agent, s.Agent)
	case f.previous != s.Digest:
		r.violation("the chain breaks at %v: want the digest %s, got %s", f, s.Digest, f.previous)
	case f.at.UnixMilli() < s.At:
		r.violation("time goes back at %v", f)
	case s.Phase == phaseTerminated:
		r.violation("%v follows the end", f)
	case f.kind == "run.started":
		r.violation("it starts again at %v", f)
	case f.decision && f.cause.Sequence <= s.Inbound:
		r.violation("%v decides event %d, and event %d was decided before", f, f.cause.Sequence, s.Inbound)
	case f.decision && f.event.role == "agent" && f.event.principal != s.Agent:
		r.violation("%v answers an event of %s", f, f.event.principal)
	case s.Phase == phaseEnding && f.kind != "tool.settled" && f.kind != "run.progress" && f.kind != "run.terminated":
		r.violation("%v comes after run.ending", f)
	}
}

// at gives what the first n facts amount to.
func (r *run) at(n uint64) *state {
	if r.state != nil && n == r.state.Sequence {
		return r.state
	}
	s := &state{
		records: map[string]*call{}, calls: map[uint64]*call{}, operations: map[string]*Operation{}, repeats: map[string]int{},
	}
	for _, f := range r.facts[:n] {
		s.apply(f)
	}
	return s
}

// apply takes the state past a fact, whether or not that is right.
func (s *state) apply(f *fact) {
	s.Sequence, s.Stream, s.Digest, s.At = f.sequence, f.stream, f.digest, f.at.UnixMilli()
	if f.decision {
		s.Inbound = f.cause.Sequence
	}
	p := &f.data
	switch f.kind {
	case "run.started":
		s.ID, s.Session, s.Agent, s.Policy, s.Start, s.Phase = f.run, p.SessionID, f.agent, p.Policy, f.cause, phaseRunning
		s.StartedAt, s.Deadline, s.ExpiresAt = f.at.UnixMilli(), p.Deadline.UnixMilli(), p.ExpiresAt.UnixMilli()
		s.CallsByTool, s.Calls = map[string]int64{}, map[string]int64{}
		for i, name := range LimitNames() {
			s.Limits[i] = p.Limits[name]
		}
	case "tool.reserved":
		s.reserve(f)
	case "tool.rejected", "model.rejected":
		if p.Code == "BUDGET_EXHAUSTED" {
			s.Exhausted = p.Limit
		}
	case "tool.settled":
		s.settle(f)
	case "model.granted", "model.recorded":
		s.attempt(f)
	case "progress.accepted":
		s.Steps, s.Final, s.ReportSource, s.ReportID = p.Step, p.Final, f.cause.Source, f.cause.ID
	case "progress.invalid":
		if p.Code == "INVALID_PROGRESS_PROTOCOL" {
			s.Invalid++
		}
		s.ReportSource, s.ReportID = f.cause.Source, f.cause.ID
	case "run.released":
		s.Released, s.GraceUntil = p.Reason, p.GraceUntil.UnixMilli()
	case "run.ending":
		s.Phase, s.Outcome, s.Reason, s.EndedAt = phaseEnding, p.Outcome, p.Reason, f.at.UnixMilli()
	case "run.progress":
		s.ProgressTold = true
	case "run.terminated":
		s.Phase = phaseTerminated
	}
}

func (s *state) reserve(f *fact) {
	p := &f.data
	c := &call{Record: Record{
		ToolCallID: p.ToolCallID, Tool: p.Tool, Executor: p.Executor, Call: f.sequence, Status: statusProjecting,
		ReservedAt: f.at.UnixMilli(), Deadline: p.Deadline.UnixMilli(), ExpiresAt: s.ExpiresAt, Cause: f.cause,
		RequestBytes: p.RequestBytes, RequestDigest: p.RequestDigest, ArgumentsDigest: p.ArgumentsDigest,
		Request: string(f.event.data),
	}}
	s.records[p.ToolCallID], s.calls[f.sequence] = c, c
	s.Open = append(s.Open, f.sequence)
	s.ToolCalls++
	s.CallsByTool[p.Tool]++
	s.RunBytes += p.RequestBytes
}

func (s *state) settle(f *fact) {
	p := &f.data
	c := s.calls[p.Call]
	if c == nil {
		return
	}
	c.Status, c.Evidence, c.Code, c.SettledAt = p.Status, p.Evidence, p.Code, f.at.UnixMilli()
	c.RawBytes, c.RawDigest, c.RawStored, c.AgentResult = p.RawBytes, p.RawDigest, p.RawStored, string(p.Result)
	if f.decision {
		c.ResultCause = f.cause
	}
	s.RunBytes += int64(len(p.Result))
	if p.RawStored {
		s.RunBytes += p.RawBytes
		c.RawResponse = string(rawOf(f.event))
	}
	s.Calls[p.Status]++
	s.Open = slices.DeleteFunc(s.Open, func(n uint64) bool { return n == p.Call })
	s.done = append(s.done, c.ToolCallID)
	s.repeats[strings.Join([]string{c.Tool, c.ArgumentsDigest, c.Status, c.Code, c.RawDigest}, "\n")]++
	if p.Limit != "" {
		s.Exhausted = p.Limit
	}
}

// repetitions gives how often calls came to the same, ascending.
func (s *state) repetitions() []int {
	counts := make([]int, 0, len(s.repeats))
	for _, n := range s.repeats {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	return counts
}

package replay

import (
	"cmp"
	"maps"
	"slices"

	"runledger/internal/events"
)

// Row counts one outcome, as it was recorded and as it would have been.
type Row struct {
	What     string `json:"what"` // what was decided: start, call, result, model, progress, end
	Code     string `json:"code"`
	Recorded int64  `json:"recorded"`
	WouldBe  int64  `json:"would_be"`
}

// Difference is how many more there would have been.
func (r Row) Difference() int64 { return r.WouldBe - r.Recorded }

// AgentRow counts what matters to one agent.
type AgentRow struct {
	Agent    string `json:"agent"`
	Reserved Pair   `json:"calls_reserved"`
	Refused  Pair   `json:"calls_refused"`
	Ready    Pair   `json:"calls_ready"`
	Starts   Pair   `json:"runs_started"`
	Failures Pair   `json:"runs_ended_otherwise"` // than with SUCCESS
}

// Pair is a count as it was recorded and as it would have been.
type Pair struct {
	Recorded int64 `json:"recorded"`
	WouldBe  int64 `json:"would_be"`
}

// Comparison is what would have been under another policy.
type Comparison struct {
	Events   int64 `json:"events"`       // decided again
	Before   int64 `json:"begun_before"` // runs that began before the stretch
	FellAway int64 `json:"fell_away"`    // results of calls that would not have been reserved
	NoResult int64 `json:"no_result"`    // calls that would have been reserved, and have no result
	Skipped  int64 `json:"runs_skipped"` // runs with a fact that cannot be read: left out from there on
	Aged     int64 `json:"aged"`         // events that aged out of IN before they could be decided again

	Codes  []Row      `json:"codes"`
	Limits []Row      `json:"limits"` // that ended runs, by name
	Agents []AgentRow `json:"agents"`
}

// What is counted, in the order in which it is shown.
const (
	tallyStart    = "start"
	tallyCall     = "call"
	tallyResult   = "result"
	tallyModel    = "model"
	tallyProgress = "progress"
	tallyEnd      = "end"
)

// Codes of outcomes that are no refusals.
const (
	codeAccepted = "ACCEPTED"
	codeReserved = "RESERVED"
	codeNoResult = "NO_RESULT_KNOWN"
	codeGoesOn   = "GOES_ON"
)

type tally struct {
	codes    map[[2]string]*Pair
	limits   map[string]*Pair
	agents   map[string]*AgentRow
	events   int64
	before   int64
	fellAway int64
	aged     int64
	skipped  int64
}

func newTally() *tally {
	return &tally{codes: map[[2]string]*Pair{}, limits: map[string]*Pair{}, agents: map[string]*AgentRow{}}
}

func (t *tally) recorded(f *events.Fact) {
	t.count(f, false, func(p *Pair) { p.Recorded++ })
}

// wouldBe counts a fact under the other policy. unknown says that its call has
// no result that anybody knows.
func (t *tally) wouldBe(f *events.Fact, unknown bool) {
	t.count(f, unknown, func(p *Pair) { p.WouldBe++ })
}

func (t *tally) goesOn() { t.pair(tallyEnd, codeGoesOn).WouldBe++ }

func (t *tally) pair(what, code string) *Pair {
	key := [2]string{what, code}
	if t.codes[key] == nil {
		t.codes[key] = &Pair{}
	}
	return t.codes[key]
}

func (t *tally) count(f *events.Fact, unknown bool, one func(*Pair)) {
	what, code := label(f.Payload)
	if what == "" {
		return
	}
	if unknown {
		code = codeNoResult
	}
	one(t.pair(what, code))
	a := t.agents[f.Agent]
	if a == nil {
		a = &AgentRow{Agent: f.Agent}
		t.agents[f.Agent] = a
	}
	switch {
	case what == tallyCall && code == codeReserved:
		one(&a.Reserved)
	case what == tallyCall:
		one(&a.Refused)
	case what == tallyResult && code == string(events.StatusReady):
		one(&a.Ready)
	case what == tallyStart && code == codeAccepted:
		one(&a.Starts)
	}
	if ending, ok := f.Payload.(*events.RunEnding); ok {
		if ending.Outcome != events.OutcomeSuccess {
			one(&a.Failures)
		}
		if ending.Limit != "" {
			if t.limits[ending.Limit] == nil {
				t.limits[ending.Limit] = &Pair{}
			}
			one(t.limits[ending.Limit])
		}
	}
}

// label says where a fact is counted; nowhere where it only follows from another.
func label(payload events.Payload) (what, code string) {
	switch p := payload.(type) {
	case *events.RunStarted:
		return tallyStart, codeAccepted
	case *events.RunRejected:
		if p.Intent == events.VerbRunStart {
			return tallyStart, string(p.Code)
		}
		return tallyEnd, string(p.Code)
	case *events.ToolReserved:
		return tallyCall, codeReserved
	case *events.ToolRejected:
		return tallyCall, string(p.Code)
	case *events.ToolSettled:
		return tallyResult, cmp.Or(string(p.Code), string(p.Status))
	case *events.ToolLate:
		return tallyResult, "LATE"
	case *events.ModelGranted:
		return tallyModel, "GRANTED"
	case *events.ModelRejected:
		return tallyModel, string(p.Code)
	case *events.ProgressAccepted:
		return tallyProgress, codeAccepted
	case *events.ProgressInvalid:
		return tallyProgress, p.Code
	case *events.RunReleased:
		return tallyProgress, string(p.Reason)
	case *events.RunEnding:
		return tallyEnd, string(p.Outcome)
	}
	return "", ""
}

func (t *tally) comparison() *Comparison {
	c := &Comparison{Events: t.events, Before: t.before, FellAway: t.fellAway, Aged: t.aged, Skipped: t.skipped, Codes: []Row{}, Limits: []Row{}, Agents: []AgentRow{}}
	for key, p := range t.codes {
		c.Codes = append(c.Codes, Row{What: key[0], Code: key[1], Recorded: p.Recorded, WouldBe: p.WouldBe})
	}
	order := []string{tallyStart, tallyCall, tallyResult, tallyModel, tallyProgress, tallyEnd}
	slices.SortFunc(c.Codes, func(a, b Row) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.What), slices.Index(order, b.What)), cmp.Compare(a.Code, b.Code))
	})
	if p := t.codes[[2]string{tallyResult, codeNoResult}]; p != nil {
		c.NoResult = p.WouldBe
	}
	for _, name := range slices.Sorted(maps.Keys(t.limits)) {
		c.Limits = append(c.Limits, Row{What: "limit", Code: name, Recorded: t.limits[name].Recorded, WouldBe: t.limits[name].WouldBe})
	}
	for _, name := range slices.Sorted(maps.Keys(t.agents)) {
		c.Agents = append(c.Agents, *t.agents[name])
	}
	return c
}

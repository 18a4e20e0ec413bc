package store

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// runFields are the fields of a run: those that its first fact fixed, and those
// that later ones change. None of the latter ever becomes zero again, but for
// the timer.
//
//nolint:gochecknoglobals // a table that nothing changes
var runFields = slices.Concat(
	[]field[harness.Run]{
		{"run", onCreate, func(r *harness.Run) any { return &r.ID }},
		{"session", onCreate, func(r *harness.Run) any { return &r.SessionID }},
		{"agent", onCreate, func(r *harness.Run) any { return &r.Agent }},
		{"policy", onCreate, func(r *harness.Run) any { return &r.Policy }},
		{"started_at", onCreate, func(r *harness.Run) any { return &r.StartedAt }},
		{"deadline", onCreate, func(r *harness.Run) any { return &r.Deadline }},
		{"expires_at", onCreate, func(r *harness.Run) any { return &r.ExpiresAt }},
		{"limit.model_calls", onCreate, func(r *harness.Run) any { return &r.Limits.ModelCalls }},
		{"limit.tool_calls", onCreate, func(r *harness.Run) any { return &r.Limits.ToolCalls }},
		{"limit.calls_per_tool", onCreate, func(r *harness.Run) any { return &r.Limits.CallsPerTool }},
		{"limit.input_tokens", onCreate, func(r *harness.Run) any { return &r.Limits.InputTokens }},
		{"limit.output_tokens", onCreate, func(r *harness.Run) any { return &r.Limits.OutputTokens }},
		{"limit.total_tokens", onCreate, func(r *harness.Run) any { return &r.Limits.TotalTokens }},
		{"limit.run_bytes", onCreate, func(r *harness.Run) any { return &r.Limits.RunBytes }},
	},
	causeFields("start.", onCreate, func(r *harness.Run) *events.Cause { return &r.StartCause }),
	[]field[harness.Run]{
		{"sequence", always, func(r *harness.Run) any { return &r.Sequence }},
		{"stream", always, func(r *harness.Run) any { return &r.Stream }},
		{"digest", always, func(r *harness.Run) any { return &r.Digest }},
		{"at", always, func(r *harness.Run) any { return &r.At }},
		{"inbound", always, func(r *harness.Run) any { return &r.Inbound }},
		{"used.model_calls", always, func(r *harness.Run) any { return &r.Usage.ModelCalls }},
		{"used.tool_calls", always, func(r *harness.Run) any { return &r.Usage.ToolCalls }},
		{"used.input_tokens", always, func(r *harness.Run) any { return &r.Usage.InputTokens }},
		{"used.output_tokens", always, func(r *harness.Run) any { return &r.Usage.OutputTokens }},
		{"used.total_tokens", always, func(r *harness.Run) any { return &r.Usage.TotalTokens }},
		{"used.known_usage", always, func(r *harness.Run) any { return &r.KnownUsage }},
		{"used.run_bytes", always, func(r *harness.Run) any { return &r.Usage.RunBytes }},
		{"exhausted", always, func(r *harness.Run) any { return (*string)(&r.Exhausted) }},
		{"phase", always, func(r *harness.Run) any { return (*string)(&r.Phase) }},
		{"outcome", always, func(r *harness.Run) any { return (*string)(&r.Termination.Outcome) }},
		{"reason", always, func(r *harness.Run) any { return &r.Termination.Reason }},
		{"ended_at", always, func(r *harness.Run) any { return &r.Termination.At }},
		{"progress_told", always, func(r *harness.Run) any { return &r.ProgressTold }},
		{"released", always, func(r *harness.Run) any { return (*string)(&r.Released) }},
		{"grace_until", always, func(r *harness.Run) any { return &r.GraceUntil }},
		{"step", always, func(r *harness.Run) any { return &r.Step }},
		{"final", always, func(r *harness.Run) any { return &r.Final }},
		{"invalid", always, func(r *harness.Run) any { return &r.Invalid }},
		{"report.source", always, func(r *harness.Run) any { return &r.ReportSource }},
		{"report.id", always, func(r *harness.Run) any { return &r.ReportID }},
		{"recent", onCreate | onSettle, func(r *harness.Run) any { return (*repetitions)(&r.Recent) }},
		{"timer_at", always, func(r *harness.Run) any { return &r.TimerAt }},
	},
)

// Fields of a run whose names carry data.
const (
	openPrefix    = "open:"      // and the call: an open call
	perToolPrefix = "used.tool:" // and the tool: calls of it
	callsPrefix   = "calls."     // and the status: settled calls
)

// encodeRun adds the run's fields that a projection changes: all of them where
// it writes the run anew.
func encodeRun(e *encoder, p *Projection) {
	run := p.Run
	if p.From == 0 {
		e.add("v", layoutVersion)
		encode(e, runFields, always, run)
		for tool, calls := range run.Usage.CallsByTool {
			e.add(perToolPrefix+tool, calls)
		}
	} else {
		parts := onChange
		if p.settles() {
			parts |= onSettle
		}
		encode(e, runFields, parts, run)
		if run.TimerAt.IsZero() {
			e.add("timer_at", "")
		}
	}
	for status, calls := range run.Calls {
		e.add(callsPrefix+string(status), calls)
	}
	for i := range p.Records {
		encodeCall(e, p, &p.Records[i])
	}
}

// encodeCall adds what the change of one call changes in its run.
func encodeCall(e *encoder, p *Projection, c *RecordChange) {
	if p.From > 0 && c.Reserved {
		e.add(perToolPrefix+c.Record.Tool, p.Run.Usage.CallsByTool[c.Record.Tool])
	}
	if c.Settled {
		return // the script takes it from the open calls
	}
	name := openPrefix + strconv.FormatUint(c.Record.Call, 10)
	open, err := encodeOpen(c.Record)
	e.fail(name, err)
	e.add(name, open)
}

// decodeRun reads a run from its hash, nil where there is none.
func decodeRun(hash map[string]string, runID string) (*harness.Run, error) {
	if len(hash) == 0 {
		return nil, nil
	}
	if err := checkVersion(hash["v"]); err != nil {
		return nil, err
	}
	run := &harness.Run{Calls: make(map[events.Status]int64)}
	if err := decode(runFields, run, func(_ int, name string) string { return hash[name] }); err != nil {
		return nil, conflict("a run: %w", err)
	}
	if run.ID != runID {
		return nil, conflict("a run that is not the one its key names")
	}
	for name, text := range hash {
		if err := decodeNamed(run, name, text); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(run.Open, func(a, b *harness.Record) int { return cmp.Compare(a.Call, b.Call) })
	if err := checkRun(run); err != nil {
		return nil, conflict("a run: %w", err)
	}
	return run, nil
}

// decodeNamed reads a field whose name carries data; others pass.
func decodeNamed(run *harness.Run, name, text string) error {
	if _, ok := strings.CutPrefix(name, openPrefix); ok {
		call, err := decodeOpen(text, run.ID)
		if err == nil {
			run.Open = append(run.Open, call)
		}
		return err
	}
	tool, perTool := strings.CutPrefix(name, perToolPrefix)
	status, calls := strings.CutPrefix(name, callsPrefix)
	if !perTool && !calls {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return conflict("a run: a count of calls: %w", errNumber)
	}
	if calls {
		run.Calls[events.Status(status)] = n
		return nil
	}
	if run.Usage.CallsByTool == nil {
		run.Usage.CallsByTool = make(map[string]int64)
	}
	run.Usage.CallsByTool[tool] = n
	return nil
}

// checkRun holds what every run has.
func checkRun(r *harness.Run) error {
	switch r.Phase {
	case harness.PhaseRunning, harness.PhaseEnding, harness.PhaseTerminated:
	default:
		return fmt.Errorf("field phase: want %s, %s or %s", harness.PhaseRunning, harness.PhaseEnding, harness.PhaseTerminated)
	}
	if r.Sequence == 0 || r.Agent == "" || r.StartedAt.IsZero() || r.ExpiresAt.IsZero() {
		return fmt.Errorf("fields sequence, agent, started_at, expires_at: want each to be there")
	}
	return nil
}

package judge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// checkStart holds that a run is what its owner asked for.
func (r *run) checkStart(f *fact, policies map[string]Policy) {
	var asked struct {
		SessionID string           `json:"session_id"`
		Deadline  time.Time        `json:"deadline"`
		Limits    map[string]int64 `json:"limits"`
	}
	_ = json.Unmarshal(f.event.data, &asked)
	p := &f.data
	policy, known := policies[p.Policy]
	switch {
	case f.event.verb != "run.start" || f.event.principal != f.agent:
		r.violation("%v starts what event %d did not ask for", f, f.event.sequence)
	case !known:
		r.violation("it starts under the policy %s, which nobody has", p.Policy)
	case asked.SessionID != p.SessionID || !asked.Deadline.Equal(p.Deadline) || !maps.Equal(asked.Limits, p.Limits):
		r.violation("it starts with another session, deadline or limits than were asked for")
	case !f.at.Before(p.Deadline):
		r.violation("it starts after its deadline")
	case !p.ExpiresAt.Equal(p.Deadline.Add(policy.TTL)):
		r.violation("its records expire at %v, want %v after the deadline", p.ExpiresAt, policy.TTL)
	}
}

func (r *run) checkReleased(f *fact, policy Policy) {
	s, p := r.state, &f.data
	switch {
	case s.Released != "":
		r.violation("%v releases it a second time", f)
	case !p.GraceUntil.Equal(f.at.Add(policy.Grace)):
		r.violation("%v gives it until %v, want %v from %v", f, p.GraceUntil, policy.Grace, f.at)
	case p.Reason == "PROGRESS_PROTOCOL_VIOLATED" && s.Invalid > policy.MaxRepairs:
	case p.Reason == "PROGRESS_STALLED" && s.mostRepeated() > policy.MaxRepeats:
	default:
		r.violation("%v releases it as %s after %d wrong reports, and %d repetitions", f, p.Reason, s.Invalid, s.mostRepeated())
	}
}

// checkEnding holds that the outcome is fixed once, and for a reason that is
// there.
func (r *run) checkEnding(f *fact) {
	s, p := r.state, &f.data
	if s.Phase != phaseRunning {
		r.violation("%v fixes the outcome a second time", f)
	}
	if f.decision && !s.mayEndByEvent(f) || !f.decision && !s.mayEndByItself(f) {
		r.violation("%v ends it as %s (%s) by event %d (%s)", f, p.Outcome, p.Reason, f.event.sequence, f.event.verb)
	}
}

func (s *state) mayEndByEvent(f *fact) bool {
	switch f.data.Outcome {
	case "CANCELLED":
		return f.event.verb == "run.cancel"
	case "SUCCESS":
		return f.event.verb == "run.finish" && (s.Released != "PROGRESS_PROTOCOL_VIOLATED" || s.Final)
	}
	return f.data.Outcome == "FAILED" && f.event.verb == "run.finish"
}

func (s *state) mayEndByItself(f *fact) bool {
	at := f.at.UnixMilli()
	switch f.data.Outcome {
	case "TIMED_OUT":
		return at >= s.Deadline
	case "BUDGET_EXHAUSTED":
		return s.Exhausted != "" && f.data.Limit == s.Exhausted
	}
	return f.data.Outcome == "FAILED" && s.Released != "" && at >= s.GraceUntil
}

// checkProgress holds that what is observed are the READY calls, in order of
// reservation.
func (r *run) checkProgress(f *fact, policy Policy) {
	s, p := r.state, &f.data
	if s.Phase != phaseEnding || len(s.Open) > 0 || s.ProgressTold {
		r.violation("%v tells progress when the run is %s with %d open calls", f, s.Phase, len(s.Open))
	}
	var want []observation
	for _, n := range slices.Sorted(maps.Keys(s.calls)) {
		if c := s.calls[n]; c.Status == statusReady && f.at.UnixMilli() < s.ExpiresAt && len(want) < policy.Observed {
			want = append(want, observation{ToolCallID: c.ToolCallID, Call: c.Call, Evidence: c.Evidence})
		}
	}
	told := len(p.Observed)
	for _, n := range p.LeftOut {
		told += int(n)
	}
	if told != len(s.done) {
		r.violation("%v tells of %d calls, and %d have settled", f, told, len(s.done))
	}
	if !r.disturbed && !slices.Equal(p.Observed, want) {
		r.violation("%v observes %v, want %v", f, p.Observed, want)
	}
	for _, o := range p.Observed { // where the world removed records, some may be missing
		if !slices.Contains(want, o) {
			r.violation("%v observes %v, which is not so", f, o)
		}
	}
}

// checkTerminated holds the last fact against all before it.
func (r *run) checkTerminated(f *fact) {
	s, p := r.state, &f.data
	switch {
	case s.Phase != phaseEnding || !s.ProgressTold || len(s.Open) > 0:
		r.violation("%v ends it when it is %s with %d open calls, progress told: %t", f, s.Phase, len(s.Open), s.ProgressTold)
	case p.Outcome != s.Outcome || p.Reason != s.Reason || p.EndedAt.UnixMilli() != s.EndedAt:
		r.violation("%v ends it as %s (%s), and its ending said %s (%s)", f, p.Outcome, p.Reason, s.Outcome, s.Reason)
	case !maps.Equal(p.Calls, s.Calls):
		r.violation("%v counts %v settled calls, want %v", f, p.Calls, s.Calls)
	}
	var told map[string]any
	_ = json.Unmarshal(p.Usage, &told)
	want := map[string]int64{
		"model_calls": s.ModelCalls, "tool_calls": s.ToolCalls, "input_tokens": s.InputTokens, "output_tokens": s.OutputTokens,
		"total_tokens": s.TotalTokens, "unknown_usage": s.ModelCalls - s.KnownUsage, "run_bytes": s.RunBytes,
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got := fmt.Sprint(told[name]); got != fmt.Sprint(want[name]) {
			r.violation("%v tells that it used %s of %s, want %d", f, got, name, want[name])
		}
	}
}

// checkAccepted holds every claim of a report against the records.
func (r *run) checkAccepted(f *fact) {
	s, p := r.state, &f.data
	var report struct {
		Step   int `json:"step"`
		Claims []struct {
			Negative bool     `json:"negative"`
			Supports []string `json:"supports"`
		} `json:"claims"`
	}
	_ = json.Unmarshal(f.event.data, &report)
	if p.Step != s.Steps+1 || report.Step != p.Step || s.Final {
		r.violation("%v accepts step %d after step %d, final: %t", f, p.Step, s.Steps, s.Final)
	}
	for i, claim := range report.Claims {
		if len(claim.Supports) == 0 {
			r.violation("%v accepts claim %d, which nothing supports", f, i)
		}
		for _, id := range claim.Supports {
			c := s.records[id]
			if c == nil || c.Status != statusReady || c.Evidence == "NO_EVIDENCE" && !claim.Negative {
				r.violation("%v accepts claim %d, which %s does not support", f, i, id)
			}
		}
	}
}

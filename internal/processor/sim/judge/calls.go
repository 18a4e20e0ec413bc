package judge

import (
	"encoding/json"
	"time"
)

// check holds what a fact needs of the history before it.
func (r *run) check(f *fact, policy Policy) {
	switch f.kind {
	case "tool.reserved":
		r.checkReserved(f, policy)
	case "tool.settled":
		r.checkSettled(f)
	case "model.granted":
		r.checkGranted(f)
	case "model.recorded":
		r.checkRecorded(f)
	case "progress.accepted":
		r.checkAccepted(f)
	case "progress.invalid":
		if f.data.Code == "INVALID_PROGRESS_PROTOCOL" && len(f.data.Violations) == 0 {
			r.violation("%v names no violation", f)
		}
	case "run.released":
		r.checkReleased(f, policy)
	case "run.ending":
		r.checkEnding(f)
	case "run.progress":
		r.checkProgress(f, policy)
	case "run.terminated":
		r.checkTerminated(f)
	}
}

// checkReserved holds budgets, the one reservation for a key, and what the fact
// says of its request.
func (r *run) checkReserved(f *fact, policy Policy) {
	s, p := r.state, &f.data
	var asked struct {
		ToolCallID string          `json:"tool_call_id"`
		Tool       string          `json:"tool"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	_ = json.Unmarshal(f.event.data, &asked)
	timeout, callable := policy.Tools[p.Tool]
	deadline := min(f.at.Add(timeout).UnixMilli(), s.Deadline)
	switch {
	case f.event.verb != "tool.call" || !f.decision || asked.ToolCallID != p.ToolCallID || asked.Tool != p.Tool:
		r.violation("%v reserves what event %d did not ask for", f, f.event.sequence)
	case s.records[p.ToolCallID] != nil:
		r.violation("%v reserves %s a second time", f, p.ToolCallID)
	case !callable:
		r.violation("%v reserves a call of %s, which may not be called", f, p.Tool)
	case s.Phase != phaseRunning || s.Exhausted != "" || s.Released != "":
		r.violation("%v reserves when the run is %s, exhausted %q, released %q", f, s.Phase, s.Exhausted, s.Released)
	case s.ToolCalls+1 > s.Limits[1]:
		r.violation("%v passes the limit of %d tool calls", f, s.Limits[1])
	case s.CallsByTool[p.Tool]+1 > s.Limits[2]:
		r.violation("%v passes the limit of %d calls of %s", f, s.Limits[2], p.Tool)
	case s.RunBytes+int64(len(f.event.data)) > s.Limits[6]:
		r.violation("%v passes the limit of %d bytes", f, s.Limits[6])
	case p.RequestBytes != int64(len(f.event.data)) || p.RequestDigest != digestOfBytes(f.event.data) || p.ArgumentsDigest != digestOfBytes(asked.Arguments):
		r.violation("%v says of its request what is not so", f)
	case p.Deadline.UnixMilli() != deadline:
		r.violation("%v is to be answered by %v, want %v", f, p.Deadline, time.UnixMilli(deadline).UTC())
	}
}

// checkSettled holds the one settlement of a call, by its own executor or by
// what was due.
func (r *run) checkSettled(f *fact) {
	s, p := r.state, &f.data
	c := s.calls[p.Call]
	switch {
	case c == nil || c.ToolCallID != p.ToolCallID:
		r.violation("%v settles call %d of %s, which was not reserved", f, p.Call, p.ToolCallID)
		return
	case c.Status != statusProjecting:
		r.violation("%v settles call %d a second time", f, p.Call)
	case !settles(p.Status, p.Evidence):
		r.violation("%v settles call %d as %s with %s", f, p.Call, p.Status, p.Evidence)
	}
	counted := int64(len(p.Result))
	if p.RawStored {
		counted += p.RawBytes
	}
	if s.RunBytes+counted > s.Limits[6] {
		r.violation("%v passes the limit of %d bytes", f, s.Limits[6])
	}
	if f.decision {
		r.checkResult(f, c)
	} else {
		r.checkUnanswered(f, c)
	}
}

// settles reports whether a call may end so.
func settles(status, evidence string) bool {
	if status == statusReady {
		return evidence == "EVIDENCE_FOUND" || evidence == "NO_EVIDENCE"
	}
	return status == statusError && evidence == "ERROR"
}

// checkUnanswered holds that a call ends by itself only when it must.
func (r *run) checkUnanswered(f *fact, c *call) {
	p := &f.data
	switch {
	case p.Status != statusError || p.RawStored:
		r.violation("%v is due, and brings a result", f)
	case p.Code == "TOOL_TIMEOUT" && f.at.UnixMilli() < c.Deadline:
		r.violation("%v times call %d out before its deadline", f, p.Call)
	case p.Code == "RUN_TERMINATED" && r.state.Phase != phaseEnding:
		r.violation("%v ends call %d while the run goes on", f, p.Call)
	case p.Code != "TOOL_TIMEOUT" && p.Code != "RUN_TERMINATED":
		r.violation("%v settles call %d by itself as %s", f, p.Call, p.Code)
	}
}

// checkResult holds that only the executor that was given the call settles it,
// and that the fact says what it sent.
func (r *run) checkResult(f *fact, c *call) {
	p := &f.data
	var told result
	_ = json.Unmarshal(f.event.data, &told)
	switch {
	case f.event.verb != "tool.result" || f.event.principal != c.Executor:
		r.violation("%v settles call %d by %s of %s", f, c.Call, f.event.verb, f.event.principal)
	case told.ToolCallID != c.ToolCallID || told.DispatchID != dispatchID(r.id, c.Call):
		r.violation("%v settles call %d by an answer to %s", f, c.Call, told.DispatchID)
	case p.Status == statusReady && told.Outcome != "SUCCEEDED":
		r.violation("%v settles call %d as READY, and it %s", f, c.Call, told.Outcome)
	case p.RawBytes != int64(len(told.Result)) || p.RawStored && p.RawDigest != digestOfBytes(told.Result):
		r.violation("%v says of the raw response of call %d what is not so", f, c.Call)
	}
}

// rawOf gives the bytes of the raw response that an event brought.
func rawOf(e *event) []byte {
	var told result
	if json.Unmarshal(e.data, &told) != nil {
		return nil
	}
	return told.Result
}

// late takes tool.late: a result of a call that had settled, told once.
func (r *run) late(f *fact) {
	if r.state == nil || r.state.calls[f.data.Call] == nil {
		r.violation("%s tells of call %d, which was not reserved", f.kind, f.data.Call)
		return
	}
	c := r.state.calls[f.data.Call]
	switch {
	case c.Status == statusProjecting:
		r.violation("a result of the open call %d was told as late", c.Call)
	case c.late:
		r.violation("a late result of call %d was told twice", c.Call)
	case c.ResultCause.ID == f.cause.ID && c.ResultCause.Source == f.cause.Source:
		r.violation("the result that settled call %d was told as late", c.Call)
	case f.agent != r.state.Agent:
		r.violation("a late result of call %d was told to %s", c.Call, f.agent)
	}
	c.late = true
}

package audit

// observation is one call that a run.progress names.
type observation struct {
	ToolCallID string `json:"tool_call_id"`
	Call       uint64 `json:"call"`
	Evidence   string `json:"evidence"`
}

// checkPlace holds that a fact may stand where it does: nothing new begins once
// a run is released, and nothing but its end follows its ending.
func (c *counter) checkPlace(r *run, f *fact) {
	begins := f.kind == "tool.reserved" || f.kind == "model.granted"
	if begins && r.released > 0 {
		c.violation("%s comes after run.released, fact %d", f, r.released)
	}
	ends := f.kind == "tool.settled" || f.kind == "run.progress" || f.kind == "run.terminated"
	if !ends && r.ending > 0 && r.terminated == 0 {
		c.violation("%s comes after run.ending, fact %d", f, r.ending)
	}
}

func (c *counter) release(r *run, f *fact) {
	if r.released > 0 {
		c.violation("%s: the run was released before, by fact %d", f, r.released)
		return
	}
	r.released = f.sequence
}

// accept counts the steps of a run, which come one by one up to the final one.
func (c *counter) accept(r *run, f *fact) {
	if r.final || f.body.Step != r.step+1 {
		c.violation("%s accepts step %d after step %d (final: %t)", f, f.body.Step, r.step, r.final)
	}
	r.step, r.final = f.body.Step, f.body.Final
}

func (c *counter) end(r *run, f *fact) {
	if r.ending == 0 {
		r.ending, r.outcome = f.sequence, f.body.Outcome
	}
}

// progress holds that what a run says it observed is what its calls came to.
func (c *counter) progress(r *run, f *fact) {
	r.progress++
	switch {
	case r.progress > 1:
		c.violation("%s: the run's progress was told before", f)
	case r.ending == 0:
		c.violation("%s comes before run.ending", f)
	}
	var settled, told int64
	for _, reserved := range r.calls {
		if reserved.settled > 0 {
			settled++
		}
	}
	last := uint64(0)
	for _, o := range f.body.Observed {
		reserved := r.calls[o.Call]
		switch {
		case reserved == nil || reserved.status != "READY" || reserved.toolCallID != o.ToolCallID || reserved.evidence != o.Evidence:
			c.violation("%s observes call %d, %.80q, with %.40s, which is not what it came to", f, o.Call, o.ToolCallID, o.Evidence)
		case o.Call <= last:
			c.violation("%s observes call %d after call %d", f, o.Call, last)
		}
		last = o.Call
		told++
	}
	for _, n := range f.body.LeftOut {
		told += n
	}
	if told != settled {
		c.violation("%s tells of %d calls, and %d were settled", f, told, settled)
	}
	if f.body.Steps != r.step || f.body.Final != r.final {
		c.violation("%s tells of %d steps (final: %t), and %d were accepted (final: %t)", f, f.body.Steps, f.body.Final, r.step, r.final)
	}
}

// terminate holds that a run ends once, as its ending said, after its progress,
// and with every call settled.
func (c *counter) terminate(r *run, f *fact) {
	c.report.Terminated[f.body.Outcome]++
	if r.terminated++; r.terminated > 1 {
		c.violation("%s: the run was terminated before", f)
		return
	}
	switch {
	case r.ending == 0:
		c.violation("%s comes without run.ending", f)
	case f.body.Outcome != r.outcome:
		c.violation("%s: outcome %.40q, and run.ending said %.40q", f, f.body.Outcome, r.outcome)
	}
	if r.progress == 0 {
		c.violation("%s comes without run.progress", f)
	}
	c.checkAllSettled(r, f)
	c.checkUsage(r, f)
}

// checkAllSettled holds that a run ends with every call settled.
func (c *counter) checkAllSettled(r *run, f *fact) {
	open := 0
	for _, reserved := range r.calls {
		if reserved.settled == 0 {
			open++
		}
	}
	if open > 0 {
		c.violation("%s: %d calls were never settled", f, open)
	}
}

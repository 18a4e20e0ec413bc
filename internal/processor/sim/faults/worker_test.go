package faults

// workerFaults are faults in how the worker commits, projects and hands out.
func workerFaults() []fault {
	const (
		chain   = "internal/processor/chain.go"
		batch   = "internal/processor/batch.go"
		hot     = "internal/processor/hot.go"
		project = "internal/processor/project.go"
		handout = "internal/processor/handout.go"
		worker  = "internal/processor/worker.go"
	)
	return []fault{
		{
			name: "a timer is judged by a slow clock", wrong: "a schedule that has fired is taken for one that stands, and the run never ends",
			file: handout, seeds: 200,
			old:  "		now = c.now //",
			new:  "		now = b.w.cfg.Clock() //",
			also: []edit{{old: `now := harness.Now(b.w.cfg.Clock(), run, nil)`, new: `now := b.w.cfg.Clock()`}},
		},
		{
			name: "completed calls are not counted", wrong: "a run tells its own calls as missing, since the store fell back in between",
			file: "internal/processor/load.go", seeds: 6000,
			old: `case err == nil && len(completed) == c.run.state.Run.Settled():`,
			new: `case err == nil && len(completed) >= 0:`,
		},
		{
			name: "a used id is taken for a new one", wrong: "a worker that has held a run from its start reserves an id again",
			file: "internal/processor/usedids.go", seeds: 100,
			old: "	_, used := u[maphash.String(idSeed, toolCallID)]\n	return !used",
			new: "	_, used := u[maphash.String(idSeed, toolCallID+\" \")]\n	return !used",
		},
		{
			name: "facts without expected sequence", wrong: "two owners both extend the history of a run",
			file: chain, seeds: 500,
			old: `p.expect = stream.ExpectLast(subjects.History(f.Agent, f.Run), c.run.state.Run.Stream)`,
			new: `p.expect = stream.ExpectNone()`,
		},
		{
			name: "run.started not fenced", wrong: "a run starts, and its start was refused by another owner, or it starts twice",
			file: chain, seeds: 1000,
			old: `p.expect, p.prelude = stream.ExpectLast(subjects.AllOf(f.Run), c.run.before.stream), true`,
			new: `p.expect, p.prelude = stream.ExpectNone(), true`,
		},
		{
			name: "outside facts not created once", wrong: "an agent is answered twice",
			file: chain, seeds: 500,
			old: "	case f.Sequence == 0:\n		p.expect = stream.ExpectNew()",
			new: "	case f.Sequence == 0:\n		p.expect = stream.ExpectNone()",
		},
		{
			name: "dispatch not created once", wrong: "a call is dispatched again by the next owner",
			file: handout, seeds: 500,
			old: `expect: stream.ExpectNew(), dispatched: call.Tool,`,
			new: `expect: stream.ExpectNone(), dispatched: call.Tool,`,
		},
		{
			name: "dead letter not created once", wrong: "an operator gets an event twice",
			file: batch, seeds: 500,
			old: `expect: stream.ExpectNew(), reason: reason,`,
			new: `expect: stream.ExpectNone(), reason: reason,`,
		},
		{
			name: "dispatch before the record stands", wrong: "an executor may answer a call that the store does not know",
			file: batch, seeds: 200,
			old: "	if err := b.project(ctx, b.runs()); err != nil {\n		return err\n	}\n	if err := b.dispatchAll(ctx); err != nil {",
			new: "	if err := b.dispatchAll(ctx); err != nil {\n		return err\n	}\n	if err := b.project(ctx, b.runs()); err != nil {",
		},
		{
			name: "position moved before dispatch", wrong: "a call whose dispatch failed is never dispatched",
			file: batch, seeds: 500,
			old: "	if err := b.dispatchAll(ctx); err != nil {\n		return err\n	}",
			new: "	_ = b.dispatchAll(ctx)",
		},
		{
			name: "position moved before projection", wrong: "the store stays behind while nobody reads the events again",
			file: batch, seeds: 500,
			old: "	if err := b.project(ctx, b.runs()); err != nil {\n		return err\n	}",
			new: "	_ = b.project(ctx, b.runs())",
		},
		{
			name: "the store is told of a timer before it is set", wrong: "a timer that was never set is taken for one that stands",
			file: batch, seeds: 500,
			old: "	if err := b.setTimers(ctx); err != nil {\n		return err\n	}\n	if err := b.project(ctx, b.runs()); err != nil {",
			new: "	for _, c := range b.chains {\n		b.setTimer(c)\n	}\n	if err := b.project(ctx, b.runs()); err != nil {\n		return err\n	}\n	if err := b.setTimers(ctx); err != nil {",
		},
		{
			name: "a projection that goes backwards", wrong: "a run is written anew with nothing but what changed last",
			file: hot, seeds: 200,
			old: `From: h.projected, Records: changes`,
			new: `From: 0, Records: changes`,
		},
		{
			name: "a rebuilt run is projected from nowhere", wrong: "what the store lost is taken for what it lacks from the beginning",
			file: project, seeds: 1000,
			old: "		h.projected = runs[0].Sequence\n",
			new: "		h.projected = 0\n",
		},
		{
			name: "a store that is behind is ignored", wrong: "lost writes are taken for a projection that was made",
			file: project, seeds: 500,
			old: "	case err == nil:\n		h.projected,",
			new: "	case err == nil, errors.Is(err, store.ErrBehind):\n		h.projected,",
		},
		{
			name: "the request is not kept", wrong: "the canonical record lacks its complete request",
			file: hot, seeds: 100,
			old: `		record.Request = b.request`,
			new: `		record.Request = b.request[:0]`,
		},
		{
			name: "dispatch past the deadline", wrong: "an executor is given a call that has timed out",
			file: handout, seeds: 500,
			old: `if !b.w.cfg.Clock().Before(call.Deadline) {`,
			new: `if call.Deadline.IsZero() {`,
		},
		{
			name: "a tick that does not set the next", wrong: "a run has one timer in its life",
			file: handout, seeds: 200,
			old: "	due, ok := run.NextDue()\n	if !ok {",
			new: "	due, ok := run.NextDue()\n	if !ok || !run.TimerAt.IsZero() {",
		},
		{
			name: "a timer stands whatever is due", wrong: "a call times out with its run and not in its own time",
			file: handout, seeds: 500,
			old: ` && !due.Before(run.TimerAt)`,
			new: ``,
		},
		{
			name: "an event that is none is swallowed", wrong: "an event is neither decided nor kept",
			file: batch, seeds: 100,
			old: `			undecodable = append(undecodable, b.undecodable(m, err))`,
			new: `			_ = b.undecodable(m, err)`,
		},
		{
			name: "a run is kept after a failed batch", wrong: "what the batch left of it is taken for what the stream has",
			file: worker, seeds: 1000,
			old: "			w.hot.drop(c.run.id)\n",
			new: "			_ = c\n",
		},
		{
			name: "a failed batch is forgotten", wrong: "what it did not project and dispatch is never made good",
			file: worker, seeds: 200,
			old: "			w.hot.drop(c.run.id)\n",
			new: "			c.run.rest()\n",
		},
	}
}

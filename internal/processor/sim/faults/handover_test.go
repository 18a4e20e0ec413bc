package faults

// handoverFaults are faults in how a worker loads runs, and goes on where
// another one or an earlier try stopped; and one of an executor.
func handoverFaults() []fault {
	const (
		chain = "internal/processor/chain.go"
		load  = "internal/processor/load.go"
	)
	return []fault{
		{
			name: "Decide without Due before it", wrong: "an event is decided although something was due before it",
			file: chain, seeds: 500,
			old: `if fact := c.run.rules.Due(&c.run.state, in, c.now); fact != nil {`,
			new: `if fact := c.run.rules.Due(&c.run.state, in, c.now); fact != nil && c.decided {`,
		},
		{
			name: "applied events are not skipped", wrong: "an event that was decided is decided again",
			file: chain, seeds: 500,
			old: `if in.Sequence <= c.run.applied() {`,
			new: `if in.Sequence == 0 {`,
		},
		{
			name: "a new owner makes nothing good", wrong: "calls that the dead owner reserved are never dispatched",
			file: chain, seeds: 1000,
			old: `c.decided, c.run.makeGood = true, true`,
			new: `c.decided = true`,
		},
		{
			name: "an overtaken owner keeps its state", wrong: "it is refused for ever",
			file: chain, seeds: 1000,
			old: `*c.run = hotRun{id: c.run.id, makeGood: true}`,
			new: `c.run.makeGood = true`,
		},
		{
			name: "no catching up", wrong: "facts ahead of the store are not seen, so the run is refused for ever",
			file: load, seeds: 1000,
			old: `if last != nil && last.Sequence >= from {`,
			new: `if last != nil && h.state.Run == nil {`,
		},
		{
			name: "a lost record is a free id", wrong: "a call id is reserved twice, or a result finds no call",
			file: load, seeds: 2000,
			old: "		case errors.Is(l.Err, store.ErrBehind):\n			b.rewrite(c)",
			new: "		case errors.Is(l.Err, store.ErrBehind):\n			c.run.remember(refs[i], store.Loaded{})",
		},
		{
			name: "records are loaded from a store that stands elsewhere", wrong: "what is not there is taken for what never was",
			file: load, seeds: 2000,
			old: `case l.RunSequence != c.run.projected:`,
			new: `case l.RunSequence > c.run.state.Run.Sequence:`,
		},
		{
			name: "progress from a store that is behind", wrong: "run.progress leaves out calls that have settled",
			file: load, seeds: 500,
			old: `if err := b.project(ctx, runs); err != nil {`,
			new: `if err := b.project(ctx, nil); err != nil {`,
		},
		{
			name: "what was said before a run is forgotten", wrong: "its start is refused for ever, or its refusals are told twice",
			file: load, seeds: 1000,
			old: `	h.before = prelude{stream: said.Sequence, inbound: f.Cause.Sequence}`,
			new: `	h.before = prelude{inbound: f.Cause.Sequence}`,
		},
		{
			name: "runs change their policy", wrong: "a run goes on under the policy of whoever loads it",
			file: load, seeds: 500,
			old: `if h.rules, err = b.w.cfg.Rulebook.Of(ctx, run.Policy); err != nil {`,
			new: `if h.rules = b.w.cfg.Rulebook.Current(); h.rules == nil {`,
		},
		{
			name: "an executor without claim", wrong: "two executors run one dispatch",
			file: "internal/processor/sim/executors.go", seeds: 200,
			old: `if !e.claim(id, executor) {`,
			new: `if !e.claim(id, executor) && e.claims[id] == 0 {`,
		},
	}
}

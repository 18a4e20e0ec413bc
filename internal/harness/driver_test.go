package harness_test

import (
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// driver carries events through the rules as the processor does, with the
// stream of facts and the store of records in memory. Every fact is encoded and
// decoded before it is applied. A forgetful driver drops all state after each
// fact and begins the event anew from what is stored, as after a crash.
type driver struct {
	tb        rapid.TB
	rules     *harness.Rules
	subjects  events.Subjects
	forgetful bool
	now       time.Time

	inbound uint64 // last sequence in IN
	stream  uint64 // last sequence in RUNS
	runs    map[string]*harness.Run
	records map[string]map[string]harness.Record // by run and call, as a store has them
	models  map[string]map[string]harness.ModelOperation
	history map[string][]published
	outside map[string]uint64 // subjects taken outside every history, and by which event
}

// published is a fact as the stream holds it.
type published struct {
	subject string
	encoded events.Encoded
	stream  uint64
}

// step is one answer: a fact, a dead letter, or nothing new.
type step struct {
	fact   *events.Fact
	reason harness.Reason
	detail string
}

func newDriver(tb rapid.TB, rules *harness.Rules) *driver {
	tb.Helper()
	subjects, err := events.NewSubjects(events.DefaultPrefix)
	if err != nil {
		tb.Fatal(err)
	}
	return &driver{
		tb: tb, rules: rules, subjects: subjects, now: noon,
		runs: map[string]*harness.Run{}, records: map[string]map[string]harness.Record{},
		models: map[string]map[string]harness.ModelOperation{}, history: map[string][]published{}, outside: map[string]uint64{},
	}
}

// message is a new event at the driver's time.
func (d *driver) message(role events.Role, principal, run string, verb events.Verb, data string) events.Message {
	d.inbound++
	subject := "harness.v1.part.0.in." + string(role) + "." + principal + "." + run + "." + string(verb)
	if verb == events.VerbTick {
		subject = "harness.v1.part.0.tick." + run
	}
	return events.Message{
		Subject: subject, Data: []byte(data), Sequence: d.inbound, Time: d.now,
		Header: map[string][]string{
			"ce-specversion": {"1.0"}, "ce-id": {"e" + strconv.FormatUint(d.inbound, 10)},
			"ce-source": {"/" + string(role) + "s/" + principal}, "ce-type": {verb.Type()},
		},
	}
}

// again is the same event, published once more.
func (d *driver) again(m events.Message) events.Message {
	d.inbound++
	m.Sequence, m.Time = d.inbound, d.now
	return m
}

// deliver takes one message through: what is due, the decision, what is due.
func (d *driver) deliver(m events.Message) (steps []step) {
	d.tb.Helper()
	in, err := events.Decode(d.subjects, m)
	if err != nil {
		return []step{{reason: harness.ReasonUndecodable, detail: err.Error()}}
	}
	decided := false
	for {
		now := harness.Now(d.now, d.runs[in.Run], in)
		if fact := d.rules.Due(d.load(in.Run, nil), in, now); fact != nil {
			steps = append(steps, d.publish(in, fact))
			continue
		}
		run := d.runs[in.Run]
		if decided || (run != nil && in.Sequence <= run.Inbound) {
			return steps
		}
		decided = !d.forgetful
		decision := d.rules.Decide(d.load(in.Run, in), in, now)
		if in.Verb == events.VerbTick && decision == (harness.Decision{}) {
			return steps
		}
		if decision.Fact == nil {
			return append(steps, step{reason: decision.DeadLetter, detail: decision.Detail})
		}
		s := d.publish(in, decision.Fact)
		s.detail = decision.Detail
		steps = append(steps, s)
		if decision.Fact.Sequence == 0 {
			decided = true
		}
	}
}

// load gives the state that Needs asks for, and no more.
func (d *driver) load(runID string, in *events.Inbound) *harness.State {
	run := d.runs[runID]
	need := harness.Needs(run, in)
	s := &harness.State{Run: run}
	for _, id := range need.ToolCallIDs {
		if r, ok := d.records[runID][id]; ok {
			if s.Records == nil {
				s.Records = map[string]*harness.Record{}
			}
			s.Records[id] = &r
		}
	}
	if op, ok := d.models[runID][need.OperationID]; ok {
		s.Operations = map[string]*harness.ModelOperation{op.ID: &op}
	}
	if need.Completed {
		for _, r := range d.records[runID] {
			s.Completed = append(s.Completed, r)
		}
		slices.SortFunc(s.Completed, func(a, b harness.Record) int { return int(a.Call) - int(b.Call) })
	}
	return s
}

// publish stores a fact, and applies it as it is read back.
func (d *driver) publish(in *events.Inbound, f *events.Fact) step {
	d.tb.Helper()
	encoded, err := f.Encode()
	if err != nil {
		d.tb.Fatalf("encode %s of event %d: %v", f.Kind(), in.Sequence, err)
	}
	subject := f.Subject(d.subjects)
	if f.Sequence == 0 {
		if by, taken := d.outside[subject]; taken && by != in.Sequence {
			return step{reason: harness.ReasonLateAgain} // the subject is create-only
		}
		d.outside[subject] = in.Sequence
	}
	d.stream++
	stored := published{subject: subject, encoded: encoded, stream: d.stream}
	if f.Sequence > 0 {
		d.history[f.Run] = append(d.history[f.Run], stored)
	}
	state := &harness.State{Run: d.runs[f.Run]}
	fact, touched := d.apply(state, stored)
	d.runs[f.Run] = state.Run
	d.keep(touched)
	for _, op := range state.Operations {
		d.keepModel(f.Run, *op)
	}
	if d.forgetful && f.Sequence > 0 {
		d.runs[f.Run], d.records[f.Run], d.models[f.Run] = d.replay(f.Run)
	}
	return step{fact: fact}
}

func (d *driver) apply(state *harness.State, p published) (*events.Fact, *harness.Record) {
	d.tb.Helper()
	fact, digest, err := events.DecodeFact(d.subjects, p.subject, p.encoded.Header, p.encoded.Data)
	if err != nil {
		d.tb.Fatal(err)
	}
	if digest != p.encoded.Digest {
		d.tb.Fatalf("%s: digest %s, encoded with %s", p.subject, digest, p.encoded.Digest)
	}
	touched, err := state.Apply(fact, harness.Stored{Sequence: p.stream, Digest: digest})
	if err != nil {
		d.tb.Fatalf("%v\nfact: %+v\ndata: %s", err, fact, p.encoded.Data)
	}
	return fact, touched
}

func (d *driver) keep(r *harness.Record) {
	if r == nil {
		return
	}
	if d.records[r.RunID] == nil {
		d.records[r.RunID] = map[string]harness.Record{}
	}
	d.records[r.RunID][r.ToolCallID] = *r
}

// keepModel keeps what is remembered of a model operation, as a store does: a
// cause that whoever applied the fact did not know stays as it was.
func (d *driver) keepModel(runID string, op harness.ModelOperation) {
	before := d.models[runID][op.ID]
	if op.Granted == (events.Cause{}) {
		op.Granted = before.Granted
	}
	if op.Reported == (events.Cause{}) {
		op.Reported = before.Reported
	}
	if d.models[runID] == nil {
		d.models[runID] = map[string]harness.ModelOperation{}
	}
	d.models[runID][op.ID] = op
}

// replay rebuilds a run, its records and its model operations from the stored
// facts alone.
func (d *driver) replay(runID string) (*harness.Run, map[string]harness.Record, map[string]harness.ModelOperation) {
	d.tb.Helper()
	state := &harness.State{}
	for _, p := range d.history[runID] {
		d.apply(state, p)
	}
	records := map[string]harness.Record{}
	for id, r := range state.Records {
		records[id] = *r
	}
	models := map[string]harness.ModelOperation{}
	for id, op := range state.Operations {
		models[id] = *op
	}
	return state.Run, records, models
}

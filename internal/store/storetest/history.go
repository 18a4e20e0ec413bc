package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
)

// history is a run as the core makes it, fact by fact, with what every fact
// left behind, so that any stretch of it can be projected.
type history struct {
	t       testing.TB
	state   harness.State
	runs    []*harness.Run // after fact 1, 2, …
	records []*versions    // in order of reservation

	operations []operationAt // in order of facts
	facts      []*events.Fact
}

// versions are the states of one record, with all bytes.
type versions struct {
	reserved  *harness.Record
	settled   *harness.Record // nil while the call is open
	settledBy uint64          // the fact
}

// operationAt is a model operation as one fact left it.
type operationAt struct {
	fact      uint64
	operation harness.ModelOperation
}

// now is an instant as facts have it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// start begins a run that lives for an hour.
func start(t testing.TB, runID string) *history {
	t.Helper()
	return startUntil(t, runID, now().Add(time.Hour))
}

func startUntil(t testing.TB, runID string, expires time.Time) *history {
	t.Helper()
	h := &history{t: t}
	h.apply(&events.RunStarted{
		RunID: runID, SessionID: "session " + runID, Agent: "agent", Policy: "sha256:policy",
		Deadline: now().Add(time.Minute), ExpiresAt: expires,
		Limits: events.Limits{
			ModelCalls: 1e6, ToolCalls: 1e6, CallsPerTool: 1e6, InputTokens: 1e6, OutputTokens: 1e6, TotalTokens: 1e6, RunBytes: 1e12,
		},
	})
	return h
}

func (h *history) run() *harness.Run { return h.state.Run }

// at is the run after that fact.
func (h *history) at(fact uint64) *harness.Run { return copyRun(h.runs[fact-1]) }

func (h *history) apply(payload events.Payload) *harness.Record {
	h.t.Helper()
	f := &events.Fact{Agent: "agent", Sequence: 1, Time: now(), Rules: events.RulesVersion, Payload: payload}
	switch run := h.state.Run; {
	case run != nil:
		f.Run, f.Sequence, f.PreviousDigest = run.ID, run.Sequence+1, run.Digest
	default:
		f.Run = payload.(*events.RunStarted).RunID
	}
	f.Cause = events.Cause{
		Source: "/agents/agent", ID: fmt.Sprintf("event-%d", f.Sequence), Sequence: 100 + f.Sequence, Decision: true,
		Trace: events.Trace{Parent: "00-trace-span-01", State: "vendor=1"},
	}
	record, err := h.state.Apply(f, stored(f))
	if err != nil {
		h.t.Fatalf("history of the test: %v", err)
	}
	h.runs, h.facts = append(h.runs, copyRun(h.state.Run)), append(h.facts, f)
	return record
}

// stored is where the stream put a fact.
func stored(f *events.Fact) harness.Stored {
	return harness.Stored{Sequence: 1000 + f.Sequence, Digest: fmt.Sprintf("sha256:%s-%d", f.Run, f.Sequence)}
}

// reserve reserves a call with a small request.
func (h *history) reserve(id string) {
	h.t.Helper()
	h.reserveBytes(id, []byte(`{"request":"of `+id+`"}`))
}

func (h *history) reserveBytes(id string, request []byte) {
	h.t.Helper()
	record := *h.apply(&events.ToolReserved{
		ToolCallID: id, Tool: "tool", Executor: "executor", Deadline: now().Add(time.Second),
		RequestBytes: int64(len(request)), RequestDigest: "sha256:request", ArgumentsDigest: "sha256:arguments",
	})
	record.Request = request
	h.records = append(h.records, &versions{reserved: &record})
}

// settle settles a call as READY with a small response.
func (h *history) settle(id string) { h.t.Helper(); h.settleBytes(id, []byte(`"raw of `+id+`"`)) }

func (h *history) settleBytes(id string, raw []byte) {
	h.t.Helper()
	h.settleAs(id, raw, &events.ToolSettled{
		Status: events.StatusReady, Evidence: events.EvidenceFound, Result: []byte(`"result"`),
		RawBytes: int64(len(raw)), RawDigest: "sha256:raw of " + id, RawStored: true,
	})
}

// fail settles a call as ERROR, without a response.
func (h *history) fail(id string) {
	h.t.Helper()
	h.settleAs(id, nil, &events.ToolSettled{Status: events.StatusError, Evidence: events.EvidenceError, Code: events.CodeToolTimeout})
}

func (h *history) settleAs(id string, raw []byte, p *events.ToolSettled) {
	h.t.Helper()
	v := h.find(id)
	p.ToolCallID, p.Call = id, v.reserved.Call
	record := *h.apply(p)
	record.Request, record.RawResponse = v.reserved.Request, raw
	v.settled, v.settledBy = &record, h.state.Run.Sequence
}

// refuse adds a fact that touches no record.
func (h *history) refuse() {
	h.t.Helper()
	h.apply(&events.ToolRejected{RunID: h.run().ID, Code: events.CodeUnauthorized})
}

// grant grants an attempt of a model operation, and record ends it, with usage.
func (h *history) grant(id string, attempt int) {
	h.t.Helper()
	h.apply(&events.ModelGranted{Operation: events.OperationIntentRouter, OperationID: id, Attempt: attempt})
	h.keepOperation(id)
}

func (h *history) record(id string, attempt int, failure events.FailureClass) {
	h.t.Helper()
	p := &events.ModelRecorded{
		Operation: events.OperationIntentRouter, OperationID: id, Attempt: attempt, Outcome: events.AttemptSucceeded,
		Usage: &events.TokenUsage{InputTokens: 2, OutputTokens: 1},
	}
	if failure != "" {
		p.Outcome, p.Failure, p.Usage = events.AttemptFailed, failure, nil
	}
	h.apply(p)
	h.keepOperation(id)
}

func (h *history) keepOperation(id string) {
	h.operations = append(h.operations, operationAt{fact: h.run().Sequence, operation: *h.state.Operations[id]})
}

// operationsIn are the operations that facts after from touched, as they stood
// after fact to.
func (h *history) operationsIn(from, to uint64) []*harness.ModelOperation {
	var touched []*harness.ModelOperation
	for _, o := range h.operations {
		if o.fact <= from || o.fact > to {
			continue
		}
		at := slices.IndexFunc(touched, func(op *harness.ModelOperation) bool { return op.ID == o.operation.ID })
		if at < 0 {
			at, touched = len(touched), append(touched, nil)
		}
		touched[at] = &o.operation
	}
	return touched
}

func (h *history) find(id string) *versions {
	h.t.Helper()
	for _, v := range h.records {
		if v.reserved.ToolCallID == id {
			return v
		}
	}
	h.t.Fatalf("history of the test has no call %.40q", id)
	return nil
}

// full is the record of a call as it stands now, with all bytes.
func (h *history) full(id string) *harness.Record {
	h.t.Helper()
	v := h.find(id)
	if v.settled != nil {
		return v.settled
	}
	return v.reserved
}

// light is that record without bytes.
func (h *history) light(id string) *harness.Record { h.t.Helper(); return light(h.full(id)) }

func light(r *harness.Record) *harness.Record {
	c := *r
	c.Request, c.RawResponse, c.AgentResult = nil, nil, nil
	return &c
}

// all projects everything from that fact on.
func (h *history) all(from uint64) store.Projection { return h.stretch(from, h.run().Sequence) }

// stretch projects what happened after fact from, up to fact to.
func (h *history) stretch(from, to uint64) store.Projection {
	p := store.Projection{Run: h.at(to), From: from, Operations: h.operationsIn(from, to)}
	for _, v := range h.records {
		call := v.reserved.Call
		reserved := from < call && call <= to
		settled := v.settled != nil && from < v.settledBy && v.settledBy <= to
		if !reserved && !settled {
			continue
		}
		record := *v.reserved
		if settled {
			record = *v.settled
		}
		p.Records = append(p.Records, store.RecordChange{Record: &record, Reserved: reserved, Settled: settled})
	}
	return p
}

func copyRun(run *harness.Run) *harness.Run {
	c := *run
	c.Usage.CallsByTool = maps.Clone(run.Usage.CallsByTool)
	c.Calls = maps.Clone(run.Calls)
	c.Recent = slices.Clone(run.Recent)
	c.Open = slices.Clone(run.Open)
	if len(c.Open) == 0 {
		c.Open = nil // as if none had ever been open
	}
	return &c
}

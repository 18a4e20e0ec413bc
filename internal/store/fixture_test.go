package store_test

import (
	"fmt"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
)

// The runs of these tests: fact 1 starts one, fact 2 reserves call a, fact 3
// settles it.

func base() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func runAt(id string, fact uint64, started time.Time) *harness.Run {
	run := &harness.Run{
		ID: id, SessionID: "session", Agent: "agent", Policy: "sha256:policy",
		StartedAt: started, Deadline: started.Add(time.Minute), ExpiresAt: started.Add(time.Hour),
		StartCause: events.Cause{Source: "/agents/agent", ID: "start", Sequence: 1, Decision: true},
		Sequence:   fact, Stream: 10 + fact, Digest: fmt.Sprintf("sha256:%d", fact), At: started, Inbound: fact,
		Phase: harness.PhaseRunning, Calls: map[events.Status]int64{},
	}
	if fact > 1 {
		run.Usage = events.Usage{ToolCalls: 1, CallsByTool: map[string]int64{"tool": 1}, RunBytes: 7}
	}
	switch {
	case fact == 2:
		run.Open = []*harness.Record{call(id, "a", 2, started)}
	case fact > 2:
		run.Calls[events.StatusReady] = 1
	}
	return run
}

func call(runID, id string, fact uint64, at time.Time) *harness.Record {
	return &harness.Record{
		RunID: runID, ToolCallID: id, Tool: "tool", Executor: "executor", Call: fact, Status: events.StatusProjecting,
		ReservedAt: at, Deadline: at.Add(time.Second), ExpiresAt: at.Add(time.Hour),
		Cause:        events.Cause{Source: "/agents/agent", ID: "intent", Sequence: fact, Decision: true},
		RequestBytes: 7, RequestDigest: "sha256:request", ArgumentsDigest: "sha256:arguments",
	}
}

func reserved(run *harness.Run, id string) store.RecordChange {
	record := call(run.ID, id, 2, run.StartedAt)
	record.Request = []byte("request")
	return store.RecordChange{Record: record, Reserved: true}
}

func settled(run *harness.Run, id string, also bool) store.RecordChange {
	c := reserved(run, id)
	c.Reserved, c.Settled = also, true
	c.Record.Status, c.Record.Evidence, c.Record.SettledAt = events.StatusReady, events.EvidenceFound, run.StartedAt
	c.Record.ResultCause = events.Cause{Source: "/executors/executor", ID: "result", Sequence: 3, Decision: true}
	c.Record.RawBytes, c.Record.RawDigest, c.Record.RawStored = 3, "sha256:raw", true
	c.Record.RawResponse, c.Record.AgentResult = []byte("raw"), []byte("result")
	return c
}

// step projects the run from the fact before.
func step(id string, fact uint64, started time.Time) store.Projection {
	p := store.Projection{Run: runAt(id, fact, started), From: fact - 1}
	switch fact {
	case 2:
		p.Records = []store.RecordChange{reserved(p.Run, "a")}
	case 3:
		p.Records = []store.RecordChange{settled(p.Run, "a", false)}
	}
	return p
}

// whole projects the run from its first fact up to fact.
func whole(id string, fact uint64, started time.Time) store.Projection {
	p := step(id, fact, started)
	p.From = 0
	if fact == 3 {
		p.Records[0].Reserved = true
	}
	return p
}

// granted is a model operation whose first attempt is open, and reported the
// same once that has succeeded.
func granted() *harness.ModelOperation {
	return &harness.ModelOperation{
		ID: "op/1", Operation: events.OperationIntentRouter, Attempts: 1, Open: true,
		Granted: events.Cause{Source: "/agents/agent", ID: "call", Sequence: 4, Decision: true},
	}
}

func reported() *harness.ModelOperation {
	op := granted()
	op.Open, op.Succeeded = false, true
	op.Reported = events.Cause{Source: "/agents/agent", ID: "report", Sequence: 5, Decision: true}
	return op
}

// withOperation adds operations, of one attempt each, to a projection.
func withOperation(p store.Projection, operations ...*harness.ModelOperation) store.Projection {
	p.Operations = operations
	p.Run.Usage.ModelCalls = int64(len(operations))
	return p
}

func project(t testing.TB, s *store.Store, p store.Projection) error {
	t.Helper()
	return s.Project(t.Context(), []store.Projection{p})[0]
}

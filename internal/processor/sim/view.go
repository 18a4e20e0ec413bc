package sim

import (
	"maps"
	"slices"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/processor/sim/judge"
	"runledger/internal/store"
)

// judgeProjection tells the judge what the store has of a run after a
// projection: the run, and what the projection changed.
func (w *world) judgeProjection(p *store.Projection, before uint64) {
	s := w.records.runs[p.Run.ID]
	got := judge.Stored{Before: before, Run: viewRun(s.run), Done: s.doneIDs()}
	for _, change := range p.Records {
		if record, ok := s.calls[change.Record.ToolCallID]; ok {
			got.Records = append(got.Records, viewRecord(&record))
		}
	}
	for _, change := range p.Operations {
		op := s.ops[change.ID]
		got.Operations = append(got.Operations, viewOperation(&op))
	}
	w.judge.Projected(p.Run.ID, got)
}

// judgeStore tells the judge of everything that the store has.
func (w *world) judgeStore() {
	for _, id := range slices.Sorted(maps.Keys(w.records.runs)) {
		s := w.records.get(id, w.clock)
		if s.sequence() == 0 || len(s.done) != s.listed || len(s.ops)+len(s.used) != s.held {
			continue // expired, or lost, and not healed since nobody asked
		}
		got := judge.Stored{Run: viewRun(s.run), Done: s.doneIDs()}
		for _, call := range slices.Sorted(maps.Keys(s.calls)) {
			record := s.calls[call]
			if record.Call <= s.run.Sequence {
				got.Records = append(got.Records, viewRecord(&record))
			}
		}
		for _, op := range slices.Sorted(maps.Keys(s.ops)) {
			operation := s.ops[op]
			got.Operations = append(got.Operations, viewOperation(&operation))
		}
		w.judge.Projected(id, got)
	}
}

func (s *storedRun) doneIDs() []string {
	ids := make([]string, len(s.done))
	for i, entry := range s.done {
		ids[i] = entry.id
	}
	return ids
}

func viewRun(r *harness.Run) judge.Run {
	u, l := r.Usage, r.Limits
	out := judge.Run{
		ID: r.ID, Session: r.SessionID, Agent: r.Agent, Policy: r.Policy,
		Limits:    [7]int64{l.ModelCalls, l.ToolCalls, l.CallsPerTool, l.InputTokens, l.OutputTokens, l.TotalTokens, l.RunBytes},
		StartedAt: milli(r.StartedAt), Deadline: milli(r.Deadline), ExpiresAt: milli(r.ExpiresAt), Start: viewCause(r.StartCause),
		Sequence: r.Sequence, Stream: r.Stream, Digest: r.Digest, At: milli(r.At), Inbound: r.Inbound,
		ModelCalls: u.ModelCalls, ToolCalls: u.ToolCalls, KnownUsage: r.KnownUsage,
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.TotalTokens, RunBytes: u.RunBytes,
		CallsByTool: u.CallsByTool, Calls: make(map[string]int64, len(r.Calls)),
		Exhausted: string(r.Exhausted), Phase: string(r.Phase),
		Outcome: string(r.Termination.Outcome), Reason: r.Termination.Reason, EndedAt: milli(r.Termination.At),
		ProgressTold: r.ProgressTold, Released: string(r.Released), GraceUntil: milli(r.GraceUntil),
		Steps: r.Step, Final: r.Final, Invalid: r.Invalid, ReportSource: r.ReportSource, ReportID: r.ReportID,
		TimerAt: milli(r.TimerAt),
	}
	for status, n := range r.Calls {
		out.Calls[string(status)] = n
	}
	for _, c := range r.Open {
		out.Open = append(out.Open, c.Call)
	}
	out.Repeats = make([]int, 0, len(r.Recent))
	for _, seen := range r.Recent {
		out.Repeats = append(out.Repeats, seen.Count)
	}
	slices.Sort(out.Repeats)
	return out
}

func viewRecord(r *harness.Record) judge.Record {
	return judge.Record{
		ToolCallID: r.ToolCallID, Tool: r.Tool, Executor: r.Executor, Call: r.Call,
		Status: string(r.Status), Evidence: string(r.Evidence), Code: string(r.Code),
		ReservedAt: milli(r.ReservedAt), Deadline: milli(r.Deadline), ExpiresAt: milli(r.ExpiresAt), SettledAt: milli(r.SettledAt),
		Cause: viewCause(r.Cause), ResultCause: viewCause(r.ResultCause),
		RequestBytes: r.RequestBytes, RequestDigest: r.RequestDigest, ArgumentsDigest: r.ArgumentsDigest,
		RawBytes: r.RawBytes, RawDigest: r.RawDigest, RawStored: r.RawStored,
		Request: string(r.Request), RawResponse: string(r.RawResponse), AgentResult: string(r.AgentResult),
	}
}

func viewOperation(op *harness.ModelOperation) judge.Operation {
	return judge.Operation{
		ID: op.ID, Operation: string(op.Operation), Failure: string(op.Failure), Attempts: op.Attempts,
		Open: op.Open, Succeeded: op.Succeeded, Granted: viewCause(op.Granted), Reported: viewCause(op.Reported),
	}
}

func viewCause(c events.Cause) judge.Cause {
	return judge.Cause{Source: c.Source, ID: c.ID, Sequence: c.Sequence}
}

// milli gives Unix milliseconds, 0 for no instant.
func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

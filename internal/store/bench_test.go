package store_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/store"
	"runledger/internal/testenv"
)

var (
	benchRequest = bytes.Repeat([]byte("q"), 1<<10)
	benchRaw     = bytes.Repeat([]byte("r"), 4<<10)
	benchResult  = bytes.Repeat([]byte("a"), 512)
)

// load is a number of runs that go on, call by call.
type load struct {
	store *store.Store
	runs  []*harness.Run
}

func newLoad(b *testing.B, s *store.Store, name string, runs int) *load {
	b.Helper()
	l := &load{store: s}
	first := make([]store.Projection, runs)
	for i := range runs {
		l.runs = append(l.runs, runAt(fmt.Sprintf("%s-%d-%d", name, b.N, i), 1, base()))
		first[i] = store.Projection{Run: l.runs[i]}
	}
	l.project(b, first)
	return l
}

func (l *load) project(b *testing.B, projections []store.Projection) {
	b.Helper()
	for _, err := range l.store.Project(b.Context(), projections) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

func (l *load) next(run *harness.Run) {
	run.Sequence++
	run.Stream++
	run.Inbound++
	run.Digest = "sha256:" + strings.Repeat("0", 64-20) + fmt.Sprintf("%020d", run.Sequence)
}

// call takes one call of each run through reservation and settlement.
func (l *load) call(b *testing.B) {
	b.Helper()
	reserve, settle := make([]store.Projection, len(l.runs)), make([]store.Projection, len(l.runs))
	for i, run := range l.runs {
		l.next(run)
		record := call(run.ID, "call_"+strconv.FormatUint(run.Sequence, 10), run.Sequence, run.StartedAt)
		record.Request, record.RequestBytes = benchRequest, int64(len(benchRequest))
		run.Usage = events.Usage{ToolCalls: run.Usage.ToolCalls + 1, CallsByTool: map[string]int64{"tool": 1}, RunBytes: 1}
		reserve[i] = store.Projection{Run: run, From: run.Sequence - 1, Records: []store.RecordChange{{Record: record, Reserved: true}}}
	}
	l.project(b, reserve)
	for i, run := range l.runs {
		l.next(run)
		record := *reserve[i].Records[0].Record
		record.Status, record.Evidence, record.SettledAt = events.StatusReady, events.EvidenceFound, run.StartedAt
		record.ResultCause = record.Cause
		record.RawBytes, record.RawStored, record.RawDigest = int64(len(benchRaw)), true, run.Digest
		record.RawResponse, record.AgentResult = benchRaw, benchResult
		run.Calls[events.StatusReady]++
		settle[i] = store.Projection{Run: run, From: run.Sequence - 1, Records: []store.RecordChange{{Record: &record, Settled: true}}}
	}
	l.project(b, settle)
}

// perCall reports what a benchmark cost for each of the calls that it made: time
// on the whole, and of that the server's processor time.
func perCall(b *testing.B, addr string, calls int) func() {
	raw := client(b, addr)
	used := func() time.Duration {
		seconds := 0.0
		for line := range strings.Lines(raw.Info(b.Context(), "cpu").Val()) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
				s, err := strconv.ParseFloat(value, 64)
				if err != nil {
					b.Fatal(err)
				}
				seconds += s
			}
		}
		return time.Duration(seconds * float64(time.Second))
	}
	before := used()
	return func() {
		n := float64(b.N * calls)
		b.ReportMetric(float64(b.Elapsed().Microseconds())/n, "µs/call")
		b.ReportMetric(float64((used()-before).Microseconds())/n, "server-µs/call")
	}
}

// BenchmarkProject takes calls through both their transitions, with 1 KiB of
// request, 4 KiB of response and 512 bytes of result.
func BenchmarkProject(b *testing.B) {
	addr := testenv.StartRedis(b).Addr
	s := open(b, addr)
	for _, runs := range []int{1, 50, 200} {
		b.Run(fmt.Sprintf("batch=%d", runs), func(b *testing.B) {
			l := newLoad(b, s, fmt.Sprintf("batch%d", runs), runs)
			defer perCall(b, addr, runs)()
			b.ReportAllocs()
			for b.Loop() {
				l.call(b)
			}
		})
	}
}

// BenchmarkProjectWhatCallsCameTo does the same in runs that remember as many
// results as a run may, which every settlement writes.
func BenchmarkProjectWhatCallsCameTo(b *testing.B) {
	addr := testenv.StartRedis(b).Addr
	s := open(b, addr)
	l := newLoad(b, s, "recent", 50)
	for _, run := range l.runs {
		for i := range 64 {
			run.Recent = append(run.Recent, harness.Repetition{Key: uint64(i) << 32, Count: 1})
		}
	}
	defer perCall(b, addr, len(l.runs))()
	b.ReportAllocs()
	for b.Loop() {
		l.call(b)
	}
}

// BenchmarkProjectOperations takes model operations through a grant and a
// report.
func BenchmarkProjectOperations(b *testing.B) {
	addr := testenv.StartRedis(b).Addr
	s := open(b, addr)
	l := newLoad(b, s, "operations", 50)
	project := func(op *harness.ModelOperation) {
		projections := make([]store.Projection, len(l.runs))
		for i, run := range l.runs {
			l.next(run)
			projections[i] = store.Projection{Run: run, From: run.Sequence - 1, Operations: []*harness.ModelOperation{op}}
		}
		l.project(b, projections)
	}
	defer perCall(b, addr, len(l.runs))()
	b.ReportAllocs()
	for b.Loop() {
		open, done := granted(), reported()
		open.ID = "op_" + strconv.FormatUint(l.runs[0].Sequence, 10)
		done.ID = open.ID
		project(open)
		project(done)
	}
}

// BenchmarkProjectInALongRun shows that a call costs the same in a run that has
// made ten as in one that has made ten thousand.
func BenchmarkProjectInALongRun(b *testing.B) {
	addr := testenv.StartRedis(b).Addr
	s := open(b, addr)
	for _, calls := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			l := newLoad(b, s, fmt.Sprintf("calls%d", calls), 1)
			for range calls {
				l.call(b)
			}
			defer perCall(b, addr, 1)()
			b.ResetTimer()
			for b.Loop() {
				l.call(b)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	addr := testenv.StartRedis(b).Addr
	s := open(b, addr)
	for _, n := range []int{1, 50, 200} {
		l := newLoad(b, s, fmt.Sprintf("load%d", n), n)
		l.call(b)
		ids, refs := make([]string, n), make([]store.Ref, n)
		for i, run := range l.runs {
			ids[i], refs[i] = run.ID, store.Ref{RunID: run.ID, ToolCallID: "call_2"}
		}
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) {
			defer perCall(b, addr, n)()
			for b.Loop() {
				if _, errs := s.LoadRuns(b.Context(), ids); errs[0] != nil {
					b.Fatal(errs[0])
				}
			}
		})
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			defer perCall(b, addr, n)()
			for b.Loop() {
				if loaded, err := s.Load(b.Context(), refs); err != nil || loaded[0].Record == nil {
					b.Fatal(err, loaded[0])
				}
			}
		})
		b.Run(fmt.Sprintf("operations=%d", n), func(b *testing.B) {
			for i := range refs {
				refs[i] = store.Ref{RunID: refs[i].RunID, OperationID: "op"}
			}
			defer perCall(b, addr, n)()
			for b.Loop() {
				if loaded, err := s.Load(b.Context(), refs); err != nil || loaded[0].Err != nil {
					b.Fatal(err, loaded[0])
				}
			}
		})
	}
}

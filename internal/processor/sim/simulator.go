package sim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/processor"
	"runledger/internal/processor/sim/judge"
	"runledger/internal/stream"

	"github.com/prometheus/client_golang/prometheus"
)

// Simulator plays seeds. It is safe for use by several goroutines.
type Simulator struct {
	subjects events.Subjects
	policies []*harness.Policy // the first is the one that every seed has
	contents map[string][]byte // by digest
	judged   map[string]judge.Policy
	metrics  *processor.Metrics
}

// Result is what one seed came to.
type Result struct {
	Seed       uint64
	Counts     Counts
	Violations []string // of the step in which the first was found
}

const prefix = "sim"

// policyText has two tools that may be called and one that may not, and short
// times; the second of the two policies lets the third be called, has other
// timeouts, and records that expire soon.
func policyText(write bool, read, ttl time.Duration) []byte {
	return fmt.Appendf(nil, `
version: 1
tools:
  - {name: read, executor: exec, read_only: true, timeout: %s}
  - {name: look, executor: exec, read_only: true, timeout: 2s, projector: {name: text, max_string: 64}}
  - {name: write, executor: exec, read_only: %t, timeout: 4s}
grants: [{agent: "*", tools: ["*"]}]
bytes: {request: 4KiB, raw_response: 4KiB, record: 8KiB, agent_result: 1KiB}
ttl: %s
observed: 6
progress: {max_repairs: 2, max_repeats: 3, grace: 4s}
`, read, write, ttl)
}

// NewSimulator returns a simulator. It fails only if the simulation itself is
// wrong.
func NewSimulator() (*Simulator, error) {
	subjects, err := events.NewSubjects(prefix)
	if err != nil {
		return nil, err
	}
	s := &Simulator{
		subjects: subjects, contents: make(map[string][]byte), judged: make(map[string]judge.Policy),
		metrics: processor.NewMetrics(prometheus.NewRegistry()),
	}
	add := func(write bool, read, ttl time.Duration) error {
		content := policyText(write, read, ttl)
		p, err := policy.Parse("sim", content)
		if err != nil {
			return err
		}
		s.policies, s.contents[p.Digest] = append(s.policies, p), content
		tools := map[string]time.Duration{"read": read, "look": 2 * time.Second}
		if write {
			tools["write"] = 4 * time.Second
		}
		s.judged[p.Digest] = judge.Policy{Tools: tools, TTL: ttl, MaxRepairs: 2, MaxRepeats: 3, Grace: 4 * time.Second, Observed: 6}
		return nil
	}
	if err := add(false, 5*time.Second, time.Hour); err != nil {
		return nil, err
	}
	return s, add(true, 3*time.Second, 5*time.Second)
}

// Get implements processor.Policies.
func (s *Simulator) Get(_ context.Context, digest string) ([]byte, error) {
	if content, ok := s.contents[digest]; ok {
		return content, nil
	}
	return nil, stream.ErrNotFound
}

// Play plays one seed: some hundred steps with faults, then, without faults, on
// until nothing is left to do. It stops at the step in which the judge finds
// something. Where trace is not nil it tells there what happens, a line each.
func (s *Simulator) Play(seed uint64, faults Faults, trace io.Writer) (result Result) {
	w := newWorld(s, rand.New(rand.NewPCG(seed, 0x5eed)), faults, trace)
	result.Seed = seed
	defer func() {
		if broken := recover(); broken != nil {
			result.Violations = append(w.judge.Violations(), fmt.Sprintf("panic: %v\n%s", broken, stackOf(debug.Stack())))
			w.tell("panic: %v", broken)
		}
		w.counts[Seeds], w.counts[Events], w.counts[Facts] = 1, len(w.in.messages), len(w.runs.messages)
		w.counts[Dispatches], w.counts[DeadLetters] = len(w.dispatch.messages), len(w.invalid.messages)
		result.Counts = w.counts
	}()
	w.play()
	result.Violations = w.judge.Violations()
	return result
}

// stackOf leaves the frames of this module, so that a panic says where it was.
func stackOf(stack []byte) string {
	var kept []string
	for line := range strings.Lines(string(stack)) {
		if strings.Contains(line, "runledger/internal/") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[:min(len(kept), 12)], "")
}

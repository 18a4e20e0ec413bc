package processor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"runledger/internal/harness"
	"runledger/internal/processor"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// shortened is a worker whose store knows a run further than its stream does,
// until the stream has it all.
type shortened struct {
	*clocked
	run  *harness.Run
	told []string // subjects of what was published
	last *stream.Message
}

func newShortened(t *testing.T) *shortened {
	t.Helper()
	s := &shortened{clocked: newClocked(t)}
	s.start(s.clock.Add(time.Minute))
	s.run = s.projected
	s.last = &stream.Message{Subject: "harness.v1.fact.a.r.run.started", Sequence: s.run.Stream}
	s.use(s, s, s)
	return s
}

func (s *shortened) LoadRuns(context.Context, []string) ([]*harness.Run, []error) {
	run := *s.run
	return []*harness.Run{&run}, []error{nil}
}

func (s *shortened) Last(context.Context, string) (*stream.Message, error) { return s.last, nil }

func (s *shortened) Publish(msg *nats.Msg, expect stream.Expect) processor.Pending {
	s.told = append(s.told, msg.Subject)
	return s.clocked.Publish(msg, expect)
}

func (s *shortened) step() error {
	return s.worker.Step(context.Background(), []stream.Message{{
		Subject: "harness.v1.part.0.in.agent.a.r.run.finish", Sequence: 9, Time: s.clock, Data: []byte(`{"run_id":"r","outcome":"SUCCESS"}`),
		Header: nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"e9"}, "ce-source": {"/a"}, "ce-type": {"harness.run.finish.v1"}},
	}})
}

func TestARunIsHeldWhileItsHistoryHasOnlyJustLostItsEnd(t *testing.T) {
	s := newShortened(t)
	whole := s.last
	s.last = nil // a leader that was just elected
	for range 3 {
		if err := s.step(); err == nil || len(s.told) > 0 {
			t.Fatalf("got %v and %v, want it to be held and nothing published", err, s.told)
		}
		s.clock = s.clock.Add(time.Second)
	}
	s.last = whole // it has caught up
	if err := s.step(); err != nil || !strings.Contains(strings.Join(s.told, " "), "run.terminated") {
		t.Errorf("got %v and %v, want the run to end", err, s.told)
	}
}

func TestARunIsGivenUpWhenItsHistoryHasLostItsEndForGood(t *testing.T) {
	s := newShortened(t)
	s.last = nil
	if err := s.step(); err == nil {
		t.Fatal("want it to be held")
	}
	s.clock = s.clock.Add(6 * time.Second)
	if err := s.step(); err != nil || !strings.Contains(strings.Join(s.told, " "), "harness.v1.invalid.agent.a.9") {
		t.Errorf("got %v and %v, want its event to be kept for the operator", err, s.told)
	}
}

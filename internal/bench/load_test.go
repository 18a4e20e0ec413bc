package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"
	"runledger/internal/testenv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// standIn answers a load as a processor would, and can be made to stall. It
// keeps nothing.
type standIn struct {
	t        *testing.T
	nc       *nats.Conn
	url      string
	subjects events.Subjects
	sequence atomic.Uint64
	stallAt  int // the call before which it stalls, from 1
	stall    time.Duration
	mute     atomic.Bool  // no call is settled any more
	status   atomic.Value // of settled calls
	mu       sync.Mutex
	calls    int
	runs     map[string]int // calls of each run
}

func newStandIn(t *testing.T) *standIn {
	t.Helper()
	server := testenv.StartNATS(t)
	s := &standIn{t: t, nc: server.Conn(t), url: server.URL, runs: make(map[string]int)}
	s.status.Store("READY")
	var err error
	if s.subjects, err = events.NewSubjects(events.DefaultPrefix); err != nil {
		t.Fatal(err)
	}
	options := stream.DefaultOptions()
	options.Executors = []string{executorName}
	topology, err := stream.LoadTopology(options)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Apply(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if _, err := s.nc.Subscribe("harness.v1.in.>", s.answer); err != nil {
		t.Fatal(err)
	}
	if err := s.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *standIn) answer(m *nats.Msg) {
	tokens := strings.SplitN(m.Subject, ".", 7) // harness v1 in <role> <principal> <run> <verb>
	run, verb := tokens[5], events.Verb(tokens[6])
	id, _ := toolCallID(m.Data)
	fact := func(kind events.Kind, data string) {
		s.publish("harness.v1.run.bench."+run+"."+string(kind), data)
	}
	switch verb {
	default:
		s.t.Errorf("the load sends %s", verb)
	case events.VerbRunStart:
		fact(events.KindRunStarted, `{}`)
	case events.VerbToolCall:
		if s.count(run) == s.stallAt {
			select {
			case <-time.After(s.stall):
			case <-s.t.Context().Done():
				return
			}
		}
		fact(events.KindToolReserved, `{"tool_call_id":"`+id+`"}`)
		s.publish(s.subjects.Dispatch(executorName, run, s.sequence.Add(1)), `{"run_id":"`+run+`","tool_call_id":"`+id+`"}`)
	case events.VerbToolResult:
		if s.mute.Load() {
			return
		}
		fact(events.KindToolSettled, fmt.Sprintf(`{"tool_call_id":%q,"status":%q}`, id, s.status.Load()))
	}
}

func (s *standIn) count(run string) (calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.runs[run]++
	return s.calls
}

func (s *standIn) callsByRun() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.runs)
}

func (s *standIn) publish(subject, data string) {
	if err := s.nc.Publish(subject, []byte(data)); err != nil && s.t.Context().Err() == nil { // else the test is over
		s.t.Error(err)
	}
}

// load makes a load in this process, with some open runs.
func (s *standIn) load(runs int) *load {
	s.t.Helper()
	l, err := newLoad(LoadConfig{URL: s.url, ArgumentBytes: 1024, ResultBytes: 4096})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(l.nc.Close)
	if err := l.open(s.t.Context(), runs); err != nil {
		s.t.Fatal(err)
	}
	return l
}

// order has the load play, as an order that comes over the wire.
func (s *standIn) order(l *load, o playOrder) (play, error) {
	s.t.Helper()
	o.Watch = watch{Processor: []int{os.Getpid()}}
	data, err := json.Marshal(order{Play: &o})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	r, err := l.obey(ctx, data)
	return r.play, err
}

func TestAnOpenLoopCountsAStallForEveryCallThatCameMeanwhile(t *testing.T) {
	s := newStandIn(t)
	l := s.load(10)
	s.stallAt, s.stall = 1, 600*time.Millisecond
	p, err := s.order(l, playOrder{Rate: 200, ActiveRuns: 10, MeasuredMS: 1000, DrainMS: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	// 200 calls; the first 120 come within the stall, and the median of all is
	// that of call 100, which waits for 100 ms.
	if p.Latencies.Whole.P99 < 550 || p.Latencies.Whole.P50 < 60 || p.Latencies.IntentToDispatch.P99 < 550 {
		t.Errorf("a stall of 600 ms shows as %+v", p.Latencies)
	}
	if p.Latencies.ResultToSettled.P99 > 550 {
		t.Errorf("results did not wait, and took %+v", p.Latencies.ResultToSettled)
	}
	if p.Unfinished != 0 || l.next != 200 {
		t.Errorf("%d calls were sent and %d not settled, want 200 and none", l.next, p.Unfinished)
	}
}

// TestCallsThatTheLoadItselfSendsLateCountFromTheirSchedule begins 300 ms late.
func TestCallsThatTheLoadItselfSendsLateCountFromTheirSchedule(t *testing.T) {
	l := newStandIn(t).load(10)
	start := time.Now().Add(-300 * time.Millisecond)
	p := newPlaying(playOrder{Rate: 100, ActiveRuns: 10, DrainMS: 10_000}, l)
	p.began, p.ends = start, start.Add(time.Second)
	if err := p.sendDue(schedule{start: start, rate: 100}, 20); err != nil {
		t.Fatal(err)
	}
	if err := p.drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	// They were due from 300 to 110 ms ago.
	whole, late := p.whole.latency(), p.late.latency()
	if whole.Max < 300 || whole.P50 < 200 || late.Max < 300 || late.P50 < 200 {
		t.Errorf("20 calls that were late count as %+v, late by %+v", whole, late)
	}
}

func TestAClosedLoopKeepsItsCallsUnderWayAndEndsInTime(t *testing.T) {
	s := newStandIn(t)
	l := s.load(20)
	start := time.Now()
	p, err := s.order(l, playOrder{Window: 5, ActiveRuns: 20, WarmupMS: 200, MeasuredMS: 500, DrainMS: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 700*time.Millisecond {
		t.Errorf("it took %v, want 700 ms at least", took)
	}
	if p.Calls < 1 || p.Calls > int64(l.next) || p.Seconds < 0.1 || p.rate() <= 0 {
		t.Errorf("%d calls in %v s, of %d sent", p.Calls, p.Seconds, l.next)
	}
	if p.Cost.MemoryMiB < 1 || p.Cost.Processor < 0 { // of this process, whose time is counted in hundredths
		t.Errorf("cost %+v", p.Cost)
	}
	for run, calls := range s.callsByRun() {
		if most := int(l.next)/10 + 2; calls > most { // twice their share
			t.Errorf("%s had %d of %d calls, want them in turn", run, calls, l.next)
		}
	}
}

func TestRunsThatHaveHadTheirCallsGiveTheirPlacesToOthers(t *testing.T) {
	s := newStandIn(t)
	l := s.load(30)
	if _, err := s.order(l, playOrder{Rate: 100, ActiveRuns: 5, CallsPerRun: 4, MeasuredMS: 1000, DrainMS: 10_000}); err != nil {
		t.Fatal(err)
	}
	if runs := len(s.callsByRun()); runs != 25 {
		t.Errorf("100 calls went to %d runs, want 25 with 4 each", runs)
	}
	for run, calls := range s.callsByRun() {
		if calls != 4 {
			t.Errorf("%s had %d calls, want 4", run, calls)
		}
	}
	_, err := s.order(l, playOrder{Rate: 100, ActiveRuns: 5, CallsPerRun: 2, FirstRun: 25, MeasuredMS: 1000, DrainMS: 10_000})
	if err == nil || !strings.Contains(err.Error(), "all of 30 open runs have had 2 calls each") {
		t.Errorf("with too few runs: got %v", err)
	}
}

func TestCallsThatNeverSettleAreToldAndCount(t *testing.T) {
	s := newStandIn(t)
	l := s.load(10)
	s.stallAt, s.stall = 1, time.Minute
	p, err := s.order(l, playOrder{Rate: 100, ActiveRuns: 10, MeasuredMS: 300, DrainMS: 200})
	if err == nil {
		t.Fatalf("a phase in which nothing settled is %+v, want an error", p)
	}
	if !strings.Contains(err.Error(), "0 calls settled") {
		t.Errorf("got %v", err)
	}
}

func TestAMeasuredPhaseGivesUpOnCallsThatAreStillUnderWay(t *testing.T) {
	s := newStandIn(t)
	l := s.load(10)
	s.stallAt, s.stall = 51, time.Minute
	p, err := s.order(l, playOrder{Rate: 100, ActiveRuns: 10, MeasuredMS: 1000, DrainMS: 100})
	if err != nil {
		t.Fatal(err)
	}
	if p.Unfinished < 30 || p.Unfinished > 60 {
		t.Errorf("%d calls are told not to have settled, want some 50 of 100", p.Unfinished)
	}
	if l := p.Latencies; l.Whole.Max < 400 || l.IntentToDispatch.Max < 400 { // as long as it was waited for
		t.Errorf("those that were not dispatched count as %+v", l)
	}
}

func TestCallsWhoseResultsAreNotSettledCountAsThatLong(t *testing.T) {
	s := newStandIn(t)
	l := s.load(10)
	time.AfterFunc(500*time.Millisecond, func() { s.mute.Store(true) })
	p, err := s.order(l, playOrder{Rate: 100, ActiveRuns: 10, MeasuredMS: 1000, DrainMS: 100})
	if err != nil {
		t.Fatal(err)
	}
	if p.Unfinished < 30 || p.Unfinished > 70 {
		t.Errorf("%d calls are told not to have settled, want some 50 of 100", p.Unfinished)
	}
	if l := p.Latencies; l.Whole.Max < 400 || l.ResultToSettled.Max < 400 {
		t.Errorf("those whose results were not settled count as %+v", l)
	}
}

func TestACallThatIsGivenUpCountsInTheStretchInWhichItHangs(t *testing.T) {
	now := time.Now()
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		call                       call
		dispatched, settled, whole float64 // most, in ms; 0 of none
	}{
		"not dispatched": {call{scheduled: before(8 * time.Second)}, 8000, 0, 8000},
		"not claimed":    {call{scheduled: before(8 * time.Second), dispatch: "r.1"}, 0, 0, 8000},
		"not settled":    {call{scheduled: before(8 * time.Second), dispatch: "r.1", resulted: before(2 * time.Second)}, 0, 2000, 8000},
	} {
		p := newPlaying(playOrder{}, nil)
		p.measured[&c.call] = struct{}{}
		p.giveUp(now)
		for stretch, pair := range map[string][2]float64{
			"to dispatch": {p.toDispatch.latency().Max, c.dispatched},
			"to settled":  {p.toSettled.latency().Max, c.settled},
			"whole":       {p.whole.latency().Max, c.whole},
		} {
			if got, want := pair[0], pair[1]; got < want || got > 1.01*want {
				t.Errorf("%s: %s is %v ms, want %v", name, stretch, got, want)
			}
		}
	}
}

func TestACallThatEndsOtherwiseThanReadyEndsTheMeasurement(t *testing.T) {
	s := newStandIn(t)
	l := s.load(10)
	s.status.Store("ERROR")
	_, err := s.order(l, playOrder{Window: 1, ActiveRuns: 10, MeasuredMS: 1000, DrainMS: 1000})
	if err == nil || !strings.Contains(err.Error(), `"status":"ERROR"`) {
		t.Errorf("got %v, want the fact", err)
	}
}

func TestOrdersThatCannotBePlayedAreRefused(t *testing.T) {
	s := newStandIn(t)
	l := s.load(3)
	for want, o := range map[string]playOrder{
		"1 to 3 active runs":        {Window: 1, ActiveRuns: 4},
		"got 2 from 2 on":           {Window: 1, ActiveRuns: 2, FirstRun: 2},
		"either a rate or a window": {ActiveRuns: 1},
	} {
		if _, err := s.order(l, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

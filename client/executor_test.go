package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runledger/internal/events"
	"runledger/internal/testenv"
)

// desk is one executor under test, and the results that come of it.
type desk struct {
	t       *testing.T
	nc      *nats.Conn
	js      jetstream.JetStream
	results chan *nats.Msg
}

func newDesk(t *testing.T, nc *nats.Conn) *desk {
	t.Helper()
	d := &desk{t: t, nc: nc, js: jetStream(t, nc), results: make(chan *nats.Msg, 1000)}
	sub, err := nc.ChanSubscribe("harness.v1.in.executor.desk.>", d.results)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return d
}

// run runs an executor until stop is called, which the end of the test does too.
func (d *desk) run(cfg ExecutorConfig, handlers map[string]Handler) (e *Executor, stop func()) {
	d.t.Helper()
	e = d.executor(cfg, handlers)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			d.t.Errorf("Run: %v", err)
		}
	})
	d.t.Cleanup(stop)
	return e, stop
}

func (d *desk) executor(cfg ExecutorConfig, handlers map[string]Handler) *Executor {
	d.t.Helper()
	cfg.Name = "desk"
	e, err := NewExecutor(d.nc, cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	for tool, handler := range handlers {
		e.Handle(tool, handler)
	}
	return e
}

// dispatch publishes one, as the processor does.
func (d *desk) dispatch(call uint64, tool, arguments string, deadline time.Time) {
	d.t.Helper()
	header, data := events.EncodeDispatch("a", events.Dispatch{
		RunID: "r1", ToolCallID: fmt.Sprintf("call-%d", call), DispatchID: events.DispatchID("r1", call),
		Tool: tool, Arguments: []byte(arguments), Deadline: deadline,
	}, time.Now(), events.Cause{ID: "e1", Source: "/agents/a"})
	msg := &nats.Msg{Subject: testSubjects(d.t).Dispatch("desk", "r1", call), Header: nats.Header(header), Data: data}
	if _, err := d.js.PublishMsg(testContext(d.t), msg, jetstream.WithExpectLastSequencePerSubject(0)); err != nil {
		d.t.Fatal(err)
	}
}

// result waits for the next result.
func (d *desk) result() *nats.Msg {
	d.t.Helper()
	select {
	case msg := <-d.results:
		return msg
	case <-time.After(15 * time.Second):
		d.t.Fatal("no result within 15s")
		return nil
	}
}

// settled waits until the consumer owes nothing.
func (d *desk) settled() {
	d.t.Helper()
	consumer, err := d.js.Consumer(testContext(d.t), "DISPATCH", "executor-desk")
	if err != nil {
		d.t.Fatal(err)
	}
	eventually(d.t, "every dispatch is acknowledged", func() bool {
		info, err := consumer.Info(testContext(d.t))
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0
	})
}

func soon() time.Time { return time.Now().Add(time.Minute) }

func withDesk(t *testing.T, config ...testenv.NATSConfig) *desk {
	t.Helper()
	_, nc, _ := withStreams(t, config...)
	return newDesk(t, nc)
}

func TestExecutorAnswersWithTheHandlersBytes(t *testing.T) {
	d := withDesk(t)
	var got Dispatch
	_, stop := d.run(ExecutorConfig{}, map[string]Handler{"search": func(_ context.Context, call Dispatch) ([]byte, error) {
		got = call
		return []byte(`{ "n": 1.50, "s": "\u00e9" }`), nil
	}})
	deadline := time.Date(2100, 1, 2, 3, 4, 5, 678e6, time.UTC)
	d.dispatch(7, "search", `{ "q" : 1e3 }`, deadline)
	msg := d.result()
	want := `{"run_id":"r1","tool_call_id":"call-7","dispatch_id":"r1.7","outcome":"SUCCEEDED","result":{ "n": 1.50, "s": "\u00e9" }}`
	if string(msg.Data) != want {
		t.Errorf("result\n%s, want\n%s", msg.Data, want)
	}
	if msg.Subject != "harness.v1.in.executor.desk.r1.tool.result" || msg.Header["ce-source"][0] != "/executors/desk" ||
		msg.Header["ce-type"][0] != "harness.tool.result.v1" {
		t.Errorf("on %s with %v", msg.Subject, msg.Header)
	}
	stop()
	if got.RunID != "r1" || got.ToolCallID != "call-7" || got.DispatchID != "r1.7" || got.Tool != "search" ||
		string(got.Arguments) != `{ "q" : 1e3 }` || !got.Deadline.Equal(deadline) {
		t.Errorf("the handler got %+v", got)
	}
	d.settled()
}

func TestHandlerOutcomes(t *testing.T) {
	d := withDesk(t)
	var log bytes.Buffer
	_, stop := d.run(ExecutorConfig{Concurrency: 1, Log: logTo(&log)}, map[string]Handler{
		"nil":       func(context.Context, Dispatch) ([]byte, error) { return nil, nil },
		"error":     func(context.Context, Dispatch) ([]byte, error) { return nil, errors.New("no \"such\" thing") },
		"own error": func(context.Context, Dispatch) ([]byte, error) { return []byte(`{"code":5}`), errors.New("five") },
		"long error": func(context.Context, Dispatch) ([]byte, error) {
			return nil, errors.New(strings.Repeat("x", 4095) + "é")
		},
		"panic":    func(context.Context, Dispatch) ([]byte, error) { panic("secret") },
		"not JSON": func(context.Context, Dispatch) ([]byte, error) { return []byte(`{"a":`), nil },
	})
	for i, c := range []struct{ tool, outcome, result string }{
		{"nil", "SUCCEEDED", `null`},
		{"error", "FAILED", `{"error":"no \"such\" thing"}`},
		{"own error", "FAILED", `{"code":5}`},
		{"long error", "FAILED", `{"error":"` + strings.Repeat("x", 4095) + `�"}`},
		{"panic", "FAILED", `{"error":"the handler panicked"}`},
		{"not JSON", "FAILED", `{"error":"the handler's result is not one JSON value in UTF-8 without duplicate names"}`},
		{"nobody's", "FAILED", `{"error":"the executor has no handler for this tool"}`},
	} {
		d.dispatch(uint64(i+1), c.tool, `{}`, soon())
		var got struct {
			Outcome string          `json:"outcome"`
			Result  json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(d.result().Data, &got); err != nil {
			t.Fatal(err)
		}
		if got.Outcome != c.outcome || string(got.Result) != c.result {
			t.Errorf("%s: got %s %.100s, want %s %.100s", c.tool, got.Outcome, got.Result, c.outcome, c.result)
		}
	}
	stop()
	if !strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "executor_test.go") {
		t.Error("the log lacks the panic and where it was")
	}
}

func TestExecutorProcessesShareTheirCallsAndRunEachOnce(t *testing.T) {
	d := withDesk(t)
	var mu sync.Mutex
	ran := map[string]int{}
	handlers := map[string]Handler{"t": func(_ context.Context, call Dispatch) ([]byte, error) {
		mu.Lock()
		ran[call.DispatchID]++
		mu.Unlock()
		return nil, nil
	}}
	first, stopFirst := d.run(ExecutorConfig{Concurrency: 4}, handlers)
	second, stopSecond := d.run(ExecutorConfig{Concurrency: 4}, handlers)
	for i := range 60 {
		d.dispatch(uint64(i+1), "t", `{}`, soon())
	}
	for range 60 {
		d.result()
	}
	d.settled()
	stopFirst()
	stopSecond()
	for id, n := range ran {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
	one, two := first.Stats().Ran, second.Stats().Ran
	if len(ran) != 60 || one+two != 60 || one == 0 || two == 0 {
		t.Errorf("%d calls ran, %d and %d in the processes, want 60 in both together", len(ran), one, two)
	}
}

func TestClaimedAndExpiredDispatchesAreNotRun(t *testing.T) {
	d := withDesk(t)
	if mine, err := testClaims(t, d.js).claim(testContext(t), "r1.1"); err != nil || !mine {
		t.Fatalf("claim: %v, %v", mine, err)
	}
	d.dispatch(1, "t", `{}`, soon())
	d.dispatch(2, "t", `{}`, time.Now().Add(-time.Millisecond))
	if _, err := d.js.Publish(testContext(t), "harness.v1.dispatch.desk.r1.3", []byte(`[]`)); err != nil {
		t.Fatal(err)
	}
	d.dispatch(4, "t", `{}`, soon())
	var ran []string
	e, stop := d.run(ExecutorConfig{Concurrency: 1}, map[string]Handler{"t": func(_ context.Context, call Dispatch) ([]byte, error) {
		ran = append(ran, call.DispatchID)
		return nil, nil
	}})
	d.result()
	d.settled()
	stop()
	if len(ran) != 1 || ran[0] != "r1.4" {
		t.Errorf("ran %v, want only r1.4", ran)
	}
	if got, want := e.Stats(), (ExecutorStats{Ran: 1, Elsewhere: 1, Expired: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

func TestDispatchIsClaimedAndAcknowledgedBeforeItRuns(t *testing.T) {
	d := withDesk(t)
	checked := make(chan error, 1)
	d.run(ExecutorConfig{}, map[string]Handler{"t": func(ctx context.Context, call Dispatch) ([]byte, error) {
		checked <- func() error {
			bucket, err := d.js.KeyValue(ctx, "CLAIMS")
			if err != nil {
				return err
			}
			if _, err := bucket.Get(ctx, call.DispatchID); err != nil {
				return fmt.Errorf("claim: %w", err)
			}
			consumer, err := d.js.Consumer(ctx, "DISPATCH", "executor-desk")
			if err != nil {
				return err
			}
			if n := consumer.CachedInfo().NumAckPending; n != 0 {
				return fmt.Errorf("%d dispatches are not acknowledged", n)
			}
			return nil
		}()
		return nil, nil
	}})
	d.dispatch(1, "t", `{}`, soon())
	if err := <-checked; err != nil {
		t.Error(err)
	}
	d.result()
}

func TestHandlersContextEndsAtTheCallsDeadlineAndTheLateResultIsTold(t *testing.T) {
	d := withDesk(t)
	d.run(ExecutorConfig{}, map[string]Handler{"t": func(ctx context.Context, call Dispatch) ([]byte, error) {
		<-ctx.Done()
		return []byte(fmt.Sprintf(`{"late":%v}`, !time.Now().Before(call.Deadline))), nil
	}})
	d.dispatch(1, "t", `{}`, time.Now().Add(300*time.Millisecond))
	if data := d.result().Data; !bytes.Contains(data, []byte(`"result":{"late":true}`)) {
		t.Errorf("got %s", data)
	}
}

func TestResultThatIsTooLargeIsToldWithItsSize(t *testing.T) {
	d := withDesk(t, testenv.NATSConfig{MaxPayload: 65536})
	d.run(ExecutorConfig{}, map[string]Handler{"t": func(context.Context, Dispatch) ([]byte, error) {
		return []byte(`"` + strings.Repeat("x", 65536) + `"`), nil
	}})
	d.dispatch(1, "t", `{}`, soon())
	want := `{"run_id":"r1","tool_call_id":"call-1","dispatch_id":"r1.1","outcome":"TOO_LARGE","size":65538}`
	if got := string(d.result().Data); got != want {
		t.Errorf("got %.200s, want %s", got, want)
	}
}

func TestUnansweredResultIsPublishedAgainAsTheSameEvent(t *testing.T) {
	d := withDesk(t)
	e := d.executor(ExecutorConfig{}, nil)
	e.pub.js = &lossy{JetStream: d.js, after: once()}
	e.answer(Dispatch{RunID: "r1", ToolCallID: "c", DispatchID: "r1.1", Deadline: soon()}, events.ResultSucceeded, []byte(`1`))
	first, second := d.result(), d.result()
	if first.Header["ce-id"][0] != second.Header["ce-id"][0] || !bytes.Equal(first.Data, second.Data) {
		t.Errorf("published\n%v %s, then\n%v %s", first.Header, first.Data, second.Header, second.Data)
	}
	if got, want := e.Stats(), (ExecutorStats{Republished: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

func TestConcurrencyIsBoundedAndStoppingFinishesWhatWasClaimed(t *testing.T) {
	d := withDesk(t)
	var running, most atomic.Int64
	release := make(chan struct{})
	handlers := map[string]Handler{"t": func(ctx context.Context, _ Dispatch) ([]byte, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		return nil, ctx.Err()
	}}
	e := d.executor(ExecutorConfig{Concurrency: 3}, handlers)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	for i := range 5 {
		d.dispatch(uint64(i+1), "t", `{}`, soon())
	}
	eventually(t, "three calls run", func() bool { return running.Load() == 3 })
	cancel()
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	for range 3 { // each with a context that stopping did not end
		if data := d.result().Data; !bytes.Contains(data, []byte(`SUCCEEDED`)) {
			t.Errorf("got %s", data)
		}
	}
	if most.Load() != 3 || e.Stats().Ran != 3 {
		t.Errorf("%d ran at once, %d in all, want 3 and 3", most.Load(), e.Stats().Ran)
	}
	d.run(ExecutorConfig{}, handlers) // the other two are not lost
	d.result()
	d.result()
	d.settled()
}

func TestExecutorGoesOnAfterTheServerRestarts(t *testing.T) {
	server, nc, _ := withStreams(t)
	d := newDesk(t, nc)
	d.run(ExecutorConfig{Concurrency: 2, AckTimeout: 500 * time.Millisecond}, map[string]Handler{"t": func(_ context.Context, call Dispatch) ([]byte, error) {
		return []byte(`"` + call.DispatchID + `"`), nil
	}})
	d.dispatch(1, "t", `{}`, soon())
	d.result()
	server.Restart()
	eventually(t, "the client is connected again", nc.IsConnected)
	d.dispatch(2, "t", `{}`, soon())
	if data := d.result().Data; !bytes.Contains(data, []byte(`"r1.2"`)) {
		t.Errorf("got %s", data)
	}
}

func TestRunSaysWhatIsMissing(t *testing.T) {
	nc := testenv.StartNATS(t).Conn(t)
	d := &desk{t: t, nc: nc, js: jetStream(t, nc)}
	err := d.executor(ExecutorConfig{}, nil).Run(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "executor-desk") || !strings.Contains(err.Error(), "streams apply") {
		t.Errorf("got %v, want an error that names the consumer and what makes it", err)
	}
}

func TestExecutorConfigurationNamesTheWrongField(t *testing.T) {
	for field, cfg := range map[string]ExecutorConfig{
		"Name: ":        {Name: ""},
		"Prefix: ":      {Name: "a", Prefix: "."},
		"Concurrency: ": {Name: "a", Concurrency: 257},
		"AckTimeout: ":  {Name: "a", AckTimeout: -1},
	} {
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("got %v, want an error that begins with %q", err, field)
		}
	}
}

func TestExecutorThatIsStartedWhileNobodyAnswersWaits(t *testing.T) {
	server, nc, _ := withStreams(t)
	d := newDesk(t, nc)
	server.Stop()
	log := make(lines, 100)
	d.run(ExecutorConfig{AckTimeout: 50 * time.Millisecond, Log: logTo(log)}, map[string]Handler{
		"t": func(context.Context, Dispatch) ([]byte, error) { return []byte("1"), nil },
	})
	select {
	case line := <-log:
		if !strings.Contains(line, "not known yet") {
			t.Errorf("it says %q", line)
		}
	case <-time.After(15 * time.Second):
		t.Error("it has not tried, or does not try again")
	}
	server.Restart()
	eventually(t, "the connection is back", nc.IsConnected)
	d.dispatch(1, "t", `{}`, time.Now().Add(time.Minute))
	d.result()
}

// lines takes what is logged, as long as there is room.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runledger/client"
	"runledger/internal/audit"
	"runledger/internal/devserver"
)

// briefly is how long a call of the tool desk_briefly may take.
const briefly = 6 * time.Second

// withDesk is a world with one more executor, whose processes a test starts.
func withDesk(t *testing.T) *world {
	t.Helper()
	return newWorld(t, servers{policy: bytes.Replace(patient(), []byte("\ntools:\n"), []byte(`
tools:
  - {name: desk, executor: desk, read_only: true, timeout: 5m, projector: {name: json}}
  - {name: desk_briefly, executor: desk, read_only: true, timeout: `+briefly.String()+`, projector: {name: json}}
`), 1)})
}

// desk starts a process of the executor and waits until it is there.
func (w *world) desk(mode string) *devserver.Process {
	w.t.Helper()
	p, err := devserver.StartProcess(devserver.ProcessConfig{
		Path: os.Args[0], Log: filepath.Join(w.dir, "executor-"+mode+".log"),
		Env: append(os.Environ(), executorMode+"="+mode, executorNATS+"="+w.natsURLs()),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = p.Kill() // it may have ended
		if w.t.Failed() {
			w.t.Logf("executor %s:\n%s", mode, p.LogTail(50))
		}
	})
	awaitSaid(w.t, p, "executor ready")
	return p
}

func awaitSaid(t *testing.T, p *devserver.Process, text string) {
	t.Helper()
	within(t, time.Minute, "an executor says "+text, func() error {
		if log := p.LogTail(1000); !strings.Contains(log, text) {
			return errors.New(log)
		}
		return nil
	})
}

func killDesk(t *testing.T, p *devserver.Process) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
}

// hand is an agent with one run of its own beside the load.
func (w *world) hand() (agent *client.Agent, run *client.Run) {
	w.t.Helper()
	agent, err := client.NewAgent(w.conn, client.AgentConfig{Name: "hand"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(agent.Close)
	run, err = agent.Start(w.t.Context(), client.RunSpec{
		RunID: "hand", SessionID: "hand", Deadline: time.Now().Add(20 * time.Minute),
		Limits: client.Limits{ModelCalls: 1, ToolCalls: 9, CallsPerTool: 9, InputTokens: 1, OutputTokens: 1, TotalTokens: 1, RunBytes: 1 << 20},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return agent, run
}

func call(t *testing.T, run *client.Run, id, tool string) *client.Pending {
	t.Helper()
	pending, err := run.StartCall(t.Context(), client.Call{ID: id, Tool: tool})
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

// result waits for what became of a call, at most two minutes.
func result(t *testing.T, pending *client.Pending) (*client.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return pending.Wait(ctx)
}

func wantResult(t *testing.T, pending *client.Pending, data string) {
	t.Helper()
	if got, err := result(t, pending); err != nil || string(got.Data) != data {
		t.Errorf("got %+v, %v, want the result %s", got, err, data)
	}
}

func finish(t *testing.T, run *client.Run) {
	t.Helper()
	if _, err := run.Finish(t.Context(), client.OutcomeSuccess); err != nil {
		t.Errorf("finish: %v", err)
	}
}

// besides takes one run of so many calls from the report.
func besides(ready, failed int64) func(*world, *audit.Report) {
	return func(_ *world, r *audit.Report) {
		r.Runs--
		r.Calls -= ready + failed
		r.Reserved -= ready + failed
		r.Ready -= ready
		r.Error -= failed
		r.EvidenceFound -= ready
		r.Terminated["SUCCESS"]--
	}
}

func TestExecutorIsKilledBetweenTakingACallAndItsClaim(t *testing.T) {
	w := withDesk(t)
	var took time.Duration
	playUnder(t, w, fault{
		name: "an executor killed before its claim", what: "SIGKILL after the dispatch was taken; another process of the executor runs it once it is delivered again (ack wait 30 s)",
		last: redelivered,
		strike: func(w *world) {
			_, run := w.hand()
			victim := w.desk(takes)
			pending := call(w.t, run, "c1", "desk")
			awaitSaid(w.t, victim, "executor "+takes+" hand.2")
			var other *devserver.Process
			w.broken(func() { killDesk(w.t, victim) }, func() { other = w.desk(answers) })
			began := time.Now()
			wantResult(w.t, pending, `{"result":{"found":1}}`)
			took = time.Since(began)
			if n := strings.Count(other.LogTail(1000), "executor "+answers+" "); n != 1 {
				w.t.Errorf("the other process ran %d calls, want 1", n)
			}
			finish(w.t, run)
			killDesk(w.t, other)
		},
		besides: besides(1, 0), keys: 5,
		note: func(*world) string { return fmt.Sprintf("run by the other after %.1f s, READY", took.Seconds()) },
	})
}

func TestExecutorIsKilledAfterItsClaim(t *testing.T) {
	w := withDesk(t)
	playUnder(t, w, fault{
		name: "an executor killed after its claim", what: "SIGKILL while the tool runs; another process of the executor serves on",
		strike: func(w *world) {
			_, run := w.hand()
			victim := w.desk(claims)
			pending := call(w.t, run, "c1", "desk_briefly")
			awaitSaid(w.t, victim, "executor "+claims+" hand.2")
			var other *devserver.Process
			w.broken(func() { killDesk(w.t, victim) }, func() { other = w.desk(answers) })
			var failed *client.FailedError
			if got, err := result(w.t, pending); !errors.As(err, &failed) || failed.Code != "TOOL_TIMEOUT" {
				w.t.Errorf("got %+v, %v, want TOOL_TIMEOUT", got, err)
			}
			wantResult(w.t, call(w.t, run, "c2", "desk_briefly"), `{"result":{"found":1}}`)
			if n := strings.Count(other.LogTail(1000), "executor "+answers+" "); n != 1 {
				w.t.Errorf("the other process ran %d calls, want the second one only", n)
			}
			finish(w.t, run)
			killDesk(w.t, other)
		},
		besides: besides(1, 1), keys: 6,
		note: func(*world) string { return "that call ERROR/TOOL_TIMEOUT, never run again; the next READY" },
	})
}

func TestExecutorIsKilledAfterItPublishedItsResultTwice(t *testing.T) {
	w := withDesk(t)
	late := 0
	playUnder(t, w, fault{
		name: "an executor killed after two results", what: "two different results of one call, then SIGKILL",
		strike: func(w *world) {
			_, run := w.hand()
			victim := w.desk(answers2)
			pending := call(w.t, run, "c1", "desk")
			awaitSaid(w.t, victim, "executor "+answers2+" hand.2")
			w.broken(func() { killDesk(w.t, victim) }, func() {})
			wantResult(w.t, pending, `{"result":{"found":1}}`)
			finish(w.t, run)
		},
		keys: 5,
		besides: func(w *world, r *audit.Report) {
			besides(1, 0)(w, r)
			facts, err := readFacts(w.t.Context(), w.js)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, f := range facts {
				if f.kind == "tool.late" {
					late++
				}
			}
			if late != 1 {
				w.t.Errorf("tool.late was told %d times, want once", late)
			}
		},
		note: func(*world) string { return fmt.Sprintf("the first settles; tool.late %d time", late) },
	})
}

func TestShortNATSIsKilledBetweenAClaimAndItsRun(t *testing.T) {
	w := withDesk(t)
	playUnder(t, w, fault{
		name: "nats-server killed between claim and run", what: "one server, `sync_interval: always`; SIGKILL once an executor has claimed, started again after 1 s, then the tool runs",
		strike: func(w *world) {
			claimed, goOn := make(chan string, 10), make(chan struct{})
			executor, err := client.NewExecutor(w.conn, client.ExecutorConfig{Name: "desk"})
			if err != nil {
				w.t.Fatal(err)
			}
			executor.Handle("desk", func(_ context.Context, d client.Dispatch) ([]byte, error) {
				claimed <- d.DispatchID
				<-goOn
				return []byte(`{"found":1}`), nil
			})
			ctx, stop := context.WithCancel(w.t.Context())
			ended := make(chan error, 1)
			go func() { ended <- executor.Run(ctx) }()
			_, run := w.hand()
			pending := call(w.t, run, "c1", "desk")
			<-claimed
			w.during(time.Second, w.nats.Kill, w.nats.Restart)
			close(goOn)
			wantResult(w.t, pending, `{"result":{"found":1}}`)
			finish(w.t, run)
			stop()
			if err := <-ended; err != nil {
				w.t.Error(err)
			}
			if len(claimed) != 0 || executor.Stats().Ran != 1 {
				w.t.Errorf("the tool ran %d times, want once", executor.Stats().Ran)
			}
		},
		besides: besides(1, 0), keys: 5,
		note: func(*world) string { return "the tool ran once, READY" },
	})
}

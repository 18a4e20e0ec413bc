package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"runledger/internal/testenv"

	"github.com/nats-io/nats.go/jetstream"
)

// program is the processor, built for this run of the tests.
var program string

func TestMain(m *testing.M) { os.Exit(withProgram(m)) }

func withProgram(m *testing.M) int {
	dir, err := os.MkdirTemp("", "runledger-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if program, err = testenv.BuildProcessor(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// world is the servers of one test, with the streams made.
type world struct {
	nats  *testenv.NATSProcess
	redis *testenv.Redis
	js    jetstream.JetStream
	dir   string
	rules string // policy file
}

func newWorld(t *testing.T, policy []byte) *world {
	t.Helper()
	w := &world{nats: testenv.StartNATSProcess(t), redis: testenv.StartRedis(t), dir: t.TempDir()}
	w.rules = filepath.Join(w.dir, "policy.yaml")
	if err := os.WriteFile(w.rules, policy, 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(t, "streams", "apply", "--nats-url", w.nats.URL, "--policy", w.rules)
	w.run(t, "streams", "check", "--nats-url", w.nats.URL, "--policy", w.rules)
	js, err := jetstream.New(w.nats.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	w.js = js
	return w
}

// run runs a command of the processor to its end, which must be good.
func (w *world) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("processor %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// serve starts "processor serve" under a name; see start.
func (w *world) serve(t *testing.T, name string, extra ...string) *testenv.Processor {
	t.Helper()
	p, err := w.start(t, name, extra...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start starts "processor serve" under a name; it may be called by any
// goroutine. It is ended with the test.
func (w *world) start(t *testing.T, name string, extra ...string) (*testenv.Processor, error) {
	return testenv.StartProcessor(t, testenv.ProcessorConfig{
		Program: program, Name: name, NATS: w.nats.URL, Redis: w.redis.Addr, Policy: w.rules, Dir: w.dir, Args: extra,
	})
}

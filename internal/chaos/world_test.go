//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runledger/internal/policy"
	"runledger/internal/testenv"
)

// partitions is how many the streams are made with.
const partitions = 16

// servers says what a world stands on. The zero value of a field is the
// ordinary server of its kind.
type servers struct {
	nats      *testenv.NATSProcess
	cluster   *testenv.NATSCluster
	redis     []*testenv.Redis // all that keys may lie on
	natsAt    string           // where processors reach NATS, if not directly
	redisAt   string           // where processors reach Redis, if not directly
	policy    []byte
	processes int // processors that serve from the start; 0 is 2
}

// world is the servers of one test, with the streams made and processors that
// serve.
type world struct {
	servers
	t          *testing.T
	js         jetstream.JetStream
	conn       *nats.Conn
	dir, rules string
	processors []*testenv.Processor // those that should run
	load       *load                // what is played while something is broken
	spans      []span
	rest       time.Duration // between two rounds of the load
	runTime    time.Duration // from a run's start to its deadline; 0 is 20 min
}

func newWorld(t *testing.T, s servers) *world {
	t.Helper()
	w := &world{servers: s.withDefaults(t), t: t, dir: t.TempDir()}
	w.rules = filepath.Join(w.dir, "policy.yaml")
	if err := os.WriteFile(w.rules, w.policy, 0o600); err != nil {
		t.Fatal(err)
	}
	apply := []string{"streams", "apply", "--nats-url", w.natsURLs(), "--policy", w.rules}
	if w.cluster != nil {
		apply = append(apply, "--subjects-replicas", "3")
		w.conn = w.cluster.Conn(t)
	} else {
		w.conn = w.nats.Conn(t)
	}
	within(t, time.Minute, "the streams are made", func() error { // a young cluster refuses them
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, apply...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	var err error
	if w.js, err = jetstream.New(w.conn); err != nil {
		t.Fatal(err)
	}
	if w.cluster != nil {
		w.awaitCluster() // a processor that finds a stream without leader at its start gives up
	}
	for range w.processes {
		w.processors = append(w.processors, w.serve(fmt.Sprintf("p%d", len(w.processors)+1)))
	}
	w.awaitShares()
	return w
}

func (s servers) withDefaults(t *testing.T) servers {
	t.Helper()
	if s.nats == nil && s.cluster == nil {
		s.nats = testenv.StartNATSProcess(t, testenv.NATSConfig{SyncAlways: true, Monitored: true})
	}
	if s.redis == nil {
		s.redis = []*testenv.Redis{testenv.StartRedis(t, testenv.RedisConfig{AppendOnly: true})}
	}
	if s.natsAt == "" {
		s.natsAt = s.natsURLs()
	}
	if s.redisAt == "" {
		s.redisAt = s.redis[0].Addr
	}
	if s.policy == nil {
		s.policy = patient()
	}
	if s.processes == 0 {
		s.processes = 2
	}
	return s
}

// patient is the policy of the recorded runs, under which no call times out
// because a server was away: what the load comes to must not depend on how long
// a fault lasts.
func patient() []byte {
	rules := bytes.ReplaceAll(policy.Airline(), []byte("timeout: 10s"), []byte("timeout: 5m"))
	return bytes.ReplaceAll(rules, []byte("timeout: 30s"), []byte("timeout: 5m"))
}

// natsURLs is where NATS is reached directly.
func (s servers) natsURLs() string {
	if s.cluster != nil {
		return s.cluster.URLs()
	}
	return s.nats.URL
}

// serve starts a processor; a failure fails the test and gives nil. It may be
// called from any goroutine.
func (w *world) serve(name string) *testenv.Processor {
	address := testenv.FreeAddress(w.t)
	p, err := testenv.StartProcessor(w.t, testenv.ProcessorConfig{
		Program: program, Name: name, NATS: w.natsAt, Redis: w.redisAt, Policy: w.rules, Dir: w.dir, Listen: address,
	})
	if err != nil {
		w.t.Errorf("start %s: %v", name, err)
		w.t.FailNow()
	}
	return p
}

// kill kills processors, by index.
func (w *world) kill(indexes ...int) {
	w.t.Helper()
	for _, i := range indexes {
		if err := w.processors[i].Kill(); err != nil {
			w.t.Errorf("kill %s: %v", w.processors[i].Name, err)
		}
	}
}

// again starts processors again, under their names.
func (w *world) again(indexes ...int) {
	w.t.Helper()
	for _, i := range indexes {
		w.processors[i] = w.serve(w.processors[i].Name)
	}
}

// pause stops processors where they stand, and resume lets them go on.
func (w *world) pause(indexes ...int) {
	w.t.Helper()
	for _, i := range indexes {
		if err := w.processors[i].Pause(); err != nil {
			w.t.Errorf("pause %s: %v", w.processors[i].Name, err)
		}
	}
}

func (w *world) resume(indexes ...int) {
	w.t.Helper()
	for _, i := range indexes {
		if err := w.processors[i].Resume(); err != nil {
			w.t.Errorf("resume %s: %v", w.processors[i].Name, err)
		}
	}
}

// owned is how many partitions each processor serves, -1 where it does not say.
func (w *world) owned() []int {
	counts := make([]int, len(w.processors))
	for i, p := range w.processors {
		metrics, err := w.metricsOf(p)
		if err != nil {
			counts[i] = -1
			continue
		}
		counts[i] = int(metrics["runledger_partitions_owned"])
	}
	return counts
}

func (w *world) metricsOf(p *testenv.Processor) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	return p.Metrics(ctx)
}

// awaitShares waits until every processor serves its share of the partitions.
func (w *world) awaitShares() time.Duration {
	w.t.Helper()
	return within(w.t, time.Minute, "every processor has its share", func() error { return fair(w.owned()) })
}

// fair wants all partitions to be served, and nobody to have two more than
// another.
func fair(owned []int) error {
	sum := 0
	for _, n := range owned {
		sum += n
		if n < partitions/len(owned) {
			return fmt.Errorf("partitions are owned as %v, want at least %d each", owned, partitions/len(owned))
		}
	}
	if sum != partitions {
		return fmt.Errorf("partitions are owned as %v, want %d in all", owned, partitions)
	}
	return nil
}

// pass lets time pass, as part of a fault.
func (w *world) pass(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.t.Context().Done():
	}
}

// within waits until try succeeds, and gives how long that took.
func within(t *testing.T, limit time.Duration, what string, try func() error) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		err := try()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%s: the test has ended", what)
		}
	}
}

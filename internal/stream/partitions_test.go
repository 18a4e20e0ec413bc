package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"runledger/internal/testenv"
)

// process is one process that shares partitions, with a connection of its own.
type process struct {
	t    testing.TB
	name string
	nc   *nats.Conn
	stop context.CancelFunc
	done chan struct{}
	err  error

	partitions *Partitions

	mu    sync.Mutex
	works map[int]*Lease
}

const testTTL = 900 * time.Millisecond

func startProcess(t testing.TB, server *testenv.NATS, name string) *process {
	t.Helper()
	p := &process{t: t, name: name, nc: connect(t, server.URL), done: make(chan struct{}), works: map[int]*Lease{}}
	partitions, err := NewPartitions(jetStream(t, p.nc), PartitionsConfig{
		Process: name, Count: 16, LeaseTTL: testTTL, Heartbeat: testTTL / 3,
		Log: zerolog.New(zerolog.NewTestWriter(t)).With().Str("process", name).Logger().Level(zerolog.WarnLevel),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.partitions = partitions
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() {
		defer close(p.done)
		p.err = partitions.Run(ctx, p.work)
	}()
	t.Cleanup(p.end)
	return p
}

func (p *process) work(ctx context.Context, lease *Lease) {
	p.mu.Lock()
	p.works[lease.Partition()] = lease
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	delete(p.works, lease.Partition())
	p.mu.Unlock()
}

func (p *process) end() {
	p.stop()
	<-p.done
}

// die is as close to SIGKILL as a goroutine comes: nothing reaches the server
// any more.
func (p *process) die() {
	p.nc.Close()
}

func (p *process) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.works)
}

func (p *process) lease(partition int) *Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.works[partition]
}

func counts(processes ...*process) string {
	var all []string
	for _, p := range processes {
		all = append(all, fmt.Sprint(p.count()))
	}
	return strings.Join(all, " ")
}

func settle(t testing.TB, limit time.Duration, want string, processes ...*process) time.Duration {
	t.Helper()
	start := time.Now()
	eventually(t, limit, "partitions "+want, func() bool { return counts(processes...) == want })
	return time.Since(start)
}

func sharedServer(t testing.TB) *testenv.NATS {
	t.Helper()
	server, _, _ := withTopology(t, DefaultOptions())
	return server
}

func TestProcessIsDeafWhileTheServerIsAway(t *testing.T) {
	server := sharedServer(t)
	a := startProcess(t, server, "a")
	settle(t, 10*time.Second, "16", a)
	if a.partitions.Deaf() {
		t.Error("deaf while everything is well")
	}
	server.Stop()
	eventually(t, 10*time.Second, "deaf", a.partitions.Deaf)
	server.Restart()
	settle(t, 10*time.Second, "16", a)
	if a.partitions.Deaf() {
		t.Error("deaf after the server has come back")
	}
}

func TestPartitionsSpreadEvenlyAndMoveOnWhenAProcessComesOrStops(t *testing.T) {
	server := sharedServer(t)
	a := startProcess(t, server, "a")
	settle(t, 5*time.Second, "16", a)
	b := startProcess(t, server, "b")
	t.Logf("second process has its share after %v", settle(t, 10*time.Second, "8 8", a, b))
	c := startProcess(t, server, "c")
	settle(t, 10*time.Second, "6 5 5", a, b, c)
	start := time.Now()
	a.end()
	if a.err != nil {
		t.Errorf("Run of the stopped process: got %v, want nil", a.err)
	}
	settle(t, 5*time.Second, "8 8", b, c)
	t.Logf("taken over %v after the stop", time.Since(start))
	if took := time.Since(start); took >= testTTL {
		t.Errorf("taken over %v after the stop, want at once, not by expiry", took)
	}
}

func TestPartitionsOfADeadProcessAreTakenOverWithTheirPositions(t *testing.T) {
	server := sharedServer(t)
	a := startProcess(t, server, "a")
	settle(t, 5*time.Second, "16", a)
	b := startProcess(t, server, "b")
	settle(t, 10*time.Second, "8 8", a, b)
	for p := range 16 {
		if lease := a.lease(p); lease != nil {
			if err := lease.Move(testContext(t), uint64(100+p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var of []int
	for p := range 16 {
		if a.lease(p) != nil {
			of = append(of, p)
		}
	}
	start := time.Now()
	a.die()
	settle(t, 10*time.Second, "16", b)
	took := time.Since(start)
	t.Logf("taken over %v after the death, TTL %v", took, testTTL)
	if took < testTTL/2 || took > testTTL+time.Second {
		t.Errorf("taken over after %v, want about the TTL of %v", took, testTTL)
	}
	for _, p := range of {
		if got := b.lease(p).Position(); got != uint64(100+p) {
			t.Errorf("partition %d taken over at position %d, want %d", p, got, 100+p)
		}
	}
	<-a.done
	if !errors.Is(a.err, nats.ErrConnectionClosed) || a.count() != 0 {
		t.Errorf("Run without connection: got %v with %d works left, want nats.ErrConnectionClosed and none", a.err, a.count())
	}
}

func TestProcessThatIsStartedAgainUnderItsNameGoesOnAtOnce(t *testing.T) {
	server := sharedServer(t)
	first := startProcess(t, server, "a")
	settle(t, 5*time.Second, "16", first)
	first.die()
	start := time.Now()
	second := startProcess(t, server, "a")
	settle(t, 5*time.Second, "16", second)
	if took := time.Since(start); took >= testTTL {
		t.Errorf("goes on after %v, want it without waiting for the TTL of %v", took, testTTL)
	}
}

func TestSecondProcessOfANameStopsTheFirst(t *testing.T) {
	server := sharedServer(t)
	first := startProcess(t, server, "a")
	settle(t, 5*time.Second, "16", first)
	second := startProcess(t, server, "a")
	select {
	case <-first.done:
	case <-time.After(10 * time.Second):
		t.Fatal("the first process still runs after 10 s")
	}
	if !errors.Is(first.err, ErrSuperseded) {
		t.Errorf("first: got %v, want ErrSuperseded", first.err)
	}
	settle(t, 5*time.Second, "16", second)
}

func TestPartitionsSurviveARestartOfTheServer(t *testing.T) {
	server := sharedServer(t)
	a, b := startProcess(t, server, "a"), startProcess(t, server, "b")
	settle(t, 10*time.Second, "8 8", a, b)
	if err := a.lease(held(a)).Move(testContext(t), 5); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	settle(t, 10*time.Second, "0 0", a, b) // nobody goes on without a lease
	server.Restart()
	settle(t, 10*time.Second, "8 8", a, b)
}

func held(p *process) int {
	for i := range 16 {
		if p.lease(i) != nil {
			return i
		}
	}
	p.t.Fatalf("process %s holds nothing", p.name)
	return 0
}

func TestPositionNeverGoesBack(t *testing.T) {
	server := sharedServer(t)
	a := startProcess(t, server, "a")
	settle(t, 5*time.Second, "16", a)
	lease := a.lease(3)
	for _, step := range []struct {
		to   uint64
		want uint64
		ok   bool
	}{{10, 10, true}, {10, 10, true}, {9, 10, false}, {11, 11, true}} {
		err := lease.Move(testContext(t), step.to)
		if (err == nil) != step.ok || lease.Position() != step.want {
			t.Errorf("move to %d: got %v at %d, want ok %v at %d", step.to, err, lease.Position(), step.ok, step.want)
		}
	}
	a.end()
	b := startProcess(t, server, "b")
	settle(t, 5*time.Second, "16", b)
	if got := b.lease(3).Position(); got != 11 {
		t.Errorf("the next owner begins at %d, want 11", got)
	}
}

func TestLeaseThatAnotherHasTakenIsLostAtOnce(t *testing.T) {
	server := sharedServer(t)
	a := startProcess(t, server, "a")
	settle(t, 5*time.Second, "16", a)
	lease := a.lease(3)
	nc := connect(t, server.URL)
	kv, err := jetStream(t, nc).KeyValue(testContext(t), BucketPartitions)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(testContext(t), "lease.3", `{"owner":"z","generation":9,"position":40}`); err != nil {
		t.Fatal(err)
	}
	if err := lease.Move(testContext(t), 50); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("move: got %v, want ErrLeaseLost", err)
	}
	eventually(t, 5*time.Second, "its work has ended", func() bool { return a.lease(3) != lease })
	// z does not renew; a takes the partition over, from where z was.
	eventually(t, 5*time.Second, "partition 3 is a's again", func() bool { return a.lease(3) != nil })
	if got := a.lease(3).Position(); got != 40 {
		t.Errorf("taken over at %d, want 40", got)
	}
}

func TestMoveWhoseAnswerWasLostIsFoundOut(t *testing.T) {
	server := sharedServer(t)
	a := startProcess(t, server, "a")
	settle(t, 5*time.Second, "16", a)
	lease := a.lease(3)
	// A write of the lease's own that the lease does not know to have landed.
	nc := connect(t, server.URL)
	data := mustJSON(t, leaseRecord{Owner: "a", Generation: lease.record.Generation, Position: 7})
	if _, err := wait(t, testPublisher(t, nc, PublisherConfig{}).Publish(&nats.Msg{Subject: leaseSubject(3), Data: data}, ExpectNone())); err != nil {
		t.Fatal(err)
	}
	if err := lease.Move(testContext(t), 8); err != nil || lease.Position() != 8 {
		t.Errorf("got %v at %d, want 8", err, lease.Position())
	}
	if a.lease(3) != lease {
		t.Error("the lease was given up")
	}
}

func TestWorkThatReturnsByItselfIsStartedAgain(t *testing.T) {
	server := sharedServer(t)
	nc := connect(t, server.URL)
	partitions, err := NewPartitions(jetStream(t, nc), PartitionsConfig{Process: "a", Count: 1, LeaseTTL: 300 * time.Millisecond, Heartbeat: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var starts []time.Time
	if err := partitions.Run(ctx, func(_ context.Context, lease *Lease) {
		starts = append(starts, time.Now())
		if err := lease.Move(ctx, uint64(len(starts))); err != nil {
			t.Errorf("move: %v", err)
		}
		if len(starts) == 3 {
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(starts); i++ {
		if gap := starts[i].Sub(starts[i-1]); gap < 50*time.Millisecond {
			t.Errorf("started again after %v, want a heartbeat between", gap)
		}
	}
}

func TestIdlePartitionsCostLittleTraffic(t *testing.T) {
	server := sharedServer(t)
	a, b := startProcess(t, server, "a"), startProcess(t, server, "b")
	settle(t, 10*time.Second, "8 8", a, b)
	js := jetStream(t, connect(t, server.URL))
	written := func() uint64 {
		s, err := js.Stream(testContext(t), "KV_"+BucketPartitions)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.LastSeq
	}
	before, start := written(), time.Now()
	time.Sleep(4 * testTTL / 3)
	heartbeats := float64(time.Since(start)) / float64(testTTL/3)
	perHeartbeat := float64(written()-before) / heartbeats
	t.Logf("%.1f messages a heartbeat", perHeartbeat)
	// 16 leases and 2 members, each once a heartbeat.
	if perHeartbeat < 9 || perHeartbeat > 22 {
		t.Errorf("%.1f messages a heartbeat, want 18 at most or little more", perHeartbeat)
	}
}

// BenchmarkMove is one compare-and-set of a position, waited for.
func BenchmarkMove(b *testing.B) {
	server := sharedServer(b)
	a := startProcess(b, server, "a")
	settle(b, 5*time.Second, "16", a)
	lease := a.lease(3)
	b.ResetTimer()
	for position := range uint64(b.N) {
		if err := lease.Move(context.Background(), position); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPartitionsConfigNamesTheWrongField(t *testing.T) {
	good := PartitionsConfig{Process: "a", Count: 16}
	for want, change := range map[string]func(*PartitionsConfig){
		`Process: got "a.b"`:  func(c *PartitionsConfig) { c.Process = "a.b" },
		`Count: got 0`:        func(c *PartitionsConfig) { c.Count = 0 },
		`LeaseTTL: got 1ms`:   func(c *PartitionsConfig) { c.LeaseTTL = time.Millisecond },
		`Heartbeat: got 1.5s`: func(c *PartitionsConfig) { c.Heartbeat = 1500 * time.Millisecond },
	} {
		cfg := good
		change(&cfg)
		if _, err := NewPartitions(offlineJetStream(t), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func offlineJetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	return jetStream(t, &nats.Conn{})
}

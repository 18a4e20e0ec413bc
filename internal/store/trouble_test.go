package store_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runledger/internal/store"
	"runledger/internal/testenv"

	"github.com/redis/go-redis/v9"
)

// wantUnavailable expects what a caller waits for, and no verdict on the run.
func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBehind) {
		t.Errorf("got %v, want that the store is unavailable", err)
	}
}

// wantAllUnavailable tries everything.
func wantAllUnavailable(t *testing.T, s *store.Store) {
	t.Helper()
	at := base()
	for _, err := range s.Project(t.Context(), []store.Projection{whole("r", 3, at), whole("other", 1, at)}) {
		wantUnavailable(t, err)
	}
	_, errs := s.LoadRuns(t.Context(), []string{"r", "other"})
	wantUnavailable(t, errs[0])
	wantUnavailable(t, errs[1])
	for _, ref := range []store.Ref{{RunID: "r", ToolCallID: "a"}, {RunID: "r", OperationID: "op/1"}} {
		_, err := s.Load(t.Context(), []store.Ref{ref})
		wantUnavailable(t, err)
	}
	_, err := s.Completed(t.Context(), "r")
	wantUnavailable(t, err)
	_, err = s.Record(t.Context(), "r", "a")
	wantUnavailable(t, err)
	wantUnavailable(t, s.Ping(t.Context()))
	wantUnavailable(t, s.Check(t.Context()))
}

func impatient(t *testing.T, addr string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Config{
		Addrs: []string{addr}, DialTimeout: 200 * time.Millisecond,
		ReadTimeout: 200 * time.Millisecond, WriteTimeout: 200 * time.Millisecond,
	})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestAServerThatIsGoneIsUnavailableAndServesAgainAfterARestart(t *testing.T) {
	server := testenv.StartRedis(t, testenv.RedisConfig{AppendOnly: true, Fsync: "always"})
	s := impatient(t, server.Addr)
	at := base()
	must(t, project(t, s, whole("r", 2, at)))
	server.Kill()
	wantAllUnavailable(t, s)
	server.Restart() // with an empty script cache
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if err = project(t, s, step("r", 3, at)); !errors.Is(err, store.ErrUnavailable) {
			break
		}
	}
	must(t, err)
	got, err := s.Completed(t.Context(), "r")
	if err != nil || len(got) != 1 {
		t.Errorf("completed calls are %v, %v, want one", got, err)
	}
}

func TestAServerThatDoesNotAnswerIsUnavailableInTime(t *testing.T) {
	server := testenv.StartRedis(t)
	s := impatient(t, server.Addr)
	must(t, s.Ping(t.Context()))
	server.Pause()
	begin := time.Now()
	wantUnavailable(t, project(t, s, whole("r", 3, base())))
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %v, want at most the timeouts of 200 ms each", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, errs := s.LoadRuns(ctx, []string{"r"})
	wantUnavailable(t, errs[0])
	if !errors.Is(errs[0], context.DeadlineExceeded) && !isTimeout(errs[0]) {
		t.Errorf("got %v, want a timeout within", errs[0])
	}
	server.Resume()
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func TestACancelledContextIsUnavailable(t *testing.T) {
	s := open(t, testenv.StartMiniredis(t).Addr())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Project(ctx, []store.Projection{whole("r", 1, base())})[0]
	wantUnavailable(t, err)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it tells the cancellation", err)
	}
}

func TestAnEmptyScriptCacheIsFilledOnTheWay(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		at := base()
		for fact := uint64(1); fact <= 3; fact++ {
			must(t, raw.ScriptFlush(t.Context()).Err())
			must(t, project(t, s, step("r", fact, at)))
		}
	})
}

func TestAFullMemoryIsUnavailableAndNothingIsWrittenByHalf(t *testing.T) {
	server := testenv.StartRedis(t)
	s, raw := open(t, server.Addr), client(t, server.Addr)
	at := base()
	must(t, project(t, s, whole("r", 2, at)))
	must(t, raw.ConfigSet(t.Context(), "maxmemory", "1").Err())
	before := raw.HGetAll(t.Context(), "runledger.run:{r}").Val()
	for _, p := range []store.Projection{step("r", 3, at), whole("r", 3, at), whole("r", 2, at), whole("new", 3, at)} {
		err := project(t, s, p)
		wantUnavailable(t, err)
		if !strings.Contains(err.Error(), "OOM") {
			t.Errorf("got %v, want that it tells of the memory", err)
		}
	}
	if after := raw.HGetAll(t.Context(), "runledger.run:{r}").Val(); len(after) != len(before) || after["sequence"] != "2" {
		t.Errorf("the run was changed: %v", after)
	}
	if n := raw.Exists(t.Context(), "runledger.run:{new}", "runledger:{new}:a", "runledger.done:{new}").Val(); n != 0 {
		t.Errorf("%d keys of the new run were written", n)
	}
	must(t, raw.ConfigSet(t.Context(), "maxmemory", "0").Err())
	must(t, project(t, s, step("r", 3, at)))
}

func TestAReplicaIsUnavailableForWrites(t *testing.T) {
	server := testenv.StartRedis(t)
	s, raw := open(t, server.Addr), client(t, server.Addr)
	at := base()
	must(t, project(t, s, whole("r", 2, at)))
	must(t, raw.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	wantUnavailable(t, project(t, s, step("r", 3, at)))
	must(t, raw.ReplicaOf(t.Context(), "NO", "ONE").Err())
	must(t, project(t, s, step("r", 3, at)))
}

// deaf breaks a connection instead of reading, once a script has been sent on it.
type deaf struct {
	net.Conn
	sent  atomic.Bool
	count *atomic.Int64 // scripts sent on all connections
}

func (c *deaf) Write(b []byte) (int, error) {
	if n := bytes.Count(bytes.ToUpper(b), []byte("EVALSHA")); n > 0 {
		c.count.Add(int64(n))
		defer c.sent.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *deaf) Read(b []byte) (int, error) {
	if c.sent.Load() {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Read(b)
}

func TestAScriptWithoutAnAnswerIsSentOnceByEveryKindOfClient(t *testing.T) {
	for kind, addr := range map[string]string{
		"single":  testenv.StartRedis(t).Addr,
		"cluster": startCluster(t),
	} {
		t.Run(kind, func(t *testing.T) {
			var sent atomic.Int64
			options := store.Config{Addrs: []string{addr}, Cluster: kind == "cluster"}.Options()
			options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &deaf{Conn: conn, count: &sent}, nil
			}
			s, err := store.New(redis.NewUniversalClient(options), "runledger", false)
			must(t, err)
			t.Cleanup(func() { _ = s.Close() })
			wantUnavailable(t, project(t, s, whole("r", 1, base())))
			if got := sent.Load(); got != 1 {
				t.Errorf("the script was sent %d times, want once", got)
			}
		})
	}
}

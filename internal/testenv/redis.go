package testenv

import (
	"testing"

	"github.com/alicebob/miniredis/v2"

	"runledger/internal/devserver"
)

// RedisConfig says how a redis-server for a test runs. The zero value keeps
// everything in memory; eviction is always off.
type RedisConfig struct {
	AppendOnly bool   // keep an append-only file, so that data outlives Kill and Restart
	Fsync      string // appendfsync: "always", "everysec" or "no"; "" is "everysec"

	Args []string // further settings as on redis-server's command line, such as "--maxmemory", "32mb"
}

// Redis is a redis-server process.
type Redis struct {
	Addr string // host:port; the same over restarts

	t      testing.TB
	dir    string // of its files
	server *devserver.RedisProcess
}

// StartRedis starts a redis-server that ends with the test, on data of its
// own. It takes at most one RedisConfig. Without redis-server in PATH the test
// fails.
func StartRedis(t testing.TB, config ...RedisConfig) *Redis {
	t.Helper()
	cfg := only(t, config)
	dir := t.TempDir()
	server, err := devserver.StartRedisProcess(t.Context(), devserver.RedisConfig{
		Dir: dir, AppendOnly: cfg.AppendOnly, Fsync: cfg.Fsync, Args: cfg.Args,
	})
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	r := &Redis{Addr: server.Addr(), t: t, dir: dir, server: server}
	t.Cleanup(func() { endProcess(t, "redis-server", server.Process(), server.Stop) })
	return r
}

// Kind says what runs: "redis-server 7.0.15".
func (r *Redis) Kind() string { return r.server.Kind() }

// PID is the process id, for signals and measurements.
func (r *Redis) PID() int { return r.server.Process().PID() }

// Kill ends the server with SIGKILL and returns when it is gone.
func (r *Redis) Kill() {
	r.t.Helper()
	check(r.t, "kill redis-server", r.server.Process().Kill())
}

// Pause stops the server where it stands (SIGSTOP) until Resume.
func (r *Redis) Pause() {
	r.t.Helper()
	check(r.t, "pause redis-server", r.server.Process().Pause())
}

// Resume lets a paused server go on (SIGCONT).
func (r *Redis) Resume() {
	r.t.Helper()
	check(r.t, "resume redis-server", r.server.Process().Resume())
}

// Restart starts the server again on the same port and files; if it still
// runs, it is stopped in order before.
func (r *Redis) Restart() {
	r.t.Helper()
	check(r.t, "restart redis-server", r.server.Restart(r.t.Context()))
}

// StartMiniredis starts a miniredis that ends with the test. It ages keys only
// by FastForward, unless the test asks it for ClockTTL.
func StartMiniredis(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatalf("testenv: start miniredis: %v", err)
	}
	t.Cleanup(m.Close)
	return m
}

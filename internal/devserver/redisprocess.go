package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// redisProgram is looked up in PATH.
	redisProgram = "redis-server"
	// redisStartTimeout bounds the start; loading a large file takes seconds.
	redisStartTimeout = 30 * time.Second
	// redisStopGrace is what a redis-server gets to write its files.
	redisStopGrace = 10 * time.Second
)

// ErrNoRedisServer says that this machine has no redis-server in PATH.
var ErrNoRedisServer = errors.New("no redis-server in PATH; install it with `apt-get install redis-server`, `dnf install redis` or `brew install redis`")

// RedisConfig says how a redis-server runs. miniredis, which keeps everything
// in memory, takes Host and Port only.
type RedisConfig struct {
	Dir        string // folder of its files and its log; the same folder again brings the data back where AppendOnly is set
	Host       string // IP address to listen on; "" is 127.0.0.1
	Port       int    // TCP port; 0 is any free one
	AppendOnly bool   // keep an append-only file, so that data outlives a kill
	Fsync      string // appendfsync: "always", "everysec" or "no"; "" is "everysec"

	Args []string // further settings as on redis-server's command line, such as "--maxmemory", "32mb"; they win
}

// Validate names the first field that cannot be used.
func (c RedisConfig) Validate() error {
	if c.Dir == "" {
		return errors.New(`redis: Dir is "", want a folder for its files`)
	}
	if !slices.Contains([]string{"", "always", "everysec", "no"}, c.Fsync) {
		return fmt.Errorf(`redis: Fsync is %q, want "always", "everysec" or "no"`, c.Fsync)
	}
	return validateListen("redis", c.host(), c.Port)
}

func (c RedisConfig) host() string {
	if c.Host == "" {
		return loopback
	}
	return c.Host
}

// args is the command line. noeviction and no snapshots: a store that forgets
// what it accepted, or brings back what is minutes old, is not what we build on.
func (c RedisConfig) args(port int) []string {
	appendonly, fsync := "no", "everysec"
	if c.AppendOnly {
		appendonly = "yes"
	}
	if c.Fsync != "" {
		fsync = c.Fsync
	}
	return append([]string{
		"--bind", c.host(), "--port", strconv.Itoa(port), "--dir", c.Dir,
		"--maxmemory-policy", "noeviction", "--save", "",
		"--appendonly", appendonly, "--appendfsync", fsync,
	}, c.Args...)
}

// RedisProcess is a redis-server of our own. One goroutine at a time may use
// it; the address stays the same over restarts.
type RedisProcess struct {
	cfg     RedisConfig
	path    string
	port    int
	version string
	process *Process
}

// StartRedisProcess starts a redis-server and returns when it answers
// commands. ctx bounds the start only. It returns ErrNoRedisServer where the
// machine has none.
func StartRedisProcess(ctx context.Context, cfg RedisConfig) (*RedisProcess, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	path, err := exec.LookPath(redisProgram)
	if err != nil {
		return nil, ErrNoRedisServer
	}
	r := &RedisProcess{cfg: cfg, path: path}
	err = withPort(cfg.host(), cfg.Port, func(port int) error {
		r.port = port
		return r.start(ctx)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Addr is host:port.
func (r *RedisProcess) Addr() string {
	return net.JoinHostPort(r.cfg.host(), strconv.Itoa(r.port))
}

// Kind says what runs, for people: "redis-server 7.0.15".
func (r *RedisProcess) Kind() string { return redisProgram + " " + r.version }

// Process is the process that runs now, or ran last.
func (r *RedisProcess) Process() *Process { return r.process }

// Restart starts the server again on the same port and folder; if it still
// runs, it is stopped in order before. ctx bounds the start only.
func (r *RedisProcess) Restart(ctx context.Context) error {
	if err := r.Stop(); err != nil {
		return err
	}
	return r.start(ctx)
}

// Stop ends the server in order and returns when it is gone.
func (r *RedisProcess) Stop() error { return r.process.Stop(redisStopGrace) }

func (r *RedisProcess) start(ctx context.Context) error {
	process, err := StartProcess(ProcessConfig{
		Path: r.path,
		Args: r.cfg.args(r.port),
		Log:  filepath.Join(r.cfg.Dir, "redis-server.log"),
	})
	if err != nil {
		return err
	}
	r.process = process
	if err := r.waitReady(ctx); err != nil {
		_ = process.Kill() // it is of no use, and the reason is in err
		return fmt.Errorf("redis-server on %s: %w", r.Addr(), err)
	}
	return nil
}

func (r *RedisProcess) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redisStartTimeout)
	defer cancel()
	client := AdminClient(r.Addr())
	defer client.Close()

	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	last := errors.New("not asked yet")
	for {
		select {
		case <-r.process.Done():
			return r.ended()
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v, the last: %w; its last lines:\n%s", redisStartTimeout, last, r.process.LogTail(20))
		case <-poll.C:
		}
		info, err := client.Info(ctx).Result()
		if err == nil {
			err = r.accept(info)
		}
		if err == nil {
			return nil
		}
		last = err
	}
}

// accept checks that the answer is from our process (somebody else could have
// taken the port in between) and that all its data is loaded.
func (r *RedisProcess) accept(info string) error {
	if pid := infoField(info, "process_id"); pid != strconv.Itoa(r.process.PID()) {
		return fmt.Errorf("the answer came from process %q, want %d", pid, r.process.PID())
	}
	if infoField(info, "loading") != "0" {
		return errors.New("it is still loading its data")
	}
	r.version = infoField(info, "redis_version")
	return nil
}

func (r *RedisProcess) ended() error {
	lines := r.process.LogTail(20)
	if strings.Contains(lines, "Address already in use") {
		return fmt.Errorf("%w; choose another port or end the program that has it", ErrPortTaken)
	}
	return fmt.Errorf("it ended at its start (%w); its last lines:\n%s", r.process.Err(), lines)
}

// infoField finds one value in an answer to INFO.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// AdminClient speaks to one server over one connection; nothing is retried.
func AdminClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                     addr,
		Protocol:                 2,
		MaxRetries:               -1,
		PoolSize:                 1,
		DisableIdentity:          true,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

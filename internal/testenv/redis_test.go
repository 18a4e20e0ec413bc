package testenv

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// wantGone fails unless the process with that id has ended and was waited for.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("process %d: got %v, want that it has ended", pid, err)
	}
}

func redisClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                     addr,
		MaxRetries:               -1,
		ReadTimeout:              200 * time.Millisecond,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func set(t *testing.T, client *redis.Client) {
	t.Helper()
	if err := client.Set(t.Context(), "key", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestRedisWithAppendOnlyFileKeepsAKeyOverAKill(t *testing.T) {
	r := StartRedis(t, RedisConfig{AppendOnly: true, Fsync: "always"})
	set(t, redisClient(t, r.Addr))
	before := r.PID()
	r.Kill()
	wantGone(t, before)
	r.Restart()
	got, err := redisClient(t, r.Addr).Get(t.Context(), "key").Result()
	if err != nil || got != "kept" {
		t.Fatalf("key is %q, %v after the restart, want \"kept\"", got, err)
	}
}

func TestRedisWithoutAppendOnlyFileForgetsOverAKill(t *testing.T) {
	r := StartRedis(t)
	set(t, redisClient(t, r.Addr))
	r.Kill()
	r.Restart()
	if err := redisClient(t, r.Addr).Get(t.Context(), "key").Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("key after the restart: got %v, want redis.Nil", err)
	}
}

func TestRedisAnswersNobodyWhilePausedAndGoesOnAfterwards(t *testing.T) {
	r := StartRedis(t)
	client := redisClient(t, r.Addr)
	r.Pause()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("the server answered while paused")
	}
	r.Resume()
	if err := redisClient(t, r.Addr).Ping(t.Context()).Err(); err != nil {
		t.Fatalf("the server does not answer after Resume: %v", err)
	}
}

func TestRedisRefusesToEvictAndTakesFurtherSettings(t *testing.T) {
	r := StartRedis(t, RedisConfig{Args: []string{"--maxmemory", "32mb"}})
	client := redisClient(t, r.Addr)
	for setting, want := range map[string]string{"maxmemory-policy": "noeviction", "maxmemory": "33554432", "save": ""} {
		got, err := client.ConfigGet(t.Context(), setting).Result()
		if err != nil || got[setting] != want {
			t.Errorf("%s is %q, %v, want %q", setting, got[setting], err, want)
		}
	}
}

func TestRedisThatIsLeftPausedEndsWithItsTest(t *testing.T) {
	var pid int
	t.Run("paused", func(t *testing.T) {
		r := StartRedis(t)
		pid = r.PID()
		r.Pause()
	})
	wantGone(t, pid)
}

func TestMiniredisAnswers(t *testing.T) {
	m := StartMiniredis(t)
	client := redisClient(t, m.Addr())
	set(t, client)
	if got, err := m.Get("key"); err != nil || got != "kept" {
		t.Fatalf("key is %q, %v, want \"kept\"", got, err)
	}
}

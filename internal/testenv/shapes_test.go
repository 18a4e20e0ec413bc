package testenv

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

// echo answers each line with itself.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// say writes a text and reads what comes back within the time, at most as much.
func say(t *testing.T, conn net.Conn, text string, within time.Duration) (string, error) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	back := make([]byte, len(text))
	n, err := io.ReadFull(conn, back)
	return string(back[:n]), err
}

func TestProxyPassesOnWhatIsSaid(t *testing.T) {
	p := StartProxy(t, echo(t))
	if got, err := say(t, dial(t, p.Addr), "hello", 5*time.Second); got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestProxyThatIsCutEndsConnectionsAndTakesNoneUntilItIsHealed(t *testing.T) {
	p := StartProxy(t, echo(t))
	open := dial(t, p.Addr)
	if _, err := say(t, open, "x", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Set(Network{Cut: true})
	for _, conn := range []net.Conn{open, dial(t, p.Addr)} {
		if got, err := say(t, conn, "x", 5*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %q, %v, want a connection that is gone", got, err)
		}
	}
	p.Set(Network{})
	if got, err := say(t, dial(t, p.Addr), "again", 5*time.Second); got != "again" {
		t.Errorf("healed: got %q, %v", got, err)
	}
}

func TestProxyThatIsSilentKeepsWhatIsSaidUntilItIsHealed(t *testing.T) {
	p := StartProxy(t, echo(t))
	conn := dial(t, p.Addr)
	if _, err := say(t, conn, "x", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Set(Network{Silent: true})
	if got, err := say(t, conn, "kept", 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v, want silence", got, err)
	}
	p.Set(Network{})
	if got, err := say(t, conn, "more", 5*time.Second); got != "kept" {
		t.Errorf("healed: got %q, %v, want what was said before first", got, err)
	}
}

func TestProxyIsAsSlowAsItIsTold(t *testing.T) {
	p := StartProxy(t, echo(t))
	conn := dial(t, p.Addr)
	p.Set(Network{Delay: 100 * time.Millisecond, Rate: 1000}) // 100 bytes: 200 ms each way
	began := time.Now()
	if _, err := say(t, conn, strings.Repeat("x", 100), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("took %v, want at least 400ms", took)
	}
}

func TestProxyCutsARepliesInItsMiddle(t *testing.T) {
	p := StartProxy(t, echo(t))
	p.Set(Network{CutReplies: 3})
	if got, err := say(t, dial(t, p.Addr), "hello", 5*time.Second); got != "hel" || err == nil {
		t.Errorf("got %q, %v, want \"hel\" and the end", got, err)
	}
}

func TestProxyLeadsToAnotherServer(t *testing.T) {
	one, two := StartRedis(t), StartRedis(t)
	p := StartProxy(t, one.Addr)
	set(t, redisClient(t, p.Addr))
	p.Lead(two.Addr)
	if err := redisClient(t, p.Addr).Get(t.Context(), "key").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("got %v, want the other server, which has no such key", err)
	}
}

func TestSnapshotBringsBackWhatWasThenAndNothingLater(t *testing.T) {
	r := StartRedis(t)
	set(t, redisClient(t, r.Addr))
	then := r.TakeSnapshot()
	if err := redisClient(t, r.Addr).Set(t.Context(), "later", "lost", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r.RestoreSnapshot(then)
	client := redisClient(t, r.Addr)
	if got := client.Get(t.Context(), "key").Val(); got != "kept" {
		t.Errorf("key is %q, want \"kept\"", got)
	}
	if err := client.Get(t.Context(), "later").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("what came later: got %v, want redis.Nil", err)
	}
}

func TestReplicaThatIsDetachedHasWhatWasWrittenUntilThen(t *testing.T) {
	master, replica := StartRedis(t), StartRedis(t)
	set(t, redisClient(t, master.Addr))
	replica.Follow(master)
	replica.Detach()
	if err := redisClient(t, master.Addr).Set(t.Context(), "later", "lost", 0).Err(); err != nil {
		t.Fatal(err)
	}
	client := redisClient(t, replica.Addr)
	if got := client.Get(t.Context(), "key").Val(); got != "kept" {
		t.Errorf("key is %q, want \"kept\"", got)
	}
	if err := client.Get(t.Context(), "later").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("what came later: got %v, want redis.Nil", err)
	}
	if err := client.Set(t.Context(), "own", "x", 0).Err(); err != nil {
		t.Errorf("write to the promoted replica: %v", err)
	}
}

func TestRedisClusterGoesOnWithAReplicaWhenItsMasterIsKilled(t *testing.T) {
	c := StartRedisCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(c.Addrs(), ",")})
	t.Cleanup(func() { _ = client.Close() })
	write := func() error {
		for _, key := range []string{"foo", "bar", "hello"} { // slots 12182, 5061, 866: one for each master
			if err := client.Set(t.Context(), key, "x", 0).Err(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	c.Masters[1].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := poll(ctx, write); err != nil {
		t.Fatal(err)
	}
	c.Masters[1].Restart()
	c.AwaitWhole()
}

func TestNATSClusterHasAnotherLeaderWhenItsLeaderIsKilled(t *testing.T) {
	c := StartNATSCluster(t)
	js, err := jetstream.New(c.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := poll(ctx, func() error {
		// Until the nodes have a leader, nobody answers at all.
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	before, err := c.Leader(ctx, js, "S")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes[before].Kill()
	if err := poll(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "s", nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c.Nodes[before].Restart()
	if after, err := c.Leader(ctx, js, "S"); err != nil || after == before {
		t.Errorf("leader is %q, %v, want another than %q", after, err, before)
	}
}

func TestSmallDiskIsFullAndHasRoomAgain(t *testing.T) {
	d := SmallDisk(t, 4<<20)
	file := filepath.Join(d.Dir, "file")
	d.Fill()
	if err := os.WriteFile(file, make([]byte, 8192), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: got %v, want ENOSPC", err)
	}
	d.Free()
	if err := os.WriteFile(file, make([]byte, 8192), 0o600); err != nil {
		t.Errorf("free again: %v", err)
	}
}

package testenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// store puts one message into a new stream on file storage.
func store(t *testing.T, nc *nats.Conn, text string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// wantStored reads the last message back, over a connection that may still
// have to come back.
func wantStored(t *testing.T, nc *nats.Conn, text string) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		got, err := lastMessage(t.Context(), js)
		if err == nil {
			if got != text {
				t.Fatalf("stored message is %q, want %q", got, text)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("read the stored message back: %v", err)
		}
	}
}

func lastMessage(ctx context.Context, js jetstream.JetStream) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	stream, err := js.Stream(ctx, "S")
	if err != nil {
		return "", err
	}
	msg, err := stream.GetLastMsgForSubject(ctx, "s")
	if err != nil {
		return "", err
	}
	return string(msg.Data), nil
}

func TestEmbeddedNATSKeepsAStoredMessageOverARestartAtTheSameURL(t *testing.T) {
	n := StartNATS(t)
	nc := n.Conn(t)
	store(t, nc, "kept")
	n.Restart()
	wantStored(t, nc, "kept")
}

func TestEmbeddedNATSHasTheLimitThatItsConfigSets(t *testing.T) {
	n := StartNATS(t, NATSConfig{MaxPayload: 4096, SyncAlways: true})
	if got := n.Conn(t).MaxPayload(); got != 4096 {
		t.Fatalf("MaxPayload is %d, want 4096", got)
	}
}

func TestNATSProcessKeepsAStoredMessageOverAKill(t *testing.T) {
	n := StartNATSProcess(t, NATSConfig{SyncAlways: true})
	nc := n.Conn(t)
	store(t, nc, "kept")
	before := n.PID()
	n.Kill()
	if err := nc.FlushTimeout(time.Second); err == nil {
		t.Fatal("the server still answers after Kill")
	}
	n.Restart()
	if n.PID() == before {
		t.Fatalf("process id is still %d after Kill and Restart", before)
	}
	wantStored(t, nc, "kept")
}

func TestNATSProcessKeepsAStoredMessageOverAnOrderlyRestart(t *testing.T) {
	n := StartNATSProcess(t)
	nc := n.Conn(t)
	store(t, nc, "kept")
	n.Restart()
	wantStored(t, nc, "kept")
}

func TestNATSProcessAnswersNobodyWhilePausedAndGoesOnAfterwards(t *testing.T) {
	n := StartNATSProcess(t)
	nc := n.Conn(t)
	n.Pause()
	if err := nc.FlushTimeout(200 * time.Millisecond); err == nil {
		t.Fatal("the server answered while paused")
	}
	n.Resume()
	if err := nc.FlushTimeout(10 * time.Second); err != nil {
		t.Fatalf("the server does not answer after Resume: %v", err)
	}
}

func TestNATSProcessThatIsLeftPausedEndsWithItsTest(t *testing.T) {
	var pid int
	t.Run("paused", func(t *testing.T) {
		n := StartNATSProcess(t)
		pid = n.PID()
		n.Pause()
	})
	wantGone(t, pid)
}

func TestNATSProcessTakesAConfigurationFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(file, []byte("max_payload: 2048\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := StartNATSProcess(t, NATSConfig{ConfigFile: file})
	nc := n.Conn(t)
	if got := nc.MaxPayload(); got != 2048 {
		t.Fatalf("MaxPayload is %d, want 2048", got)
	}
	store(t, nc, "on file storage")
}

func TestServersThatRunAtOnceHavePortsOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		seen[StartNATS(t).URL] = true
		seen[StartNATSProcess(t).URL] = true
	}
	if len(seen) != 6 {
		t.Fatalf("6 servers have %d addresses: %v", len(seen), seen)
	}
}

func TestProgramThatManyAskForAtOnceIsBuiltOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "program")
	var builds atomic.Int32
	build := func(out string) error {
		builds.Add(1)
		return os.WriteFile(out, []byte("whole"), 0o600)
	}
	results := make([]error, 8)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i] = buildOnce(path, build) })
	}
	wg.Wait()
	for _, err := range results {
		if err != nil {
			t.Error(err)
		}
	}
	if got := builds.Load(); got != 1 {
		t.Errorf("built %d times, want once", got)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "whole" {
		t.Errorf("program is %q, %v, want \"whole\"", data, err)
	}
}

func TestProgramThatCannotBeBuiltLeavesNothingBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	broken := errors.New("broken")
	if err := buildOnce(path, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v, want the error of the build", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("program after a failed build: %v, want that it does not exist", err)
	}
}

package testenv

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"runledger/internal/devserver"
)

// NATSProcess is a nats-server with JetStream as a process of its own, so that
// it can be killed and paused.
type NATSProcess struct {
	URL     string // what clients connect to; the same over restarts
	Monitor string // http://host:port of its monitoring; "" where it has none

	t      testing.TB
	server *devserver.NATSProcess
}

// StartNATSProcess starts a nats-server process that ends with the test. It
// takes at most one NATSConfig. The program is the version in go.mod, built
// once on a machine (some 15 s) and kept below the user's cache folder.
func StartNATSProcess(t testing.TB, config ...NATSConfig) *NATSProcess {
	t.Helper()
	cfg := only(t, config)
	monitor := ""
	if cfg.Monitored {
		address := FreeAddress(t)
		cfg.Settings += fmt.Sprintf("http: %q\n", address)
		monitor = "http://" + address
	}
	server, err := devserver.StartNATSProcess(t.Context(), devserver.NATSProcessConfig{
		NATSConfig: cfg.devserver(t),
		Program:    natsProgram(t),
		ConfigFile: cfg.ConfigFile,
		Settings:   cfg.Settings,
	})
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	n := &NATSProcess{URL: server.URL(), Monitor: monitor, t: t, server: server}
	t.Cleanup(func() { endProcess(t, "nats-server", server.Process(), server.Stop) })
	return n
}

// Conn connects a client that keeps reconnecting; it is closed with the test.
func (n *NATSProcess) Conn(t testing.TB) *nats.Conn {
	t.Helper()
	return connect(t, n.URL)
}

// PID is the process id, for signals and measurements.
func (n *NATSProcess) PID() int { return n.server.Process().PID() }

// Kill ends the server with SIGKILL and returns when it is gone.
func (n *NATSProcess) Kill() {
	n.t.Helper()
	check(n.t, "kill nats-server", n.server.Process().Kill())
}

// Pause stops the server where it stands (SIGSTOP) until Resume.
func (n *NATSProcess) Pause() {
	n.t.Helper()
	check(n.t, "pause nats-server", n.server.Process().Pause())
}

// Resume lets a paused server go on (SIGCONT).
func (n *NATSProcess) Resume() {
	n.t.Helper()
	check(n.t, "resume nats-server", n.server.Process().Resume())
}

// Restart starts the server again on the same port and store; if it still
// runs, it is stopped in order before.
func (n *NATSProcess) Restart() {
	n.t.Helper()
	check(n.t, "restart nats-server", n.server.Restart(n.t.Context()))
}

// endProcess stops a server at the end of its test and, where the test
// failed, shows what the server wrote last.
func endProcess(t testing.TB, name string, p *devserver.Process, stop func() error) {
	t.Helper()
	if t.Failed() {
		t.Logf("testenv: last lines of %s (pid %d):\n%s", name, p.PID(), p.LogTail(30))
	}
	check(t, "stop "+name, stop())
}

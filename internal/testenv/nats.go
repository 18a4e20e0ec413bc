package testenv

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"runledger/internal/devserver"
)

// NATSConfig says how a nats-server for a test runs. The zero value is right
// for most tests.
type NATSConfig struct {
	StoreDir   string // folder of JetStream's files; "" is a temporary one
	SyncAlways bool   // fsync before every acknowledgement; without it about every two minutes
	MaxPayload int    // largest message in bytes; 0 is the server's default of 1 MiB

	// Monitored makes a server process tell of itself over HTTP, on
	// NATSProcess.Monitor; not together with ConfigFile.
	Monitored bool

	// Settings are further lines of the server's configuration file, for
	// StartNATSProcess only and not together with ConfigFile.
	Settings string

	// ConfigFile is a nats-server configuration, for StartNATSProcess only and
	// in place of SyncAlways and MaxPayload. Address and store folder are set
	// from here all the same. "" is none.
	ConfigFile string
}

func (c NATSConfig) devserver(t testing.TB) devserver.NATSConfig {
	if c.StoreDir == "" {
		c.StoreDir = t.TempDir()
	}
	return devserver.NATSConfig{Dir: c.StoreDir, SyncAlways: c.SyncAlways, MaxPayload: c.MaxPayload}
}

// NATS is an embedded nats-server with JetStream on file storage.
type NATS struct {
	URL string // what clients connect to; the same over restarts

	t      testing.TB
	cfg    devserver.NATSConfig
	server *devserver.NATS
}

// StartNATS starts an embedded nats-server that ends with the test. It takes
// at most one NATSConfig.
func StartNATS(t testing.TB, config ...NATSConfig) *NATS {
	t.Helper()
	cfg := only(t, config)
	if cfg.ConfigFile != "" || cfg.Settings != "" || cfg.Monitored {
		t.Fatalf("testenv: NATSConfig.ConfigFile is %q, Settings %q and Monitored %v, want none of them: only StartNATSProcess takes them", cfg.ConfigFile, cfg.Settings, cfg.Monitored)
	}
	n := &NATS{t: t, cfg: cfg.devserver(t)}
	server, err := devserver.StartNATS(n.cfg)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	n.server, n.URL = server, server.URL()
	t.Cleanup(func() { n.server.Stop() })

	_, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatalf("testenv: address of the server: %v", err)
	}
	if n.cfg.Port, err = strconv.Atoi(port); err != nil {
		t.Fatalf("testenv: port of the server: %v", err)
	}
	return n
}

// Conn connects a client that keeps reconnecting; it is closed with the test.
func (n *NATS) Conn(t testing.TB) *nats.Conn {
	t.Helper()
	return connect(t, n.URL)
}

// Stop ends the server in order. Restart may follow.
func (n *NATS) Stop() { n.server.Stop() }

// Restart ends the server in order, if it runs, and starts it again on the
// same port and store.
func (n *NATS) Restart() {
	n.t.Helper()
	n.server.Stop()
	server, err := devserver.StartNATS(n.cfg)
	check(n.t, "restart the embedded nats-server", err)
	if err == nil {
		n.server = server
	}
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	closed := make(chan struct{})
	nc, err := nats.Connect(url,
		nats.Name(t.Name()),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }),
	)
	if err != nil {
		t.Fatalf("testenv: connect to %s: %v", url, err)
	}
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

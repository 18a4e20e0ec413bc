package devserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// natsStopGrace is what a nats-server gets to write its files.
const natsStopGrace = 10 * time.Second

// NATSProcessConfig says how a nats-server process runs.
type NATSProcessConfig struct {
	NATSConfig // Log takes nothing here: the process writes to nats-server.log in Dir

	Program string // path of the nats-server program

	// ProgramArgs stand before the server's own arguments, for a program that
	// is more than a nats-server: what makes it one. nil is none.
	ProgramArgs []string

	// ConfigFile is a nats-server configuration, which then must not set
	// SyncAlways, MaxPayload and Settings here; Host, Port and Dir are set from
	// here all the same. "" is none.
	ConfigFile string

	Settings string // further lines of the configuration that is written where ConfigFile is ""
}

// Validate names the first field that cannot be used.
func (c NATSProcessConfig) Validate() error {
	if c.Program == "" {
		return errors.New(`nats: Program is "", want the path of a nats-server program`)
	}
	if c.ConfigFile != "" && (c.SyncAlways || c.MaxPayload != 0 || c.Settings != "") {
		return fmt.Errorf("nats: ConfigFile is %q together with SyncAlways, MaxPayload or Settings, want these in the file", c.ConfigFile)
	}
	return c.NATSConfig.Validate()
}

// NATSProcess is a nats-server with JetStream as a process of its own. One
// goroutine at a time may use it; the address stays the same over restarts.
type NATSProcess struct {
	cfg     NATSProcessConfig
	port    int
	process *Process
}

// StartNATSProcess starts a nats-server process and returns when clients can
// connect. ctx bounds the start only.
func StartNATSProcess(ctx context.Context, cfg NATSProcessConfig) (*NATSProcess, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("nats: folder of its files: %w", err)
	}
	if cfg.ConfigFile == "" {
		cfg.ConfigFile = filepath.Join(cfg.Dir, "nats-server.conf")
		if err := os.WriteFile(cfg.ConfigFile, []byte(cfg.settings()), 0o600); err != nil {
			return nil, fmt.Errorf("nats: write its configuration: %w", err)
		}
	}
	n := &NATSProcess{cfg: cfg}
	err := withPort(cfg.host(), cfg.Port, func(port int) error {
		n.port = port
		return n.start(ctx)
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// settings are what the server's command line has no flags for.
func (c NATSProcessConfig) settings() string {
	var b strings.Builder
	if c.SyncAlways {
		b.WriteString("jetstream { sync_interval: always }\n")
	}
	if c.MaxPayload != 0 {
		fmt.Fprintf(&b, "max_payload: %d\n", c.MaxPayload)
	}
	b.WriteString(c.Settings)
	return b.String()
}

// URL is what NATS clients connect to.
func (n *NATSProcess) URL() string { return "nats://" + n.Addr() }

// Addr is host:port.
func (n *NATSProcess) Addr() string {
	return net.JoinHostPort(n.cfg.host(), strconv.Itoa(n.port))
}

// Process is the process that runs now, or ran last.
func (n *NATSProcess) Process() *Process { return n.process }

// Restart starts the server again on the same port and folder; if it still
// runs, it is stopped in order before. ctx bounds the start only.
func (n *NATSProcess) Restart(ctx context.Context) error {
	if err := n.Stop(); err != nil {
		return err
	}
	return n.start(ctx)
}

// Stop ends the server in order and returns when it is gone.
func (n *NATSProcess) Stop() error { return n.process.Stop(natsStopGrace) }

func (n *NATSProcess) start(ctx context.Context) error {
	process, err := StartProcess(ProcessConfig{
		Path: n.cfg.Program,
		Args: slices.Concat(n.cfg.ProgramArgs, []string{
			"--config", n.cfg.ConfigFile, "--addr", n.cfg.host(), "--port", strconv.Itoa(n.port),
			"--jetstream", "--store_dir", n.cfg.Dir, "--ports_file_dir", n.cfg.Dir,
		}),
		Log: filepath.Join(n.cfg.Dir, "nats-server.log"),
	})
	if err != nil {
		return err
	}
	n.process = process
	if err := n.waitReady(ctx); err != nil {
		_ = process.Kill() // it is of no use, and the reason is in err
		return fmt.Errorf("nats-server on %s: %w", n.Addr(), err)
	}
	return nil
}

func (n *NATSProcess) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, natsStartTimeout)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	last := errors.New("it has not written its ports yet")
	for {
		select {
		case <-n.process.Done():
			return n.ended()
		case <-ctx.Done():
			return fmt.Errorf("not ready within %v, the last: %w; its last lines:\n%s", natsStartTimeout, last, n.process.LogTail(20))
		case <-poll.C:
		}
		if !n.hasWrittenPorts() {
			continue
		}
		if last = greets(ctx, n.Addr()); last == nil {
			return nil
		}
	}
}

// hasWrittenPorts tells whether our process, and nobody else, listens: the
// name of the file holds its pid.
func (n *NATSProcess) hasWrittenPorts() bool {
	name := fmt.Sprintf("%s_%d.ports", filepath.Base(n.cfg.Program), n.process.PID())
	_, err := os.Stat(filepath.Join(n.cfg.Dir, name))
	return err == nil
}

// greets reads the first line of the NATS protocol, INFO and a JSON object.
func greets(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetReadDeadline(deadline)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	var info struct {
		JetStream bool `json:"jetstream"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		return fmt.Errorf("its first line is %q, want INFO and an object: %w", line, err)
	}
	if !info.JetStream {
		return errors.New("JetStream is not enabled yet")
	}
	return nil
}

func (n *NATSProcess) ended() error {
	lines := n.process.LogTail(20)
	if strings.Contains(lines, "address already in use") {
		return fmt.Errorf("%w; choose another port or end the program that has it", ErrPortTaken)
	}
	return fmt.Errorf("it ended at its start (%w); its last lines:\n%s", n.process.Err(), lines)
}

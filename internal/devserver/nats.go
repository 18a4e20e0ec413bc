package devserver

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// natsStartTimeout bounds the start; recovering a large store takes seconds.
const natsStartTimeout = 30 * time.Second

// loopback is where servers listen unless they are told otherwise.
const loopback = "127.0.0.1"

// NATSConfig says how the nats-server inside this process runs.
type NATSConfig struct {
	Dir        string // folder of JetStream's files; the same folder again brings the same streams back
	Host       string // IP address to listen on; "" is 127.0.0.1
	Port       int    // TCP port; 0 is any free one
	SyncAlways bool   // fsync before every acknowledgement; without it about every two minutes
	MaxPayload int    // largest message in bytes; 0 is the server's default of 1 MiB

	Log zerolog.Logger // takes the server's warnings and errors; the zero Logger is silent
}

// Validate names the first field that cannot be used.
func (c NATSConfig) Validate() error {
	if c.Dir == "" {
		return errors.New(`nats: Dir is "", want a folder for JetStream's files`)
	}
	if c.MaxPayload < 0 || c.MaxPayload > server.MAX_PAYLOAD_MAX_SIZE {
		return fmt.Errorf("nats: MaxPayload is %d, want 0 (default) to %d bytes", c.MaxPayload, server.MAX_PAYLOAD_MAX_SIZE)
	}
	return validateListen("nats", c.host(), c.Port)
}

func (c NATSConfig) host() string {
	if c.Host == "" {
		return loopback
	}
	return c.Host
}

// NATS is a running nats-server with JetStream inside this process.
type NATS struct {
	server *server.Server
	addr   string
	done   chan struct{} // closed when the server's start has returned
}

// StartNATS starts a nats-server with JetStream on file storage and returns
// when clients can connect. Nobody has to authenticate, so it listens on
// loopback unless Host says otherwise.
func StartNATS(cfg NATSConfig) (*NATS, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var n *NATS
	err := withPort(cfg.host(), cfg.Port, func(port int) (err error) {
		n, err = startNATS(cfg, port)
		return err
	})
	return n, err
}

func startNATS(cfg NATSConfig, port int) (*NATS, error) {
	addr := net.JoinHostPort(cfg.host(), strconv.Itoa(port))
	srv, err := server.NewServer(&server.Options{
		ServerName: "runledger-" + strconv.Itoa(port),
		Host:       cfg.host(),
		Port:       port,
		JetStream:  true,
		StoreDir:   cfg.Dir,
		SyncAlways: cfg.SyncAlways,
		MaxPayload: int32(cfg.MaxPayload),
		NoSigs:     true, // signals belong to the program around it
	})
	if err != nil {
		return nil, fmt.Errorf("nats-server on %s: %w", addr, err)
	}
	fatal := make(chan string, 1)
	srv.SetLoggerV2(natsLog{log: cfg.Log, fatal: fatal}, false, false, false)

	n := &NATS{server: srv, addr: addr, done: make(chan struct{})}
	go func() {
		defer close(n.done)
		srv.Start()
	}()
	if err := n.waitReady(fatal); err != nil {
		n.Stop()
		return nil, fmt.Errorf("nats-server on %s: %w", addr, err)
	}
	return n, nil
}

func (n *NATS) waitReady(fatal <-chan string) error {
	deadline := time.Now().Add(natsStartTimeout)
	for time.Now().Before(deadline) {
		select {
		case reason := <-fatal:
			if strings.Contains(reason, "address already in use") {
				return fmt.Errorf("%w; choose another port or end the program that has it", ErrPortTaken)
			}
			return errors.New(reason)
		default:
		}
		if n.server.ReadyForConnections(50 * time.Millisecond) {
			return nil
		}
	}
	return fmt.Errorf("not ready for connections after %v; is the disk under its folder slow or full?", natsStartTimeout)
}

// URL is what NATS clients connect to.
func (n *NATS) URL() string { return "nats://" + n.addr }

// Addr is host:port.
func (n *NATS) Addr() string { return n.addr }

// Kind says what runs, for people: "nats-server 2.15.3, embedded".
func (n *NATS) Kind() string { return "nats-server " + server.VERSION + ", embedded" }

// Server gives access to what only an embedded server can be asked.
func (n *NATS) Server() *server.Server { return n.server }

// Stop ends the server in order and returns when it is gone. Calling it again
// does nothing.
func (n *NATS) Stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
	<-n.done
}

// natsLog hands the server's warnings and errors on. A fatal error does not
// end the program, as it would in the server's own logger: it fails the start.
type natsLog struct {
	log   zerolog.Logger
	fatal chan<- string
}

func (natsLog) Noticef(string, ...any) {}
func (natsLog) Debugf(string, ...any)  {}
func (natsLog) Tracef(string, ...any)  {}

func (l natsLog) Warnf(format string, args ...any) {
	l.log.Warn().Str("server", "nats").Msgf(format, args...)
}

func (l natsLog) Errorf(format string, args ...any) {
	l.log.Error().Str("server", "nats").Msgf(format, args...)
}

func (l natsLog) Fatalf(format string, args ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, args...):
	default: // the first reason is the cause
	}
}

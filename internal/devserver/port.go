package devserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are picked below the range from which operating systems take the
// local ports of outgoing connections (from 32768 on Linux, from 49152
// elsewhere). A port from that range could be lost while a server restarts,
// even to one of its own clients: a client that dials a local port where
// nobody listens may get that very port as its own and connect to itself.
const (
	lowestPort  = 20_000
	highestPort = 32_000
)

// portAttempts bounds how often a port is picked: between the look and the
// server's own bind somebody else can take it.
const portAttempts = 8

// ErrPortTaken says that a server could not bind its port: another program has
// it.
var ErrPortTaken = errors.New("port is taken")

// freePort returns a TCP port on host that was free a moment ago.
func freePort(host string) (int, error) {
	var last error
	for range 100 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("no free TCP port on %s between %d and %d after 100 tries, the last: %w", host, lowestPort, highestPort, last)
}

// FreeAddress returns host:port on loopback that was free a moment ago, for
// what has to be written into a configuration before anything listens there.
func FreeAddress() (string, error) {
	port, err := freePort(loopback)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(loopback, strconv.Itoa(port)), nil
}

// withPort calls start with port, or, where port is 0, with free ports until
// one is not taken by somebody else in between.
func withPort(host string, port int, start func(port int) error) error {
	if port != 0 {
		return start(port)
	}
	var err error
	for range portAttempts {
		if port, err = freePort(host); err != nil {
			return err
		}
		if err = start(port); !errors.Is(err, ErrPortTaken) {
			return err
		}
	}
	return err
}

// validateListen checks the two fields that all servers here have.
func validateListen(owner, host string, port int) error {
	if net.ParseIP(host) == nil {
		return fmt.Errorf("%s: Host is %q, want an IP address such as 127.0.0.1", owner, host)
	}
	if port < 0 || port > 65_535 {
		return fmt.Errorf("%s: Port is %d, want 1 to 65535, or 0 for any free one", owner, port)
	}
	return nil
}

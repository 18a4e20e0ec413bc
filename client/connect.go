package client

import (
	"time"

	"github.com/nats-io/nats.go"
)

// ConnectOptions are good options for a connection that agents and executors
// use; add authentication, TLS and handlers to them. It reconnects for ever,
// notices a silent server within some 10 s, and keeps nothing to be sent after
// a reconnect, so that a call that was given up is not made long after.
func ConnectOptions(name string) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
	}
}

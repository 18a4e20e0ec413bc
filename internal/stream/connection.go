package stream

import (
	"time"

	"github.com/nats-io/nats.go"
)

// ConnectionOptions are the options with which a connection must be made that a
// Publisher or Partitions uses. Add authentication, TLS and handlers to them.
//
//   - Nothing is kept to be sent after a reconnect: measured with nats.go 1.55, a
//     publish that had timed out while disconnected was stored long after.
//   - It reconnects for ever, and soon. (The first attempt still fails at once, so
//     that a wrong address shows.)
//   - A server that went away without a word is noticed within some 10 s.
func ConnectionOptions(name string) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 250*time.Millisecond),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(2 * time.Second),
	}
}

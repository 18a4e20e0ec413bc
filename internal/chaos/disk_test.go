//go:build chaos

package chaos

import (
	"testing"
	"time"

	"runledger/internal/testenv"
)

// TestDiskOfTheStreamIsFull also shows what nats-server 2.15.3 does: a stream
// whose write failed for want of room keeps that error, and takes nothing more
// until the server is started again, however much room there is by then.
func TestDiskOfTheStreamIsFull(t *testing.T) {
	disk := testenv.SmallDisk(t, 512<<20)
	nats := testenv.StartNATSProcess(t, testenv.NATSConfig{StoreDir: disk.Dir, SyncAlways: true, Monitored: true})
	w := newWorld(t, servers{nats: nats})
	byItself := "work went on by itself before nats-server was started again"
	playUnder(t, w, fault{
		name: "disk of the stream full", what: "no byte left for 10 s, then room again; nats-server started again 5 s later",
		last: redelivered,
		strike: func(w *world) {
			w.during(10*time.Second, disk.Fill, func() {
				disk.Free()
				answered := w.load.calls.Load()
				w.pass(5 * time.Second)
				if w.load.calls.Load() == answered {
					byItself = "with room alone nothing went on: nats-server had to be started again"
				}
				w.nats.Restart()
			})
		},
		note: func(*world) string { return byItself },
	})
}

//go:build chaos

package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"runledger/internal/testenv"
)

// through is a world whose processors reach NATS and Redis through proxies of
// their own; everybody else reaches them directly.
func through(t *testing.T) (w *world, nats, redis *testenv.Proxy) {
	t.Helper()
	return throughWith(t, "")
}

// throughWith is through with more lines of the policy.
func throughWith(t *testing.T, rules string) (w *world, nats, redis *testenv.Proxy) {
	t.Helper()
	server := testenv.StartNATSProcess(t, testenv.NATSConfig{SyncAlways: true, Monitored: true})
	store := testenv.StartRedis(t, testenv.RedisConfig{AppendOnly: true})
	nats = testenv.StartProxy(t, strings.TrimPrefix(server.URL, "nats://"))
	redis = testenv.StartProxy(t, store.Addr)
	return newWorld(t, servers{
		nats: server, natsAt: "nats://" + nats.Addr, redis: []*testenv.Redis{store}, redisAt: redis.Addr,
		policy: append(patient(), rules...),
	}), nats, redis
}

// bad is a network that is so for a while, some times.
type bad struct {
	name, what string
	network    testenv.Network
	lasts      time.Duration
	times      int
}

func (b bad) strike(w *world, proxy *testenv.Proxy) {
	for range times(b.times, 1) {
		w.during(b.lasts, func() { proxy.Set(b.network) }, func() { proxy.Set(testenv.Network{}) })
	}
}

func playThrough(t *testing.T, server string, b bad) {
	t.Helper()
	w, nats, redis := through(t)
	proxy := map[string]*testenv.Proxy{"NATS": nats, "Redis": redis}[server]
	playUnder(t, w, fault{
		name: "network to " + server + " " + b.name, what: fmt.Sprintf("%s, for %v", b.what, b.lasts),
		strike: func(w *world) { b.strike(w, proxy) },
	})
}

var (
	isCut    = bad{"cut", "connections closed and refused", testenv.Network{Cut: true}, 5 * time.Second, 2}
	isSilent = bad{"silent", "nothing passes and nothing is closed", testenv.Network{Silent: true}, 8 * time.Second, 2}
	isSlow   = bad{"slow", "20 ms and 256 KiB/s each way for each connection", testenv.Network{Delay: 20 * time.Millisecond, Rate: 256 << 10}, 10 * time.Second, 1}
	breaks   = bad{"cut within replies", "every connection closed after 20,011 bytes of replies", testenv.Network{CutReplies: 20_011}, 10 * time.Second, 1}
)

func TestShortNetworkToNATSIsCut(t *testing.T)          { playThrough(t, "NATS", isCut) }
func TestNetworkToNATSIsSilent(t *testing.T)            { playThrough(t, "NATS", isSilent) }
func TestNetworkToNATSIsSlow(t *testing.T)              { playThrough(t, "NATS", isSlow) }
func TestNetworkToNATSBreaksWithinReplies(t *testing.T) { playThrough(t, "NATS", breaks) }

func TestNetworkToRedisIsCut(t *testing.T)               { playThrough(t, "Redis", isCut) }
func TestNetworkToRedisIsSilent(t *testing.T)            { playThrough(t, "Redis", isSilent) }
func TestNetworkToRedisIsSlow(t *testing.T)              { playThrough(t, "Redis", isSlow) }
func TestNetworkToRedisBreaksWithinReplies(t *testing.T) { playThrough(t, "Redis", breaks) }

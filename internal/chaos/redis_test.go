//go:build chaos

package chaos

import (
	"testing"
	"time"

	"runledger/internal/testenv"
)

func TestShortRedisIsKilledAndComesBackWithItsFile(t *testing.T) {
	w := newWorld(t, servers{})
	playUnder(t, w, fault{
		name: "redis-server killed", what: "SIGKILL, started again after 1 s with its append-only file (everysec)",
		strike: func(w *world) {
			for range times(3, 2) {
				w.during(time.Second, w.redis[0].Kill, w.redis[0].Restart)
			}
		},
	})
}

func TestShortRedisIsFlushed(t *testing.T) {
	w := newWorld(t, servers{})
	playUnder(t, w, fault{
		name: "FLUSHALL", what: "in the middle of the load",
		strike: func(w *world) {
			for range times(5, 3) {
				w.broken(w.redis[0].FlushAll, func() {})
				w.pass(500 * time.Millisecond)
			}
		},
	})
}

func TestRedisIsRestoredFromASnapshot(t *testing.T) {
	w := newWorld(t, servers{redis: []*testenv.Redis{testenv.StartRedis(t)}})
	playUnder(t, w, fault{
		name: "redis-server restored from a snapshot", what: "SIGKILL and a start with a snapshot 10 s of work old, then with the same one 20 s old",
		strike: func(w *world) {
			then := w.redis[0].TakeSnapshot()
			for range 2 {
				w.pass(10 * time.Second)
				w.broken(w.redis[0].Kill, func() { w.redis[0].RestoreSnapshot(then) })
			}
		},
	})
}

func TestRedisReplicaIsPromotedWithWritesLost(t *testing.T) {
	master, replica := testenv.StartRedis(t), testenv.StartRedis(t)
	proxy := testenv.StartProxy(t, master.Addr)
	w := newWorld(t, servers{redis: []*testenv.Redis{master, replica}, redisAt: proxy.Addr})
	playUnder(t, w, fault{
		name: "a Redis replica promoted, writes lost", what: "the replica has heard nothing for 3 s when its master is killed; clients are led to it a second later",
		strike: func(w *world) {
			replica.Follow(master)
			replica.Detach()
			w.pass(3 * time.Second)
			w.during(time.Second, master.Kill, func() { proxy.Lead(replica.Addr) })
			w.redis = []*testenv.Redis{replica}
		},
	})
}

func TestRedisIsOutOfMemory(t *testing.T) {
	w := newWorld(t, servers{})
	playUnder(t, w, fault{
		name: "Redis out of memory", what: "maxmemory 1 byte under noeviction, for 5 s",
		strike: func(w *world) {
			for range 2 {
				w.during(5*time.Second, func() { w.redis[0].SetMaxMemory(1) }, func() { w.redis[0].SetMaxMemory(0) })
			}
		},
	})
}

func TestMasterOfARedisClusterIsKilled(t *testing.T) {
	cluster := testenv.StartRedisCluster(t)
	w := newWorld(t, servers{redis: append(append([]*testenv.Redis{}, cluster.Masters...), cluster.Replicas...), redisAt: cluster.Addrs()})
	playUnder(t, w, fault{
		name: "a master of a Redis Cluster killed", what: "3 masters, 3 replicas; SIGKILL to each master in turn, its replica takes over; it comes back only when work has gone on",
		strike: func(w *world) {
			for _, master := range cluster.Masters {
				w.broken(master.Kill, func() {})
				master.Restart()
				cluster.AwaitWhole()
			}
		},
	})
}

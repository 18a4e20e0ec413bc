//go:build chaos

package chaos

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"runledger/internal/testenv"
)

// redelivered is how long a run may stand that waits for an executor: a dispatch
// that a server had delivered when it was killed, and that was lost on its way,
// is delivered again after the consumer's ack wait of 30 s.
const redelivered = 45 * time.Second

func TestShortNATSIsKilled(t *testing.T) {
	w := newWorld(t, servers{})
	playUnder(t, w, fault{
		name: "nats-server killed", what: "one server, `sync_interval: always`; SIGKILL, started again after 1 s",
		last: redelivered,
		strike: func(w *world) {
			for range times(3, 2) {
				w.during(time.Second, w.nats.Kill, w.nats.Restart)
			}
		},
	})
}

func TestNATSIsPaused(t *testing.T) {
	w := newWorld(t, servers{})
	playUnder(t, w, fault{
		name: "nats-server paused", what: "SIGSTOP for 8 s, longer than every lease",
		strike: func(w *world) { w.during(8*time.Second, w.nats.Pause, w.nats.Resume) },
	})
}

func TestLeadersOfANATSClusterAreKilled(t *testing.T) {
	cluster := testenv.StartNATSCluster(t)
	w := newWorld(t, servers{cluster: cluster})
	playUnder(t, w, fault{
		name: "a leader of 3 nats-servers killed", what: "three replicas; SIGKILL to the leader of RUNS, of IN, of DISPATCH, each started again after 8 s",
		last: redelivered,
		strike: func(w *world) {
			for _, stream := range []string{"RUNS", "IN", "DISPATCH"} {
				leader := cluster.Nodes[w.leader(stream)]
				w.during(8*time.Second, leader.Kill, leader.Restart)
				w.awaitCluster()
			}
		},
	})
}

func TestEachNodeOfANATSClusterIsKilled(t *testing.T) {
	cluster := testenv.StartNATSCluster(t)
	w := newWorld(t, servers{cluster: cluster})
	playUnder(t, w, fault{
		name: "each of 3 nats-servers killed", what: "three replicas; SIGKILL one after the other, each started again after 3 s",
		last: redelivered,
		strike: func(w *world) {
			for _, name := range slices.Sorted(maps.Keys(cluster.Nodes)) {
				w.during(3*time.Second, cluster.Nodes[name].Kill, cluster.Nodes[name].Restart)
				w.awaitCluster()
			}
		},
	})
}

func TestNATSClusterHasNoQuorum(t *testing.T) {
	cluster := testenv.StartNATSCluster(t)
	w := newWorld(t, servers{cluster: cluster})
	playUnder(t, w, fault{
		name: "no quorum of 3 nats-servers", what: "three replicas; SIGKILL to two of the nodes, started again after 20 s",
		again: 20 * time.Second, last: redelivered,
		strike: func(w *world) {
			w.during(20*time.Second, func() {
				cluster.Nodes["n1"].Kill()
				cluster.Nodes["n2"].Kill()
			}, func() {
				cluster.Nodes["n1"].Restart()
				cluster.Nodes["n2"].Restart()
			})
		},
	})
}

// leader waits for a stream of the cluster to be whole and names its leader.
func (w *world) leader(stream string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	leader, err := w.cluster.Leader(ctx, w.js, stream)
	if err != nil {
		w.t.Fatal(err)
	}
	return leader
}

// awaitCluster waits until every stream is whole.
func (w *world) awaitCluster() {
	w.t.Helper()
	for _, stream := range []string{"IN", "RUNS", "DISPATCH", "TIMERS", "INVALID", "KV_PARTITIONS", "KV_CLAIMS", "KV_POLICIES"} {
		w.leader(stream)
	}
}

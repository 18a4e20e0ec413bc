package store_test

import (
	"strings"
	"testing"
	"time"

	"runledger/internal/store"
	"runledger/internal/testenv"
)

// startCluster starts a cluster of one node that has all slots.
func startCluster(t *testing.T) string {
	t.Helper()
	server := testenv.StartRedis(t, testenv.RedisConfig{Args: []string{"--cluster-enabled", "yes"}})
	raw := client(t, server.Addr)
	must(t, raw.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	for deadline := time.Now().Add(10 * time.Second); ; {
		info, err := raw.ClusterInfo(t.Context()).Result()
		if err == nil && strings.Contains(info, "cluster_state:ok") {
			return server.Addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("the cluster is not ready: %v\n%s", err, info)
		}
	}
}

func openCluster(t *testing.T, addr string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Config{Addrs: []string{addr}, Cluster: true})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStoreConformsInACluster(t *testing.T) {
	addr := startCluster(t)
	s, raw := openCluster(t, addr), client(t, addr)
	conform(t, s, raw)
	must(t, s.Check(t.Context()))
}

func TestAllKeysOfARunLieInOneSlotAndRunsInMany(t *testing.T) {
	addr := startCluster(t)
	s, raw := openCluster(t, addr), client(t, addr)
	slots := map[int64]bool{}
	for _, run := range []string{"r", "run-2", "A_b", strings.Repeat("x", 128)} {
		must(t, raw.FlushAll(t.Context()).Err())
		at := base()
		must(t, project(t, s, whole(run, 3, at)))
		keys := raw.Keys(t.Context(), "*").Val()
		if len(keys) != 4 {
			t.Fatalf("keys of run %s are %v, want 4", run, keys)
		}
		want := raw.ClusterKeySlot(t.Context(), run).Val()
		slots[want] = true
		for _, key := range keys {
			if got := raw.ClusterKeySlot(t.Context(), key).Val(); got != want {
				t.Errorf("%s lies in slot %d, want %d, as its run", key, got, want)
			}
		}
	}
	if len(slots) != 4 {
		t.Errorf("4 runs lie in %d slots", len(slots))
	}
}

func TestANodeThatDoesNotKnowTheScriptIsTold(t *testing.T) {
	addr := startCluster(t)
	s, raw := openCluster(t, addr), client(t, addr)
	at := base()
	for fact := uint64(1); fact <= 3; fact++ {
		must(t, raw.ScriptFlush(t.Context()).Err())
		errs := s.Project(t.Context(), []store.Projection{step("r", fact, at), step("other", fact, at)})
		must(t, errs[0])
		must(t, errs[1])
	}
	stats := raw.Info(t.Context(), "commandstats").Val()
	if !strings.Contains(stats, "cmdstat_eval:calls=6,") {
		t.Errorf("want 6 calls of the script by its text, got\n%s", stats)
	}
}

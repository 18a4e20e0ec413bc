package store_test

import (
	"strings"
	"testing"

	"runledger/internal/store"
	"runledger/internal/store/storetest"
	"runledger/internal/testenv"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// servers are the kinds of Redis that every test of a Redis runs on.
var servers = map[string]func(t *testing.T) string{
	"redis-server": func(t *testing.T) string { return testenv.StartRedis(t).Addr },
	"miniredis":    func(t *testing.T) string { return testenv.StartMiniredis(t).Addr() },
}

// onEach runs a test against one server of each kind.
func onEach(t *testing.T, test func(t *testing.T, addr string)) {
	for kind, start := range servers {
		t.Run(kind, func(t *testing.T) { test(t, start(t)) })
	}
}

func open(t testing.TB, addr string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Config{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// client is for looking at what lies in the server, and for spoiling it.
func client(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, MaxRetries: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStoreConforms(t *testing.T) {
	t.Run("redis-server", func(t *testing.T) {
		addr := testenv.StartRedis(t).Addr
		conform(t, open(t, addr), client(t, addr))
	})
	t.Run("miniredis", func(t *testing.T) {
		m := testenv.StartMiniredis(t)
		s, raw := open(t, m.Addr()), client(t, m.Addr())
		// Its keys age by themselves only where a test waits for that: then
		// every command goes through all of them.
		storetest.Run(t, func(t *testing.T) storetest.Subject {
			m.ClockTTL(strings.Contains(t.Name(), "/Expiry/"))
			return subject(t, s, raw)
		})
	})
}

func conform(t *testing.T, s *store.Store, raw *redis.Client) {
	t.Helper()
	storetest.Run(t, func(t *testing.T) storetest.Subject { return subject(t, s, raw) })
}

func subject(t *testing.T, s *store.Store, raw *redis.Client) storetest.Subject {
	t.Helper()
	must(t, raw.FlushAll(t.Context()).Err())
	remove := func(t testing.TB, key string) { t.Helper(); must(t, raw.Del(t.Context(), key).Err()) }
	return storetest.Subject{
		Store:      s,
		Flush:      func(t testing.TB) { t.Helper(); must(t, raw.FlushAll(t.Context()).Err()) },
		LoseRecord: func(t testing.TB, run, id string) { t.Helper(); remove(t, "runledger:{"+run+"}:"+id) },
		LoseRun:    func(t testing.TB, run string) { t.Helper(); remove(t, "runledger.run:{"+run+"}") },
		LoseList:   func(t testing.TB, run string) { t.Helper(); remove(t, "runledger.done:{"+run+"}") },

		LoseOperations: func(t testing.TB, run string) { t.Helper(); remove(t, "runledger.ops:{"+run+"}") },
	}
}

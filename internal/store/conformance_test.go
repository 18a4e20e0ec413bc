package store_test

import (
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
	"miniredis": func(t *testing.T) string {
		m := testenv.StartMiniredis(t)
		m.ClockTTL(true)
		return m.Addr()
	},
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
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		remove := func(t testing.TB, keys ...string) { t.Helper(); must(t, raw.Del(t.Context(), keys...).Err()) }
		storetest.Run(t, func(t *testing.T) storetest.Subject {
			must(t, raw.FlushAll(t.Context()).Err())
			return storetest.Subject{
				Store:      s,
				Flush:      func(t testing.TB) { t.Helper(); must(t, raw.FlushAll(t.Context()).Err()) },
				LoseRecord: func(t testing.TB, run, id string) { t.Helper(); remove(t, "runledger:{"+run+"}:"+id) },
				LoseRun:    func(t testing.TB, run string) { t.Helper(); remove(t, "runledger.run:{"+run+"}") },
				LoseList:   func(t testing.TB, run string) { t.Helper(); remove(t, "runledger.done:{"+run+"}") },
			}
		})
	})
}

package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"runledger/internal/store"
	"runledger/internal/testenv"
)

func TestCheckPassesAndLeavesNothingBehind(t *testing.T) {
	onEach(t, func(t *testing.T, addr string) {
		s, raw := open(t, addr), client(t, addr)
		must(t, s.Check(t.Context()))
		if keys := raw.Keys(t.Context(), "*").Val(); len(keys) != 0 {
			t.Errorf("it left %v", keys)
		}
	})
}

func TestCheckRefusesEveryEvictionPolicyThatForgets(t *testing.T) {
	server := testenv.StartRedis(t)
	s, raw := open(t, server.Addr), client(t, server.Addr)
	for _, policy := range []string{"allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"} {
		must(t, raw.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		err := s.Check(t.Context())
		want := `eviction policy of Redis: want noeviction, got "` + policy + `", by which it would forget records; set maxmemory-policy noeviction`
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestCheckSaysThatTheClocksAreApart(t *testing.T) {
	m := testenv.StartMiniredis(t)
	s := open(t, m.Addr())
	m.SetTime(time.Now().Add(2 * time.Minute))
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "the clocks of this machine and of Redis are that far apart; set them right") {
		t.Errorf("got %v, want that it tells of the clocks", err)
	}
	m.SetTime(time.Now().Add(30 * time.Second))
	must(t, s.Check(t.Context()))
}

// commandsUsed are what an operator grants; the error of Check names the same.
var commandsUsed = strings.Fields("info hello ping evalsha eval script|load time exists del pexpireat hset hdel hlen hmget hgetall llen lrange rpush")

func TestAUserWithJustTheCommandsAndKeysOfTheStoreIsEnough(t *testing.T) {
	server := testenv.StartRedis(t)
	raw := client(t, server.Addr)
	grant := func(without string) {
		t.Helper()
		args := []any{"ACL", "SETUSER", "processor", "reset", "on", ">secret", "~runledger:*", "~runledger.run:*", "~runledger.done:*", "~runledger.ops:*"}
		for _, command := range commandsUsed {
			if command != without {
				args = append(args, "+"+command)
			}
		}
		must(t, raw.Do(t.Context(), args...).Err())
	}
	s, err := store.Open(store.Config{Addrs: []string{server.Addr}, Username: "processor", Password: "secret"})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })

	grant("")
	must(t, s.Check(t.Context()))
	must(t, s.Ping(t.Context()))
	must(t, project(t, s, whole("r", 3, base())))

	for _, missing := range commandsUsed {
		switch missing {
		case "hello", "ping", "eval", "script|load":
			continue // always allowed, or used only where another is not enough
		}
		grant(missing)
		err := s.Check(t.Context())
		wantUnavailable(t, err)
		text := fmt.Sprint(err)
		if !strings.Contains(text, "NOPERM") && !strings.Contains(text, "can't run this command") {
			t.Errorf("without %s: got %v, want that it tells of the permission", missing, err)
		}
		if strings.Contains(text, "secret") {
			t.Errorf("without %s: the error tells the password: %v", missing, err)
		}
	}
}

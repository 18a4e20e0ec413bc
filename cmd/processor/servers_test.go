package main

import (
	"os"
	"strings"
	"testing"

	"runledger/internal/policy"
	"runledger/internal/testenv"

	"github.com/nats-io/nats-server/v2/server"
)

func airline(t *testing.T) string {
	t.Helper()
	return file(t, "policy.yaml", string(policy.Airline()))
}

func TestAServerThatDoesNotAnswerIsNamedWithItsSettingAndWithoutCredentials(t *testing.T) {
	rules := airline(t)
	got := try(t, "serve", "--policy", rules, "--nats-url", "nats://me:hush@127.0.0.1:1")
	got.want(t, exitFailed, "no NATS server answers at nats://127.0.0.1:1 ", "nats.url (--nats-url)")
	if strings.Contains(got.err, "hush") {
		t.Errorf("it shows a password: %s", got.err)
	}
	nats := testenv.StartNATS(t)
	try(t, "serve", "--policy", rules, "--nats-url", nats.URL, "--redis-addresses", "127.0.0.1:1").
		want(t, exitFailed, "Redis at 127.0.0.1:1 ", "redis.addresses (--redis-addresses)", "connection refused")
}

func TestARedisThatWantsAPasswordIsNamedWithTheSettings(t *testing.T) {
	nats, redis := testenv.StartNATS(t), testenv.StartMiniredis(t)
	redis.RequireAuth("hush")
	t.Setenv("RUNLEDGER_REDIS_PASSWORD", "wrong-one")
	got := try(t, "serve", "--policy", airline(t), "--nats-url", nats.URL, "--redis-addresses", redis.Addr())
	got.want(t, exitFailed, "refuses this user", "redis.password_file")
	if strings.Contains(got.err, "wrong-one") {
		t.Errorf("it shows a password: %s", got.err)
	}
}

func TestAServerWithoutJetStreamIsToldApart(t *testing.T) {
	plain, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	plain.Start()
	t.Cleanup(func() { plain.Shutdown(); plain.WaitForShutdown() })
	for _, args := range [][]string{
		{"streams", "check"}, {"streams", "apply"}, {"serve", "--redis-addresses", testenv.StartMiniredis(t).Addr()},
	} {
		try(t, append(args, "--policy", airline(t), "--nats-url", plain.ClientURL())...).
			want(t, exitFailed, "JetStream does not answer: start nats-server with it")
	}
}

func TestServeBeforeApplySaysWhatToDo(t *testing.T) {
	nats, redis := testenv.StartNATS(t), testenv.StartMiniredis(t)
	try(t, "serve", "--policy", airline(t), "--nats-url", nats.URL, "--redis-addresses", redis.Addr()).
		want(t, exitFailed, `streams and buckets are missing; make them with "processor streams apply --policy …"`, "RUNS: missing")
}

func TestStreamsCheckPromisesOnlyWhatApplyCanMend(t *testing.T) {
	nats, rules := testenv.StartNATS(t), airline(t)
	on := func(args ...string) ran {
		return try(t, append(args, "--nats-url", nats.URL, "--policy", rules)...)
	}
	on("streams", "apply", "--subjects-replicas", "3").want(t, exitFailed, "3 replicas", "--subjects-replicas")
	missing := on("streams", "check")
	missing.want(t, exitFailed, `differences: 9; "processor streams apply" mends them`)
	if want := "TIMERS: missing\nIN: missing\nRUNS: missing\nDISPATCH: missing\nINVALID: missing\n" +
		"KV_PARTITIONS: missing\nKV_POLICIES: missing\nKV_CLAIMS: missing\nDISPATCH/executor-airline: missing\n"; missing.out != want {
		t.Errorf("got %q, want %q", missing.out, want)
	}
	made := on("streams", "apply")
	made.want(t, 0)
	if strings.Count(made.out, ": created\n") != 9 || made.err != "" {
		t.Errorf("got %q and %q, want 9 lines on standard output alone", made.out, made.err)
	}
	if again := on("streams", "apply"); again.out != "nothing to change\n" {
		t.Errorf("got %q", again.out)
	}
	if good := on("streams", "check"); good.out != "all as it should be\n" || good.status != 0 {
		t.Errorf("got %+v", good)
	}
	other := on("streams", "check", "--subjects-partitions", "8")
	other.want(t, exitFailed, `differences: 1; "processor streams apply" cannot mend 1 of them`)
	const line = "IN was made with 16 partitions, asked for 8; the number is fixed when IN is made\n"
	if other.out != line {
		t.Errorf("got %q, want %q", other.out, line)
	}
	on("streams", "apply", "--subjects-partitions", "8").want(t, exitFailed, line)
}

func TestServeDoesNotSayThatItServesWhereItsPortIsTaken(t *testing.T) {
	nats, redis := testenv.StartNATS(t), testenv.StartMiniredis(t)
	on := []string{"--policy", airline(t), "--nats-url", nats.URL}
	try(t, append([]string{"streams", "apply"}, on...)...).want(t, 0)
	got := try(t, append([]string{"serve", "--redis-addresses", redis.Addr(), "--listen", redis.Addr()}, on...)...)
	got.want(t, exitFailed, "listen: ", "choose another address with --listen")
	if strings.Contains(got.err, `"serving"`) {
		t.Errorf("it says that it serves:\n%s", got.err)
	}
}

func TestDevOnATakenPortNamesTheFlag(t *testing.T) {
	nats := testenv.StartNATS(t)
	port := nats.URL[strings.LastIndex(nats.URL, ":")+1:]
	try(t, "dev", "--nats-port", port, "--redis-port", "0").want(t, exitFailed, "port "+port+", where NATS", "--nats-port")
	try(t, "dev", "--nats-port", "0", "--redis-port", port).want(t, exitFailed, "port "+port+", where Redis", "--redis-port")
}

func TestLogsAsTextHaveNoColoursOutsideOfATerminal(t *testing.T) {
	name := file(t, "log", "")
	log, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	c := defaultConfig()
	c.Log.Format = "text"
	logger := newLogger(c, log)
	logger.Warn().Str("a", "b").Msg("something")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil || strings.Contains(string(text), "\x1b") || !strings.Contains(string(text), "something") {
		t.Errorf("got %q, %v, want plain text", text, err)
	}
}

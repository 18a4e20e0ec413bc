package devserver

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// takenPort is the port of a listener that stays for the test.
func takenPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func redisClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                     addr,
		MaxRetries:               -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestNATSServesClientsUntilStopped(t *testing.T) {
	n, err := StartNATS(NATSConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(n.URL(), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if got := n.Kind(); got != "nats-server 2.15.3, embedded" {
		t.Errorf("Kind is %q", got)
	}
	n.Stop()
	n.Stop() // a second time does nothing
	if nc, err := nats.Connect(n.URL()); err == nil {
		nc.Close()
		t.Fatal("a client still connects after Stop")
	}
}

func TestNATSOnATakenPortFailsAndSaysWhatToDo(t *testing.T) {
	_, err := StartNATS(NATSConfig{Dir: t.TempDir(), Port: takenPort(t)})
	wantPortTaken(t, err)
}

func TestRedisServerOnATakenPortFailsAndSaysWhatToDo(t *testing.T) {
	_, err := StartRedis(t.Context(), RedisConfig{Dir: t.TempDir(), Port: takenPort(t)})
	wantPortTaken(t, err)
}

func wantPortTaken(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), "choose another port") {
		t.Fatalf("got %v, want that the port is taken and what to do", err)
	}
}

func TestRedisIsARedisServerWhereTheMachineHasOne(t *testing.T) {
	r, err := StartRedis(t.Context(), RedisConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Kind(), "redis-server ") || strings.HasSuffix(r.Kind(), " ") {
		t.Errorf("Kind is %q, want redis-server and its version", r.Kind())
	}
	if err := redisClient(t, r.Addr()).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRedisServerThatRefusesItsSettingsFailsWithItsOwnWords(t *testing.T) {
	_, err := StartRedisProcess(t.Context(), RedisConfig{Dir: t.TempDir(), Args: []string{"--no-such-setting", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Fatalf("got %v, want the server's own lines", err)
	}
}

func TestRedisIsMiniredisThatAgesKeysWhereThereIsNoRedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r, err := StartRedis(t.Context(), RedisConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if got := r.Kind(); got != "miniredis" {
		t.Errorf("Kind is %q, want miniredis", got)
	}
	client := redisClient(t, r.Addr())
	begin := time.Now()
	if err := client.Set(t.Context(), "key", "value", 300*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), "key").Result(); err != nil || got != "value" {
		t.Fatalf("key is %q, %v at once, want \"value\"", got, err)
	}
	for client.Get(t.Context(), "key").Err() == nil {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("the key is still there long after its expiry")
		}
	}
	if age := time.Since(begin); age < 300*time.Millisecond {
		t.Fatalf("the key was gone after %v, want 300 ms", age)
	}
}

func TestAPortThatIsLostInBetweenIsPickedAgain(t *testing.T) {
	var ports []int
	err := withPort("127.0.0.1", 0, func(port int) error {
		ports = append(ports, port)
		if len(ports) < 3 {
			return ErrPortTaken
		}
		return nil
	})
	if err != nil || len(ports) != 3 {
		t.Fatalf("got %v after %d tries, want success at the third", err, len(ports))
	}
	for _, port := range ports {
		if port < 20_000 || port >= 32_000 {
			t.Errorf("port is %d, want one below those of outgoing connections", port)
		}
	}
}

func TestConfigsNameTheFieldThatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		want string
		err  error
	}{
		{`nats: Dir is ""`, NATSConfig{}.Validate()},
		{`nats: Host is "localhost"`, NATSConfig{Dir: dir, Host: "localhost"}.Validate()},
		{`nats: Port is -1`, NATSConfig{Dir: dir, Port: -1}.Validate()},
		{`nats: MaxPayload is -1`, NATSConfig{Dir: dir, MaxPayload: -1}.Validate()},
		{`nats: Program is ""`, NATSProcessConfig{NATSConfig: NATSConfig{Dir: dir}}.Validate()},
		{`nats: ConfigFile is "f"`, NATSProcessConfig{NATSConfig: NATSConfig{Dir: dir, SyncAlways: true}, Program: "p", ConfigFile: "f"}.Validate()},
		{`redis: Dir is ""`, RedisConfig{}.Validate()},
		{`redis: Fsync is "sometimes"`, RedisConfig{Dir: dir, Fsync: "sometimes"}.Validate()},
		{`redis: Port is 65536`, RedisConfig{Dir: dir, Port: 65536}.Validate()},
		{`process: Path is ""`, ProcessConfig{}.Validate()},
		{`process p: Log is ""`, ProcessConfig{Path: "p"}.Validate()},
	} {
		if test.err == nil || !strings.HasPrefix(test.err.Error(), test.want) {
			t.Errorf("got %v, want an error that begins with %s", test.err, test.want)
		}
	}
}

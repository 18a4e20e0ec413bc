//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"runledger/internal/testenv"
)

// level is what a world uses while nothing is played.
type level struct {
	goroutines, firstGoroutines int // of all processors, of the first one
	resident, firstResident     int // bytes of all processors, of the first one

	natsConns  int   // to all servers
	natsBytes  int   // resident, of all servers
	redisConns int   // to all servers
	redisBytes int   // used, of all servers
	keys       int   // in all masters
	rounds     int64 // that left them
	besideKeys int   // may be there besides afterwards
	consumers  int   // of all streams
	openFiles  int   // of all processors
}

func (l level) String() string {
	return fmt.Sprintf("goroutines %d, NATS connections %d, Redis connections %d, consumers %d, open files %d, keys %d, processors %d MiB, NATS %d MiB, Redis %d MiB",
		l.goroutines, l.natsConns, l.redisConns, l.consumers, l.openFiles, l.keys, l.resident>>20, l.natsBytes>>20, l.redisBytes>>20)
}

// measure measures all that there is; it may be called from any goroutine.
func (w *world) measure() (level, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	var l level
	for i, p := range w.processors {
		metrics, err := p.Metrics(ctx)
		if err != nil {
			return l, err
		}
		if i == 0 {
			l.firstGoroutines, l.firstResident = int(metrics["go_goroutines"]), int(metrics["process_resident_memory_bytes"])
		}
		l.goroutines += int(metrics["go_goroutines"])
		l.resident += int(metrics["process_resident_memory_bytes"])
		l.openFiles += int(metrics["process_open_fds"])
	}
	var err error
	if l.natsConns, l.natsBytes, err = w.measureNATS(ctx); err != nil {
		return l, err
	}
	for _, r := range w.redis {
		if err := l.addRedis(ctx, r.Addr); err != nil {
			return l, err
		}
	}
	l.consumers, err = consumers(ctx, w.js)
	return l, err
}

func (w *world) measureNATS(ctx context.Context) (conns, bytes int, err error) {
	nodes := []*testenv.NATSProcess{w.nats}
	if w.cluster != nil {
		nodes = nil
		for _, node := range w.cluster.Nodes {
			nodes = append(nodes, node)
		}
	}
	for _, node := range nodes {
		var page struct {
			Connections int `json:"connections"`
			Memory      int `json:"mem"`
		}
		if err := getJSON(ctx, node.Monitor+"/varz", &page); err != nil {
			return 0, 0, err
		}
		conns += page.Connections
		bytes += page.Memory
	}
	return conns, bytes, nil
}

func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	return json.NewDecoder(response.Body).Decode(into)
}

func (l *level) addRedis(ctx context.Context, addr string) error {
	client := redisClient(addr)
	defer client.Close()
	info, err := client.Info(ctx, "clients", "memory", "replication").Result()
	if err != nil {
		return err
	}
	l.redisConns += infoNumber(info, "connected_clients") - 1 // without the one that asks
	l.redisBytes += infoNumber(info, "used_memory")
	if !strings.Contains(info, "role:master") {
		return nil
	}
	size, err := client.DBSize(ctx).Result()
	l.keys += int(size)
	return err
}

func redisClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1, PoolSize: 1, DisableIdentity: true})
}

func infoNumber(info, field string) int {
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(line, field+":"); ok {
			number := 0
			_, _ = fmt.Sscan(text, &number) // 0 where it is none
			return number
		}
	}
	return 0
}

// consumers counts those of all streams, the durable ones and the readers'.
func consumers(ctx context.Context, js jetstream.JetStream) (int, error) {
	sum := 0
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		sum += info.State.Consumers
	}
	return sum, streams.Err()
}

// short tells whether the short form is played, which does not wait for what
// servers drop only after half a minute.
func short() bool { return os.Getenv("CHAOS_SHORT") != "" }

// awaitLevel waits until everything is back where it was before the load, the
// keys at what so many rounds leave at most.
func (w *world) awaitLevel(t *testing.T, before level, rounds int64) level {
	t.Helper()
	var now level
	within(t, time.Minute, "everything is back at its level", func() (err error) {
		if now, err = w.measure(); err != nil {
			return err
		}
		return now.wantAsLow(before, rounds)
	})
	return now
}

// allowProcessors raises the level by what so many more processors use.
func (l *level) allowProcessors(w *world, more int) {
	each := func(n int) int { return n / len(w.processors) * more }
	l.goroutines += each(l.goroutines)
	l.openFiles += each(l.openFiles)
	l.natsConns += more
	l.redisConns += each(l.redisConns)
	l.consumers += more // the one that watches the others; readers are one a partition
}

// wantAsLow allows for what a pool keeps open and for the runtime's own
// goroutines. The level before was measured after one round.
func (l level) wantAsLow(before level, rounds int64) error {
	var errs []error
	check := func(what string, got, limit int) {
		if got > limit {
			errs = append(errs, fmt.Errorf("%s: got %d, want at most %d; before there were %d", what, got, limit, map[string]int{
				"goroutines": before.goroutines, "NATS connections": before.natsConns, "Redis connections": before.redisConns,
				"consumers": before.consumers, "open files": before.openFiles, "keys": before.keys,
			}[what]))
		}
	}
	check("goroutines", l.goroutines, before.goroutines+before.goroutines/5+10)
	check("NATS connections", l.natsConns, before.natsConns)
	check("Redis connections", l.redisConns, before.redisConns+10)
	check("open files", l.openFiles, before.openFiles+15)
	check("keys", l.keys, int(int64(before.keys)*rounds/before.rounds)+before.besideKeys)
	if !short() {
		check("consumers", l.consumers, before.consumers)
	}
	return errors.Join(errs...)
}

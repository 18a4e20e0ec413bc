package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"runledger/internal/audit"
	"runledger/internal/demo"
	"runledger/internal/events"
	"runledger/internal/policy"
	"runledger/internal/stream"
	"runledger/internal/testenv"

	"github.com/redis/go-redis/v9"
)

func redisClient(t *testing.T, w *world) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: w.redis.Addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// awaitServing waits until a processor has taken a partition.
func awaitServing(t *testing.T, p *testenv.Processor) {
	t.Helper()
	eventually(t, "a processor serves", func() bool { return strings.Contains(p.LogTail(1<<16), "took partition") })
}

// playWhile plays the recorded runs once, slowly, while trouble is made every
// so often, and requires that they come out as ever.
func playWhile(t *testing.T, w *world, every time.Duration, trouble func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		times := 0
		for {
			select {
			case <-stop:
				stopped <- times
				return
			case <-time.After(every):
				trouble()
				times++
			}
		}
	}()
	_, err := demo.Play(ctx, demo.PlayConfig{Conn: w.nats.Conn(t), Transcripts: recorded(t), Parallel: 1})
	close(stop)
	if times := <-stopped; times < 3 {
		t.Errorf("trouble was made %d times, want at least 3", times)
	}
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Count(ctx, w.js, events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	wantRecorded(t, report, 1)
}

func TestRecordedRunsComeOutTheSameWhileRedisIsFlushed(t *testing.T) {
	w := newWorld(t, policy.Airline())
	awaitServing(t, w.serve(t, "one"))
	client := redisClient(t, w)
	playWhile(t, w, 100*time.Millisecond, func() {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestRecordedRunsComeOutTheSameWhileRedisIsKilledAndComesBackEmpty(t *testing.T) {
	w := newWorld(t, policy.Airline())
	awaitServing(t, w.serve(t, "one")) // one that finds no Redis at its start ends with an error
	playWhile(t, w, 200*time.Millisecond, func() {
		w.redis.Kill()
		w.redis.Restart()
	})
}

func TestRunWhoseKeyHoldsSomethingElseIsGivenUpAndTheOthersGoOn(t *testing.T) {
	w := newWorld(t, policy.Airline())
	w.serve(t, "one")
	if err := redisClient(t, w).Set(t.Context(), "runledger.run:{taken}", "another's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	h := newHand(t, w)
	h.publish(t, "agent.me.taken.run.start", "harness.run.start.v1",
		`{"run_id":"taken","session_id":"s","deadline":"2030-01-01T00:00:00Z","limits":{"model_calls":1,"tool_calls":1,"calls_per_tool":1,"input_tokens":1,"output_tokens":1,"total_tokens":1,"run_bytes":1}}`)
	rejected := h.await(t, "run.rejected")
	if rejected.data["code"] != "INTERNAL_ERROR" || rejected.sequence != "" {
		t.Errorf("got %v, want INTERNAL_ERROR outside any history", rejected.data)
	}
	kept, err := w.js.Stream(t.Context(), stream.StreamInvalid)
	if err != nil {
		t.Fatal(err)
	}
	letter, err := kept.GetLastMsgForSubject(t.Context(), "harness.v1.invalid.agent.me.*")
	if err != nil {
		t.Fatal(err)
	}
	if reason := letter.Header.Get("Runledger-Reason"); reason != "STORE_CONFLICT" {
		t.Errorf("kept as %q, want STORE_CONFLICT", reason)
	}
	h.start(t, "other", time.Minute)
}

func TestAFullRedisHoldsTheEventsAndShowsAsUnready(t *testing.T) {
	w := newWorld(t, policy.Airline())
	listen := testenv.FreeAddress(t)
	w.serve(t, "one", "--listen", listen)
	client, h := redisClient(t, w), newHand(t, w)
	page := func() string {
		response, err := http.Get("http://" + listen + "/readyz") //nolint:noctx // a test of our own
		if err != nil {
			return err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err.Error()
		}
		return string(body)
	}
	eventually(t, "ready", func() bool { return page() == "ready\n" })
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	h.start(t, "held", time.Minute) // its fact is stored; the store cannot take it
	eventually(t, "unready", func() bool { return strings.Contains(page(), "partitions are held") })
	if err := client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready again", func() bool { return page() == "ready\n" })
	eventually(t, "the run in the store", func() bool { return client.Exists(t.Context(), "runledger.run:{held}").Val() == 1 })
}

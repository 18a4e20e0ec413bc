package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// lossy is a JetStream whose publishes may go unanswered, stored or not.
type lossy struct {
	jetstream.JetStream
	before func(*nats.Msg) bool // true: the publish is lost
	after  func(*nats.Msg) bool // true: its answer is lost
}

func (l *lossy) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if l.before != nil && l.before(msg) {
		return nil, context.DeadlineExceeded
	}
	ack, err := l.JetStream.PublishMsg(ctx, msg, opts...)
	if err == nil && l.after != nil && l.after(msg) {
		return nil, context.DeadlineExceeded
	}
	return ack, err
}

// once is true the first time.
func once() func(*nats.Msg) bool {
	var done atomic.Bool
	return func(*nats.Msg) bool { return done.CompareAndSwap(false, true) }
}

func testClaims(t *testing.T, js jetstream.JetStream) *claims {
	t.Helper()
	c, err := openClaims(testContext(t), js, "desk", time.Second, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFirstClaimWinsAndSecondLoses(t *testing.T) {
	_, _, js := withStreams(t)
	c := testClaims(t, js)
	for i, want := range []bool{true, false, false} {
		mine, err := c.claim(testContext(t), "run.1")
		if err != nil || mine != want {
			t.Errorf("claim %d: got %v, %v, want %v", i, mine, err, want)
		}
	}
	entry, err := c.bucket.Get(testContext(t), "run.1")
	if err != nil || !strings.HasPrefix(string(entry.Value()), "desk ") {
		t.Errorf("the bucket holds %v, %v, want a value that names the executor", entry, err)
	}
}

func TestClaimWhoseAnswerWasLostIsReadBack(t *testing.T) {
	_, _, js := withStreams(t)
	for name, c := range map[string]struct {
		js   *lossy
		want bool
	}{
		"stored":            {&lossy{JetStream: js, after: once()}, true},
		"not stored":        {&lossy{JetStream: js, before: once()}, true},
		"another was first": {&lossy{JetStream: js, before: once()}, false},
	} {
		dispatch := strings.ReplaceAll(name, " ", "-") + ".1"
		if name == "another was first" {
			if mine, err := testClaims(t, js).claim(testContext(t), dispatch); err != nil || !mine {
				t.Fatalf("the other's claim: %v, %v", mine, err)
			}
		}
		mine, err := testClaims(t, c.js).claim(testContext(t), dispatch)
		if err != nil || mine != c.want {
			t.Errorf("%s: got %v, %v, want %v", name, mine, err, c.want)
		}
	}
}

func TestClaimIsWonOnceWhateverIsLost(t *testing.T) {
	_, _, js := withStreams(t)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	sometimes := func(*nats.Msg) bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(3) == 0
	}
	c := testClaims(t, &lossy{JetStream: js, before: sometimes, after: sometimes})
	for d := range 20 {
		dispatch := fmt.Sprintf("run.%d", d)
		var won atomic.Int64
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				mine, err := c.claim(testContext(t), dispatch)
				if err != nil {
					t.Errorf("%s: %v", dispatch, err)
				}
				if mine {
					won.Add(1)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%s was won %d times, want once", dispatch, won.Load())
		}
	}
}

func TestClaimEndsWithItsContext(t *testing.T) {
	_, _, js := withStreams(t)
	c := testClaims(t, &lossy{JetStream: js, before: func(*nats.Msg) bool { return true }})
	ctx, cancel := context.WithTimeout(testContext(t), 100*time.Millisecond)
	defer cancel()
	if mine, err := c.claim(ctx, "run.1"); err == nil || mine {
		t.Errorf("got %v, %v, want an error", mine, err)
	}
}

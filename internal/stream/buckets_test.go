package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runledger/internal/testenv"
)

func TestPoliciesKeepWhatADigestNamed(t *testing.T) {
	_, nc, js := withTopology(t, DefaultOptions())
	policies := NewPolicies(js, testPublisher(t, nc, PublisherConfig{}))
	ctx := testContext(t)
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	if _, err := policies.Get(ctx, digest); !errors.Is(err, ErrNotFound) {
		t.Errorf("before: got %v, want ErrNotFound", err)
	}
	for range 2 {
		if err := policies.Put(ctx, digest, []byte("tools: []\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := policies.Put(ctx, digest, []byte("tools: [x]\n")); err == nil || !strings.Contains(err.Error(), "other bytes") {
		t.Errorf("other bytes: got %v, want refused", err)
	}
	if got, err := policies.Get(ctx, digest); string(got) != "tools: []\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"", "short", "0123456789abcdef.*", strings.Repeat("a", 161)} {
		if err := policies.Put(ctx, bad, []byte("x")); err == nil {
			t.Errorf("digest %q was taken", bad)
		}
	}
}

// TestPolicyThatAnotherIsJustPuttingIsPut stands in for a bucket with replicas:
// it refuses at first because another publish on the subject is under way, of
// which nothing can be read yet.
func TestPolicyThatAnotherIsJustPuttingIsPut(t *testing.T) {
	nc := connect(t, testenv.StartNATS(t).URL)
	js := jetStream(t, nc)
	if _, err := js.CreateStream(testContext(t), jetstream.StreamConfig{Name: "KV_POLICIES", Subjects: []string{"nothing"}}); err != nil {
		t.Fatal(err)
	}
	answers := []string{`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`, `{"stream":"KV_POLICIES","seq":1}`}
	asked := 0
	sub, err := nc.Subscribe("$KV.POLICIES.>", func(msg *nats.Msg) {
		_ = msg.Respond([]byte(answers[min(asked, 1)]))
		asked++
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	policies := NewPolicies(js, testPublisher(t, nc, PublisherConfig{}))
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	if err := policies.Put(testContext(t), digest, []byte("tools: []\n")); err != nil {
		t.Errorf("got %v, want that it is tried again", err)
	}
}

func TestClaimGoesToExactlyOne(t *testing.T) {
	_, nc, js := withTopology(t, DefaultOptions())
	publisher := testPublisher(t, nc, PublisherConfig{})
	ctx := testContext(t)
	const dispatches, processes = 20, 8
	var won [dispatches]atomic.Int32
	var all sync.WaitGroup
	for p := range processes {
		claims := NewClaims(js, publisher, fmt.Sprintf("process-%d", p))
		all.Go(func() {
			for d := range dispatches {
				mine, err := claims.Claim(ctx, fmt.Sprintf("run-1.%d", d))
				if err != nil {
					t.Error(err)
				}
				if mine {
					won[d].Add(1)
				}
			}
		})
	}
	all.Wait()
	for d := range won {
		if n := won[d].Load(); n != 1 {
			t.Errorf("dispatch %d went to %d processes, want 1", d, n)
		}
	}
	if mine, err := NewClaims(js, publisher, "process-0").Claim(ctx, "run-1.0"); mine || err != nil {
		t.Errorf("claimed again: got %v, %v, want false", mine, err)
	}
}

func TestClaimWhoseAnswerWasLostIsRecognizedAsOnesOwn(t *testing.T) {
	_, nc, js := withTopology(t, DefaultOptions())
	publisher := testPublisher(t, nc, PublisherConfig{})
	claims := NewClaims(js, publisher, "process-1")
	// The first attempt of token-a, stored without an answer.
	if _, err := wait(t, publisher.Publish(&nats.Msg{Subject: "$KV.CLAIMS.run-1.1", Data: []byte("token-a")}, ExpectNew())); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{"token-b": false, "token-a": true} {
		if mine, err := claims.claim(testContext(t), "run-1.1", token); mine != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", token, mine, err, want)
		}
	}
}

func TestClaimThatCannotBeAnsweredEndsWithTheContext(t *testing.T) {
	server, nc, js := withTopology(t, DefaultOptions())
	claims := NewClaims(js, testPublisher(t, nc, PublisherConfig{}), "process-1")
	server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if mine, err := claims.Claim(ctx, "run-1.1"); mine || !errors.Is(err, ErrUnanswered) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v, want ErrUnanswered and the context's error", mine, err)
	}
}

func TestClaimRefusesNamesThatABucketDoesNotTake(t *testing.T) {
	_, nc, js := withTopology(t, DefaultOptions())
	claims := NewClaims(js, testPublisher(t, nc, PublisherConfig{}), "process-1")
	for _, bad := range []string{"", "a..b", "a.*", ">", "a b", ".a", strings.Repeat("a", 513)} {
		if mine, err := claims.Claim(testContext(t), bad); mine || err == nil {
			t.Errorf("%q: got %v, %v, want an error", bad, mine, err)
		}
	}
}

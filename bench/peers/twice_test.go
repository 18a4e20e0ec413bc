package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"runledger/internal/devserver"
)

// What the guarantees say of an intent that comes twice, while nothing is lost.

func startRedis(t *testing.T) string {
	t.Helper()
	r, err := devserver.StartRedisProcess(t.Context(), devserver.RedisConfig{Dir: t.TempDir(), AppendOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r.Addr()
}

func closeAfter(t *testing.T, p peer) {
	t.Helper()
	t.Cleanup(func() {
		if err := p.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestWatermillsDeduplicatorOnRedisKnowsACallAgain(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: startRedis(t)})
	defer client.Close()
	decided, claimed := seen{client, "decided:"}, seen{client, "claimed:"}
	for _, step := range []struct {
		by   seen
		call string
		want bool
	}{
		{decided, "1", false}, {decided, "1", true}, {decided, "2", false}, {claimed, "1", false}, {claimed, "1", true},
	} {
		if got, err := step.by.IsDuplicate(t.Context(), step.call); err != nil || got != step.want {
			t.Errorf("%s%s: got %v, %v, want %v", step.by.prefix, step.call, got, err, step.want)
		}
	}
	if ttl, err := client.TTL(t.Context(), "decided:1").Result(); err != nil || ttl <= 0 || ttl > recordAge {
		t.Errorf("the mark expires in %v (%v), want within %v", ttl, err, recordAge)
	}
}

func TestAsynqRefusesACallAgainThatIsCompleted(t *testing.T) {
	l := &ledger{}
	p, err := openAsynq(startRedis(t), l, false)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, p)
	if err := p.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := waitCompleted(t.Context(), p, 1); err != nil {
		t.Fatal(err)
	}
	if err := p.(*asynqPeer).enqueue(t.Context(), 0); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("got %v, want %v", err, asynq.ErrTaskIDConflict)
	}
}

func TestTemporalDoesNotExecuteACallAgainThatIsCompleted(t *testing.T) {
	for name, form := range map[string]temporalForm{"workflow": callWorkflows, "standalone activity": callStandalone} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{}
			p, err := openTemporal(t.Context(), t.TempDir(), l, form)
			if err != nil {
				t.Fatal(err)
			}
			closeAfter(t, p)
			if err := p.take(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := p.(*temporalPeer).asWorkflow
			if form == callStandalone {
				again = p.(*temporalPeer).asActivity
			}
			t.Logf("asked again: %v", again(t.Context(), 0)) // it may refuse, or give the first one's result
			if got := l.tally(); got.Executed != 1 || got.ExecutedMore != 0 {
				t.Errorf("calls came to %+v, want the one executed once", got)
			}
		})
	}
}

// told is a peer that tells of so many completed calls, one answer after the
// other, and repeats the last.
type told struct {
	peer
	answers []int
}

func (p *told) completed(context.Context) (int, error) {
	answer := p.answers[0]
	if len(p.answers) > 1 {
		p.answers = p.answers[1:]
	}
	return answer, nil
}

func TestAPlayFailsUnlessTheToolTellsOfEveryCall(t *testing.T) {
	for name, c := range map[string]struct {
		answers []int
		fails   string
	}{
		"at once":    {[]int{3}, ""},
		"runs after": {[]int{0, 2, 3}, ""},
		"too few":    {[]int{2}, "tells of 2 completed calls, want 3"},
		"too many":   {[]int{4}, "tells of 4 completed calls, want 3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := waitCompleted(t.Context(), &told{answers: c.answers}, 3)
				if c.fails == "" && err != nil {
					t.Errorf("got %v, want no error", err)
				}
				if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
					t.Errorf("got %v, want an error with %q", err, c.fails)
				}
			})
		})
	}
}

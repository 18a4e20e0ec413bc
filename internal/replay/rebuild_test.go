package replay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/policy"
	"runledger/internal/replay"
	"runledger/internal/store"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// content is every key with what it holds and when it expires.
func content(t *testing.T, client *redis.Client) map[string]string {
	t.Helper()
	ctx := t.Context()
	all := map[string]string{}
	for _, key := range client.Keys(ctx, "*").Val() {
		expires := client.PExpireTime(ctx, key).Val().Milliseconds()
		if client.Type(ctx, key).Val() == "list" {
			all[key] = fmt.Sprintf("%d %q", expires, client.LRange(ctx, key, 0, -1).Val())
			continue
		}
		fields := client.HGetAll(ctx, key).Val()
		delete(fields, "timer_at") // the schedule of the run that ended by its deadline has gone
		all[key] = fmt.Sprintf("%d %q", expires, fields)
	}
	return all
}

func rebuilder(t *testing.T, i *installation, change func(*replay.RebuildConfig)) *replay.Rebuilder {
	t.Helper()
	subjects, err := events.NewSubjects(events.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	cfg := replay.RebuildConfig{
		Subjects: subjects, History: stream.NewHistory(i.js, zerolog.Nop()), Store: i.store, Clock: time.Now,
	}
	change(&cfg)
	b, err := replay.NewRebuilder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRedisIsWrittenAsItWasHoweverLittleIsHeld(t *testing.T) {
	i := install(t, policy.Airline())
	i.odd(t)
	i.settle(t)
	client := redis.NewClient(&redis.Options{Addr: i.redis})
	t.Cleanup(func() { _ = client.Close() })
	before := content(t, client)
	if len(before) < 15 {
		t.Fatalf("%d keys, want those of 4 runs", len(before))
	}
	wantBefore := func(name string) {
		t.Helper()
		if after := content(t, client); !maps.Equal(after, before) {
			for key := range before {
				if after[key] != before[key] {
					t.Errorf("%s: %s\n  got  %s\n  want %s", name, key, after[key], before[key])
				}
			}
		}
	}
	for name, change := range map[string]func(*replay.RebuildConfig){
		"in one go":     func(*replay.RebuildConfig) {},
		"holding least": func(c *replay.RebuildConfig) { c.HoldBytes, c.BatchBytes, c.BatchRuns = 1, 1, 1 },
	} {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		b := rebuilder(t, i, change)
		if err := b.All(t.Context(), i.streams, i.survey(t)); err != nil {
			t.Fatal(err)
		}
		if done := b.Done(); done.Runs != 4 || done.Records != 5 || done.FailedCount != 0 {
			t.Errorf("%s: got %+v, want 4 runs with 5 records: 2 of early, and one of each other", name, done)
		}
		wantBefore(name)
		if err := b.All(t.Context(), i.streams, i.survey(t)); err != nil { // once more, over what stands
			t.Fatal(err)
		}
		wantBefore(name + ", twice")
	}

	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	tomorrow := func(c *replay.RebuildConfig) { c.Clock = func() time.Time { return time.Now().Add(48 * time.Hour) } }
	for name, do := range map[string]func(*replay.Rebuilder) error{
		"all": func(b *replay.Rebuilder) error { return b.All(t.Context(), i.streams, i.survey(t)) },
		"named": func(b *replay.Rebuilder) error {
			return b.Runs(t.Context(), []string{"early", "short", "poor", "open"})
		},
	} {
		b := rebuilder(t, i, tomorrow)
		if err := do(b); err != nil {
			t.Fatal(err)
		}
		if done := b.Done(); done.Expired != 4 || done.Runs != 0 || len(content(t, client)) != 0 {
			t.Errorf("%s: got %+v and %d keys, want 4 runs left expired and nothing written", name, done, len(content(t, client)))
		}
	}
	if oldest, err := replay.Unexpired(t.Context(), i.streams, time.Unix(1e9, 0)); err != nil || !oldest.Equal(time.Unix(1e9, 0).Add(-25*time.Hour-time.Minute)) {
		t.Errorf("got %v, %v, want what the policy's hour and day, and a minute for clocks, go back", oldest, err)
	}
}

// refusing is a store that refuses one run.
type refusing struct{ *store.Store }

func (r refusing) Project(ctx context.Context, projections []store.Projection) []error {
	errs := r.Store.Project(ctx, projections)
	for i := range projections {
		if projections[i].Run.ID == "early" {
			errs[i] = fmt.Errorf("%w: of another kind", store.ErrConflict)
		}
	}
	return errs
}

// TestWhatDoesNotComeIsWaitedForOnlySoLong asks for facts that the stream does not
// have, as from a server that has gone away.
func TestWhatDoesNotComeIsWaitedForOnlySoLong(t *testing.T) {
	i := install(t, policy.Airline())
	i.start(t, "early", time.Minute, 1)
	i.settle(t)
	i.streams.SetPatience(300 * time.Millisecond)
	stretch := i.survey(t)
	stretch.FactsTo += 10
	_, err := replay.Verify(t.Context(), replay.VerifyConfig{Prefix: events.DefaultPrefix, Streams: i.streams, Policies: i.streams, Stretch: stretch})
	if err == nil || !strings.Contains(err.Error(), "read RUNS: no message of RUNS came for 300ms, and more are there: nats-server does not answer") {
		t.Errorf("got %v, want that it does not answer", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = replay.Verify(ctx, replay.VerifyConfig{Prefix: events.DefaultPrefix, Streams: i.streams, Policies: i.streams, Stretch: stretch})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

func TestARunThatCannotBeWrittenIsNamedAndTheOthersAreWritten(t *testing.T) {
	i := install(t, policy.Airline())
	i.start(t, "early", time.Minute, 1)
	i.start(t, "other", time.Minute, 1)
	i.settle(t)
	b := rebuilder(t, i, func(c *replay.RebuildConfig) { c.Store = refusing{i.store} })
	if err := b.All(t.Context(), i.streams, i.survey(t)); err != nil {
		t.Fatal(err)
	}
	done := b.Done()
	if done.Runs != 1 || done.FailedCount != 1 || !strings.HasPrefix(done.Failed[0], "run early: ") {
		t.Errorf("got %+v, want run early named, and one written", done)
	}
	if err := b.Runs(t.Context(), []string{"nobody"}); err != nil || b.Done().Unknown != 1 {
		t.Errorf("got %+v, %v, want a run without facts counted", b.Done(), err)
	}
	for _, subject := range []string{"fact.me.zz.\x1b[31mx.y", "fact.me.late.run.started"} { // neither stops the others
		_, err := i.js.PublishMsg(t.Context(), &nats.Msg{
			Subject: events.DefaultPrefix + "." + subject, Data: []byte("garbage"),
			Header: nats.Header{"ce-time": {"2026-12-01T00:25:36.166Z"}, "ce-causationsequence": {"1"}, "ce-rulesversion": {"1"}, "ce-sequence": {"00000000000000000001"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b = rebuilder(t, i, func(*replay.RebuildConfig) {})
	if err := b.All(t.Context(), i.streams, i.survey(t)); err != nil || b.Done().Runs != 2 || b.Done().FailedCount != 2 {
		t.Errorf("got %+v, %v, want two runs written, and two named", b.Done(), err)
	}
	if failed := strings.Join(b.Done().Failed, ""); strings.ContainsRune(failed, 0x1b) || !strings.Contains(failed, "run zz: ") {
		t.Errorf("got %q, want run zz named, without a control character", failed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Runs(ctx, []string{"other"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

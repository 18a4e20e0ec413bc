package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"

	"github.com/redis/go-redis/v9"
)

// canaryLife is when a canary expires, if it cannot be deleted. It also bounds
// how far our clock and the server's may be apart.
const canaryLife = time.Minute

// commands are all that the store uses, those of the script included.
const commands = "INFO, HELLO, PING, EVALSHA, EVAL, TIME, EXISTS, DEL, PEXPIREAT, HSET, HDEL, HLEN, HMGET, HGETALL, LLEN, LRANGE and RPUSH"

// Check tries, at start, what the store will need: that the server forgets
// nothing by itself, and that the script and all other commands run, on keys of
// a canary. The error says what to change; it is ErrUnavailable where trying
// again may help.
func (s *Store) Check(ctx context.Context) error {
	if err := s.checkEviction(ctx); err != nil {
		return err
	}
	return s.checkCanary(ctx)
}

// checkEviction asks every master of a cluster, or the one server.
func (s *Store) checkEviction(ctx context.Context) error {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return checkNode(ctx, node)
		})
	}
	return checkNode(ctx, s.client)
}

// processor is what all clients can do.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// checkNode asks for the eviction policy by INFO, which more operators grant
// than CONFIG. miniredis does not know that section, and evicts nothing; whoever
// else does not tell is refused.
func checkNode(ctx context.Context, node processor) error {
	info := redis.NewStringCmd(ctx, "INFO", "memory")
	err := node.Process(ctx, info)
	policy := ""
	for line := range strings.Lines(info.Val()) {
		if value, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			policy = strings.TrimSpace(value)
		}
	}
	switch {
	case policy == "noeviction":
		return nil
	case policy != "":
		return fmt.Errorf("eviction policy of Redis: want noeviction, got %.40q, by which it would forget records; set maxmemory-policy noeviction", policy)
	case err != nil && !strings.Contains(err.Error(), "is not supported"):
		return fmt.Errorf("ask Redis for its eviction policy: %w", classify(err))
	case isMiniredis(ctx, node):
		return nil
	}
	return errors.New("eviction policy of Redis: want noeviction, and the server does not tell (INFO memory has no maxmemory_policy); use a server that does")
}

func isMiniredis(ctx context.Context, node processor) bool {
	hello := redis.NewSliceCmd(ctx, "HELLO", "2")
	if err := node.Process(ctx, hello); err != nil {
		return false
	}
	values := hello.Val()
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == "server" {
			return values[i+1] == "miniredis"
		}
	}
	return false
}

// checkCanary takes a run that no agent can start through all that the store
// does, and removes it.
func (s *Store) checkCanary(ctx context.Context) error {
	keys, record := s.keys.canary(rand.Text())
	start := canary(time.Now().UTC().Truncate(time.Millisecond))
	err := s.tryCanary(ctx, start, keys, record)
	remove := redis.NewIntCmd(ctx, "DEL", keys.run, keys.done, keys.ops, record)
	s.send(ctx, remove)
	if err == nil {
		err = classify(remove.Err())
	}
	if err != nil {
		return fmt.Errorf("try the store on a canary: %w; the user of Redis needs %s, on all keys that begin with the prefix", err, commands)
	}
	return nil
}

func (s *Store) tryCanary(ctx context.Context, p Projection, keys runKeys, record string) error {
	calls, err := stages(&p, keys, []string{record})
	if err != nil {
		return err
	}
	s.evaluate(ctx, calls)
	for _, call := range calls {
		reply, err := call.reply()
		if err != nil {
			return err
		}
		if reply == replyExpired {
			return fmt.Errorf("what expires in %v has expired: the clocks of this machine and of Redis are that far apart; set them right", canaryLife)
		}
		if err := answer(reply); err != nil {
			return err
		}
	}
	run := redis.NewMapStringStringCmd(ctx, "HGETALL", keys.run)
	light, list := lightRecord(ctx, record), listed(ctx, keys.done, 0)
	operations := redis.NewIntCmd(ctx, "HLEN", keys.ops)
	s.send(ctx, run, light, list, operations)
	for _, cmd := range []redis.Cmder{run, light, list, operations} {
		if err := classify(cmd.Err()); err != nil {
			return err
		}
	}
	read, err := decodeRun(run.Val(), p.Run.ID)
	if err != nil {
		return err
	}
	if read == nil || read.Sequence != p.Run.Sequence || len(list.Val()) != 1 || light.Val()[0] != layoutVersion || operations.Val() != 3 {
		return errors.New("what was written is not what is read; want one server, or a cluster, whose masters answer")
	}
	return nil
}

// canary is a run with one call, settled, and one model operation, open.
func canary(now time.Time) Projection {
	run := &harness.Run{
		ID: "canary", Agent: "canary", Phase: harness.PhaseRunning, Sequence: 4, Digest: "canary",
		StartedAt: now, At: now, Deadline: now, ExpiresAt: now.Add(canaryLife),
		Calls: map[events.Status]int64{events.StatusError: 1}, Usage: events.Usage{ModelCalls: 1},
	}
	record := &harness.Record{
		RunID: run.ID, ToolCallID: "canary", Tool: "canary", Executor: "canary", Call: 2,
		Status: events.StatusError, Evidence: events.EvidenceError, Code: events.CodeRunTerminated,
		ReservedAt: now, Deadline: now, SettledAt: now, ExpiresAt: run.ExpiresAt,
	}
	operation := &harness.ModelOperation{
		ID: "canary", Operation: events.OperationIntentRouter, Attempts: 1, Open: true, Granted: events.Cause{ID: "canary"},
	}
	return Projection{
		Run: run, Records: []RecordChange{{Record: record, Reserved: true, Settled: true}},
		Operations: []*harness.ModelOperation{operation},
	}
}

package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"runledger/internal/devserver"

	"github.com/redis/go-redis/v9"
)

// This file has the ways in which a Redis comes back with less than it had.

// snapshotFile is redis-server's own name for its dump.
const snapshotFile = "dump.rdb"

// administer calls fn with a client of the server, and fails the test, which
// goes on, where fn fails.
func (r *Redis) administer(what string, fn func(context.Context, *redis.Client) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	client := devserver.AdminClient(r.Addr)
	defer func() { _ = client.Close() }()
	check(r.t, what+" of redis-server "+r.Addr, fn(ctx, client))
}

// FlushAll takes away everything that it holds.
func (r *Redis) FlushAll() {
	r.t.Helper()
	r.administer("FLUSHALL", func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() })
}

// SetMaxMemory limits its memory, in bytes; 0 is no limit.
func (r *Redis) SetMaxMemory(bytes int) {
	r.t.Helper()
	r.administer("set maxmemory", func(ctx context.Context, c *redis.Client) error {
		return c.ConfigSet(ctx, "maxmemory", fmt.Sprint(bytes)).Err()
	})
}

// Snapshot is what a Redis held at one instant.
type Snapshot struct{ data []byte }

// TakeSnapshot saves what it holds now.
func (r *Redis) TakeSnapshot() Snapshot {
	r.t.Helper()
	var s Snapshot
	r.administer("save a snapshot", func(ctx context.Context, c *redis.Client) error {
		if err := c.Save(ctx).Err(); err != nil {
			return err
		}
		var err error
		s.data, err = os.ReadFile(filepath.Join(r.dir, snapshotFile))
		return err
	})
	return s
}

// RestoreSnapshot kills the server and starts it with what it held when the
// snapshot was taken, and nothing of what came later. The server must not keep
// an append-only file.
func (r *Redis) RestoreSnapshot(s Snapshot) {
	r.t.Helper()
	r.Kill()
	check(r.t, "put the snapshot back", os.WriteFile(filepath.Join(r.dir, snapshotFile), s.data, 0o600))
	r.Restart()
}

// Follow makes the server a replica of another and returns when it has all that
// the other has.
func (r *Redis) Follow(master *Redis) {
	r.t.Helper()
	host, port := hostPort(master.Addr)
	r.administer("follow "+master.Addr, func(ctx context.Context, c *redis.Client) error {
		if err := c.ReplicaOf(ctx, host, port).Err(); err != nil {
			return err
		}
		return poll(ctx, func() error { return wantInfo(ctx, c, "replication", "master_link_status", "up") })
	})
}

// Detach ends the following: the server is a master with what it has.
func (r *Redis) Detach() {
	r.t.Helper()
	r.administer("detach", func(ctx context.Context, c *redis.Client) error { return c.ReplicaOf(ctx, "NO", "ONE").Err() })
}

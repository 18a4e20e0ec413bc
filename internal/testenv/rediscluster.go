package testenv

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"runledger/internal/devserver"

	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters = 3
	// clusterSlots is how many slots a Redis Cluster has.
	clusterSlots = 16384
)

// RedisCluster is a Redis Cluster of three masters, each with one replica that
// takes over by itself when its master does not answer for a second.
type RedisCluster struct {
	Masters  []*Redis // as it began
	Replicas []*Redis // of the master with the same index, as it began

	t testing.TB
}

// StartRedisCluster starts a cluster that ends with the test.
func StartRedisCluster(t testing.TB) *RedisCluster {
	t.Helper()
	c := &RedisCluster{t: t}
	for range clusterMasters {
		c.Masters = append(c.Masters, startClusterNode(t))
		c.Replicas = append(c.Replicas, startClusterNode(t))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := c.join(ctx); err != nil {
		t.Fatalf("testenv: Redis Cluster: %v", err)
	}
	return c
}

func startClusterNode(t testing.TB) *Redis {
	t.Helper()
	return StartRedis(t, RedisConfig{AppendOnly: true, Args: []string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0",
		"--repl-diskless-sync-delay", "0",
	}})
}

// Addrs are the addresses of all nodes, separated by commas.
func (c *RedisCluster) Addrs() string {
	var addrs []string
	for _, node := range c.nodes() {
		addrs = append(addrs, node.Addr)
	}
	return strings.Join(addrs, ",")
}

func (c *RedisCluster) nodes() []*Redis {
	return append(append([]*Redis{}, c.Masters...), c.Replicas...)
}

// join makes one cluster of the nodes.
func (c *RedisCluster) join(ctx context.Context) error {
	first := c.Masters[0]
	host, port := hostPort(first.Addr)
	for i, master := range c.Masters {
		from, to := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1
		if err := ask(master, func(client *redis.Client) error { return client.ClusterAddSlotsRange(ctx, from, to).Err() }); err != nil {
			return fmt.Errorf("slots of %s: %w", master.Addr, err)
		}
	}
	for _, node := range c.nodes()[1:] {
		if err := ask(node, func(client *redis.Client) error { return client.ClusterMeet(ctx, host, port).Err() }); err != nil {
			return fmt.Errorf("%s meets %s: %w", node.Addr, first.Addr, err)
		}
	}
	for _, node := range c.nodes() { // before, a replica may not know its master
		if err := poll(ctx, func() error { return knowsAll(ctx, node) }); err != nil {
			return err
		}
	}
	for i, replica := range c.Replicas {
		if err := follow(ctx, replica, c.Masters[i]); err != nil {
			return fmt.Errorf("%s follows %s: %w", replica.Addr, c.Masters[i].Addr, err)
		}
	}
	return poll(ctx, func() error { return c.whole(ctx) })
}

func follow(ctx context.Context, replica, master *Redis) error {
	var id string
	if err := ask(master, func(client *redis.Client) (err error) {
		id, err = client.ClusterMyID(ctx).Result()
		return err
	}); err != nil {
		return err
	}
	return poll(ctx, func() error {
		return ask(replica, func(client *redis.Client) error { return client.ClusterReplicate(ctx, id).Err() })
	})
}

// AwaitWhole waits until every node that runs sees the cluster whole and each
// replica has its master's data. It may be called from any goroutine; where it
// does not come to pass, the test fails and goes on.
func (c *RedisCluster) AwaitWhole() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 60*time.Second)
	defer cancel()
	check(c.t, "wait for the whole Redis Cluster", poll(ctx, func() error { return c.whole(ctx) }))
}

func (c *RedisCluster) whole(ctx context.Context) error {
	replicas := 0
	for _, node := range c.nodes() {
		err := ask(node, func(client *redis.Client) error {
			info, err := client.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			if !strings.Contains(info, "cluster_state:ok") {
				return fmt.Errorf("%s says of the cluster:\n%s", node.Addr, info)
			}
			if wantInfo(ctx, client, "replication", "role", "slave") == nil {
				replicas++
				return wantInfo(ctx, client, "replication", "master_link_status", "up")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if replicas != clusterMasters {
		return fmt.Errorf("%d nodes are replicas, want %d", replicas, clusterMasters)
	}
	return nil
}

func knowsAll(ctx context.Context, node *Redis) error {
	return ask(node, func(client *redis.Client) error {
		info, err := client.ClusterInfo(ctx).Result()
		if err == nil && !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", 2*clusterMasters)) {
			err = fmt.Errorf("%s does not know all nodes yet:\n%s", node.Addr, info)
		}
		return err
	})
}

// ask calls fn with a client of one node.
func ask(node *Redis, fn func(*redis.Client) error) error {
	client := devserver.AdminClient(node.Addr)
	defer func() { _ = client.Close() }()
	return fn(client)
}

// wantInfo wants a field of INFO to have a value.
func wantInfo(ctx context.Context, client *redis.Client, section, field, want string) error {
	info, err := client.Info(ctx, section).Result()
	if err != nil {
		return err
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			if value = strings.TrimSpace(value); value != want {
				return fmt.Errorf("%s is %q, want %q", field, value, want)
			}
			return nil
		}
	}
	return fmt.Errorf("INFO %s has no %s", section, field)
}

// poll tries until it succeeds or the context ends.
func poll(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, the last: %w", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func hostPort(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr) // our own servers' addresses are well formed
	return host, port
}

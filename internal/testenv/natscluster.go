package testenv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATSCluster is three nats-servers with JetStream, each a process of its own,
// so that streams can have three replicas.
type NATSCluster struct {
	Nodes map[string]*NATSProcess // by server name: n1, n2, n3

	t testing.TB
}

// StartNATSCluster starts a cluster that ends with the test. It answers when
// the nodes have found each other; until then streams may be refused.
func StartNATSCluster(t testing.TB) *NATSCluster {
	t.Helper()
	names := []string{"n1", "n2", "n3"}
	addresses := map[string]string{}
	var routes []string
	for _, name := range names {
		addresses[name] = FreeAddress(t)
		routes = append(routes, fmt.Sprintf("%q", "nats://"+addresses[name]))
	}
	c := &NATSCluster{Nodes: map[string]*NATSProcess{}, t: t}
	for _, name := range names {
		c.Nodes[name] = StartNATSProcess(t, NATSConfig{Monitored: true, Settings: fmt.Sprintf(
			"server_name: %s\ncluster { name: test, listen: %q, routes: [%s] }\n", name, addresses[name], strings.Join(routes, ", "))})
	}
	return c
}

// URLs are the addresses of all nodes, as clients take them.
func (c *NATSCluster) URLs() string {
	var urls []string
	for _, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		urls = append(urls, c.Nodes[name].URL)
	}
	return strings.Join(urls, ",")
}

// Conn connects a client to whichever node answers; see NATS.Conn.
func (c *NATSCluster) Conn(t testing.TB) *nats.Conn {
	t.Helper()
	return connect(t, c.URLs())
}

// Leader waits until a stream has a leader and two replicas that are up to
// date, and gives the leader's name. It may be called from any goroutine; the
// error says that the context ended first.
func (c *NATSCluster) Leader(ctx context.Context, js jetstream.JetStream, stream string) (string, error) {
	for {
		leader, err := leaderOf(ctx, js, stream)
		if err == nil {
			return leader, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("testenv: leader of stream %s: %w, the last: %w", stream, ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func leaderOf(ctx context.Context, js jetstream.JetStream, stream string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return "", err
	}
	cluster := s.CachedInfo().Cluster
	if cluster == nil || cluster.Leader == "" {
		return "", fmt.Errorf("stream %s has no leader", stream)
	}
	for _, replica := range cluster.Replicas {
		if !replica.Current || replica.Offline {
			return "", fmt.Errorf("replica %s of stream %s is not up to date", replica.Name, stream)
		}
	}
	return cluster.Leader, nil
}

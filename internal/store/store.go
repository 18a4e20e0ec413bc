package store

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Store is a client of the projection. It is safe for use by several
// goroutines. Only [Store.Project] writes.
type Store struct {
	client redis.UniversalClient
	keys   keys
}

// New uses a client that somebody else made, and takes it over: Close closes
// it. The client must not retry on its own; see [Config] for what else it needs.
// allowColon lets tool call ids hold a colon.
func New(client redis.UniversalClient, keyPrefix string, allowColon bool) (*Store, error) {
	keys, err := newKeys(keyPrefix, allowColon)
	if err != nil {
		return nil, err
	}
	return &Store{client: client, keys: keys}, nil
}

// Ping reports whether the store answers. The error is ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error {
	return classify(s.client.Process(ctx, once{redis.NewStatusCmd(ctx, "PING")}))
}

// Close ends all connections. Nothing may be called afterwards.
func (s *Store) Close() error { return s.client.Close() }

// once marks a command as one that the client must not send again. Without it a
// cluster client sends a pipeline again after a broken connection, whatever its
// MaxRetries (go-redis 9.23); redirects, which nothing has run, are still
// followed.
type once struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// send carries commands in one pipeline. Each then has its own answer or error.
func (s *Store) send(ctx context.Context, cmds ...redis.Cmder) {
	if len(cmds) == 0 {
		return
	}
	pipe := s.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, once{cmd}) // only queues it
	}
	_, err := pipe.Exec(ctx) // gives the first of the errors that the commands have
	if cluster, ok := s.client.(*redis.ClusterClient); ok && err != nil {
		// A master that is gone would be asked for up to a minute (go-redis 9.23):
		// only a redirection makes the client look for the new one.
		cluster.ReloadState(ctx)
	}
}

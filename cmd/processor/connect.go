package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"runledger/internal/store"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// connect reaches NATS. It keeps nothing to be sent after a reconnect, and
// reconnects for ever.
func connect(c config, log zerolog.Logger) (jetstream.JetStream, error) {
	options := append(stream.ConnectionOptions("runledger "+c.Process),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() && err != nil {
				log.Warn().Err(err).Msg("NATS connection lost")
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info().Str("server", nc.ConnectedUrlRedacted()).Msg("NATS connection is back")
		}),
	)
	if c.NATS.Credentials != "" {
		options = append(options, nats.UserCredentials(c.NATS.Credentials))
	}
	nc, err := nats.Connect(c.NATS.URL, options...)
	if err != nil {
		return nil, natsError(c, err)
	}
	return jetstream.New(nc)
}

// natsError says which setting led to a server that cannot be used.
func natsError(c config, err error) error {
	servers := withoutCredentials(c.NATS.URL)
	switch {
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("no NATS server answers at %s (%w); start it, or set another address with nats.url (--nats-url)", servers, err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("NATS at %s refuses this user (%w); set nats.credentials, or user and password in nats.url", servers, err)
	}
	return fmt.Errorf("connect to NATS at %s (nats.url): %w", servers, err)
}

// openStore reaches Redis, and refuses one that must not be written to.
func openStore(ctx context.Context, c config, log zerolog.Logger) (*store.Store, error) {
	records, err := newStore(c, log)
	if err != nil {
		return nil, err
	}
	if err := records.Check(ctx); err != nil {
		_ = records.Close()
		return nil, redisError(c, err)
	}
	return records, nil
}

// newStore prepares to reach Redis.
func newStore(c config, log zerolog.Logger) (*store.Store, error) {
	redis.SetLogger(redisLog{log})
	return store.Open(store.Config{
		Addrs: c.Redis.Addresses, Username: c.Redis.Username, Password: c.Redis.Password,
		KeyPrefix: c.Redis.KeyPrefix, AllowColon: true, // the policy decides; the key stays unambiguous
	})
}

// redisError says which setting led to a server that cannot be used.
func redisError(c config, err error) error {
	servers := strings.Join(c.Redis.Addresses, ", ")
	switch text := err.Error(); {
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "WRONGPASS"), strings.Contains(text, "AUTH failed"):
		return fmt.Errorf("Redis at %s refuses this user; set redis.username and redis.password_file: %w", servers, err)
	case errors.Is(err, store.ErrUnavailable):
		return fmt.Errorf("Redis at %s cannot be used; start it, or set another address with redis.addresses (--redis-addresses): %w", servers, err)
	}
	return fmt.Errorf("Redis at %s (redis.addresses): %w", servers, err)
}

// redisLog takes what the Redis client says of its pool into our log; what fails
// because of it is told by whoever needed the answer.
type redisLog struct{ log zerolog.Logger }

// Printf implements the client's logging.
func (l redisLog) Printf(_ context.Context, format string, args ...any) {
	l.log.Debug().Msgf("redis client: "+format, args...)
}

package store

import "github.com/redis/go-redis/v9"

// Options are the client's, for a test that puts something between client and
// server.
func (c Config) Options() *redis.UniversalOptions { return c.options() }

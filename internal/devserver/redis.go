package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/alicebob/miniredis/v2"
)

// Redis is a running Redis: a redis-server of its own, or miniredis inside
// this process.
type Redis struct {
	process *RedisProcess        // nil where miniredis runs
	mini    *miniredis.Miniredis // nil where redis-server runs
}

// StartRedis starts a redis-server where the machine has one, else miniredis,
// and returns when it answers. A redis-server that is there and fails is an
// error: nobody should get miniredis without knowing. ctx bounds the start only.
func StartRedis(ctx context.Context, cfg RedisConfig) (*Redis, error) {
	process, err := StartRedisProcess(ctx, cfg)
	if err == nil {
		return &Redis{process: process}, nil
	}
	if !errors.Is(err, ErrNoRedisServer) {
		return nil, err
	}
	mini, err := startMiniredis(cfg)
	if err != nil {
		return nil, err
	}
	return &Redis{mini: mini}, nil
}

func startMiniredis(cfg RedisConfig) (*miniredis.Miniredis, error) {
	m := miniredis.NewMiniRedis()
	// Left alone, miniredis never ages a key. It must do so here, where
	// records are expected to end at their time.
	m.ClockTTL(true)
	addr := net.JoinHostPort(cfg.host(), strconv.Itoa(cfg.Port))
	if err := m.StartAddr(addr); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("miniredis on %s: %w; choose another port or end the program that has it", addr, ErrPortTaken)
		}
		return nil, fmt.Errorf("miniredis on %s: %w", addr, err)
	}
	return m, nil
}

// Addr is host:port.
func (r *Redis) Addr() string {
	if r.process != nil {
		return r.process.Addr()
	}
	return r.mini.Addr()
}

// Kind says what runs, for people: "redis-server 7.0.15" or "miniredis".
func (r *Redis) Kind() string {
	if r.process != nil {
		return r.process.Kind()
	}
	return "miniredis"
}

// Stop ends it in order and returns when it is gone.
func (r *Redis) Stop() error {
	if r.process != nil {
		return r.process.Stop()
	}
	r.mini.Close()
	return nil
}

package store

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DefaultKeyPrefix stands before every key unless the operator configures
// another one.
const DefaultKeyPrefix = "runledger"

// Config says where the store is and how long to wait for it.
type Config struct {
	Addrs    []string // host:port of the server; of several nodes of a cluster; or of sentinels
	Cluster  bool     // a single address is a node of a cluster, too
	Sentinel string   // name of the master that the sentinels at Addrs watch; "" for none
	Username string   // "" is the default user
	Password string
	TLS      *tls.Config // nil for plain connections

	KeyPrefix  string // before every key: 1 to 128 of A-Z a-z 0-9 _ -; "" is DefaultKeyPrefix
	AllowColon bool   // in tool call ids; as the policies have it

	DialTimeout  time.Duration // 0 is 2 s
	ReadTimeout  time.Duration // for one pipeline to be answered; 0 is 5 s
	WriteTimeout time.Duration // for one pipeline to be sent; 0 is 5 s
}

// Validate names the first field that cannot be used.
func (c Config) Validate() error {
	if len(c.Addrs) == 0 {
		return errors.New("store: Addrs is empty, want one or more host:port")
	}
	for _, addr := range c.Addrs {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return fmt.Errorf("store: Addrs has %q, want host:port", addr)
		}
	}
	if c.Cluster && c.Sentinel != "" {
		return fmt.Errorf("store: Sentinel is %q and Cluster is true, want one of them", c.Sentinel)
	}
	for _, timeout := range []struct {
		name  string
		value time.Duration
	}{{"DialTimeout", c.DialTimeout}, {"ReadTimeout", c.ReadTimeout}, {"WriteTimeout", c.WriteTimeout}} {
		if timeout.value < 0 {
			return fmt.Errorf("store: %s is %v, want a positive duration, or 0 for the default", timeout.name, timeout.value)
		}
	}
	if _, err := newKeys(c.keyPrefix(), c.AllowColon); err != nil {
		return fmt.Errorf("store: KeyPrefix: %w", err)
	}
	return nil
}

func (c Config) keyPrefix() string { return cmp.Or(c.KeyPrefix, DefaultKeyPrefix) }

// Open makes a store of its own client. It does not connect yet; see
// [Store.Check].
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return New(redis.NewUniversalClient(cfg.options()), cfg.keyPrefix(), cfg.AllowColon)
}

func (c Config) options() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs:         c.Addrs,
		MasterName:    c.Sentinel,
		IsClusterMode: c.Cluster,
		Username:      c.Username,
		Password:      c.Password,
		TLSConfig:     c.TLS,
		Protocol:      2, // nothing is pushed to us

		// Retries are the caller's, who counts them.
		MaxRetries:    -1,
		DialerRetries: 1, // attempts in all

		DialTimeout:  cmp.Or(c.DialTimeout, 2*time.Second),
		ReadTimeout:  cmp.Or(c.ReadTimeout, 5*time.Second),
		WriteTimeout: cmp.Or(c.WriteTimeout, 5*time.Second),

		// A context's deadline counts; its cancellation does not interrupt a
		// read under way, ReadTimeout does (measured, go-redis 9.23).
		ContextTimeoutEnabled: true,

		// Neither is needed, and each costs commands on every connection.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"runledger/internal/devserver"
	"runledger/internal/policy"
	"runledger/internal/processor"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// local is everything in this process (but for a redis-server where the machine
// has one): servers, streams and a processor. Its data are in a temporary
// folder and go with it.
type local struct {
	config config
	nats   *devserver.NATS
	redis  *devserver.Redis
	js     jetstream.JetStream
	served chan error
	close  []func() error // in the order of making
}

// localPorts are where the servers listen; 0 is any free port.
type localPorts struct{ nats, redis int }

// startLocal starts everything with the given policy. The processor serves until
// the context ends; stop must be called in any case.
func startLocal(ctx context.Context, rules []byte, ruleName string, ports localPorts, log zerolog.Logger) (*local, error) {
	l := &local{config: defaultConfig(), served: make(chan error, 1)}
	if err := l.start(ctx, rules, ruleName, ports, log); err != nil {
		return nil, errors.Join(err, l.stop())
	}
	return l, nil
}

func (l *local) start(ctx context.Context, rules []byte, ruleName string, ports localPorts, log zerolog.Logger) error {
	dir, err := os.MkdirTemp("", "runledger-")
	if err != nil {
		return err
	}
	l.defers(func() error { return os.RemoveAll(dir) })
	if l.nats, err = devserver.StartNATS(devserver.NATSConfig{Dir: filepath.Join(dir, "nats"), Port: ports.nats, Log: log}); err != nil {
		return portError(err, "NATS", ports.nats, "--nats-port")
	}
	l.defers(func() error { l.nats.Stop(); return nil })
	if err := os.Mkdir(filepath.Join(dir, "redis"), 0o700); err != nil {
		return err
	}
	if l.redis, err = devserver.StartRedis(ctx, devserver.RedisConfig{Dir: filepath.Join(dir, "redis"), Port: ports.redis}); err != nil {
		return portError(err, "Redis", ports.redis, "--redis-port")
	}
	l.defers(l.redis.Stop)
	l.config.NATS.URL, l.config.Redis.Addresses = l.nats.URL(), []string{l.redis.Addr()}
	if l.js, err = connect(l.config, log); err != nil {
		return err
	}
	l.defers(func() error { l.js.Conn().Close(); return nil })
	return l.serve(ctx, rules, ruleName, log)
}

// portError says which flag chooses another port than one that is taken.
func portError(err error, server string, port int, flag string) error {
	if errors.Is(err, devserver.ErrPortTaken) {
		return fmt.Errorf("port %d, where %s should listen, is taken by another program; choose another with %s, or end that program", port, server, flag)
	}
	return err
}

// serve makes the streams and starts the processor.
func (l *local) serve(ctx context.Context, rules []byte, ruleName string, log zerolog.Logger) error {
	parsed, err := policy.Parse(ruleName, rules)
	if err != nil {
		return usage(err)
	}
	options := stream.DefaultOptions()
	options.Executors = policy.Executors(parsed)
	topology, err := stream.LoadTopology(options)
	if err != nil {
		return err
	}
	if _, err := topology.Apply(ctx, l.js); err != nil {
		return err
	}
	records, err := openStore(ctx, l.config, log)
	if err != nil {
		return err
	}
	l.defers(records.Close)
	p, err := processor.New(ctx, processor.Settings{
		Name: l.config.Process, JetStream: l.js, Store: records, Policy: rules, PolicyName: ruleName,
		Prefix: l.config.Subjects.Prefix, Partitions: l.config.Subjects.Partitions, LeaseTTL: l.config.LeaseTTL,
		Registerer: prometheus.NewRegistry(), Log: log,
	})
	if err != nil {
		return err
	}
	serving, cancel := context.WithCancel(ctx)
	go func() { l.served <- p.Run(serving) }()
	l.defers(func() error { cancel(); return <-l.served })
	return nil
}

// wait returns when the context ends, or when the processor has stopped before;
// stop tells why.
func (l *local) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case err := <-l.served:
		l.served <- err // for stop; there is room for one
	}
}

func (l *local) defers(fn func() error) { l.close = append(l.close, fn) }

// stop ends everything, last made first.
func (l *local) stop() error {
	var errs []error
	for i := len(l.close) - 1; i >= 0; i-- {
		errs = append(errs, l.close[i]())
	}
	l.close = nil
	return errors.Join(errs...)
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"runledger/internal/devserver"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// servers are fresh NATS and Redis servers of one session.
type servers struct {
	nats  []*devserver.NATSProcess
	redis *devserver.RedisProcess
}

func startServers(ctx context.Context, cfg Config, setup Setup, dir string) (s *servers, err error) {
	s = &servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	configs, err := natsConfigs(setup, dir)
	if err != nil {
		return s, err
	}
	for i, file := range configs {
		n, err := devserver.StartNATSProcess(ctx, devserver.NATSProcessConfig{
			NATSConfig: devserver.NATSConfig{Dir: filepath.Join(dir, "nats-"+strconv.Itoa(i))},
			Program:    cfg.Program, ProgramArgs: []string{"bench", CommandNATS}, ConfigFile: file,
		})
		if err != nil {
			return s, err
		}
		s.nats = append(s.nats, n)
	}
	redisDir := filepath.Join(dir, "redis")
	if err := os.Mkdir(redisDir, 0o700); err != nil {
		return s, err
	}
	s.redis, err = devserver.StartRedisProcess(ctx, devserver.RedisConfig{Dir: redisDir, AppendOnly: !setup.NoAOF})
	if err != nil {
		return s, err
	}
	err = s.makeStreams(ctx, setup)
	return s, err
}

// natsConfigs writes a configuration file for each nats-server.
func natsConfigs(setup Setup, dir string) ([]string, error) {
	addresses, err := freeAddresses(setup.Replicas)
	if err != nil {
		return nil, err
	}
	var routes []string
	for _, address := range addresses {
		routes = append(routes, fmt.Sprintf("%q", "nats://"+address))
	}
	var files []string
	for i, address := range addresses {
		text := fmt.Sprintf("server_name: n%d\n", i)
		if setup.SyncAlways {
			text += "jetstream { sync_interval: always }\n"
		}
		if setup.Replicas > 1 {
			text += fmt.Sprintf("cluster { name: bench, listen: %q, routes: [%s] }\n", address, strings.Join(routes, ", "))
		}
		file := filepath.Join(dir, fmt.Sprintf("nats-%d.conf", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// freeAddresses finds addresses on loopback, each another.
func freeAddresses(count int) ([]string, error) {
	var all []string
	for len(all) < count {
		address, err := devserver.FreeAddress()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all, nil
}

// makeStreams applies the topology. A cluster takes some seconds until it can.
func (s *servers) makeStreams(ctx context.Context, setup Setup) error {
	options := stream.DefaultOptions()
	options.Replicas, options.Executors = setup.Replicas, []string{executorName}
	topology, err := stream.LoadTopology(options)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(s.url(), nats.Name("bench"))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second) // a cluster without a leader does not answer
		_, err = topology.Apply(attempt, js)
		cancel()
		if err == nil || setup.Replicas == 1 {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return err
		}
	}
}

// url is all servers, for clients.
func (s *servers) url() string {
	var urls []string
	for _, n := range s.nats {
		urls = append(urls, n.URL())
	}
	return strings.Join(urls, ",")
}

func (s *servers) stop() error {
	var errs []error
	for _, n := range s.nats {
		errs = append(errs, n.Process().Kill()) // its files are thrown away
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Process().Kill())
	}
	return errors.Join(errs...)
}

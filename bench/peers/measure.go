package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"runledger/internal/devserver"
)

// stopGrace is what a process gets to end in order.
const stopGrace = 20 * time.Second

// Config says what to measure, and how long.
type Config struct {
	Peers []spec
	// Program is this program's own path: it is started again as each process.
	Program string
	// Dir is an empty folder for the servers' files; each peer's are removed
	// after it.
	Dir string
	// Seconds is the measured time of each, without its warm-up.
	Seconds int
	// Rounds of everything in turn; the medians are told.
	Rounds int
	// Processor is runledger's program, to be measured beside the peers; "" is
	// not to.
	Processor string
	// Progress takes a line for each measurement, for people.
	Progress io.Writer
}

// Validate names the first field that is wrong, what it got and what it wants.
func (c Config) Validate() error {
	switch {
	case len(c.Peers) == 0 && c.Processor == "":
		return errors.New("Peers is empty, want some")
	case c.Program == "":
		return errors.New(`Program is "", want the path of this program`)
	case c.Dir == "":
		return errors.New(`Dir is "", want an empty folder`)
	case c.Seconds < 1 || c.Seconds > 3600:
		return fmt.Errorf("Seconds is %d, want 1 to 3600", c.Seconds)
	case c.Rounds < 1 || c.Rounds > 100:
		return fmt.Errorf("Rounds is %d, want 1 to 100", c.Rounds)
	case c.Progress == nil:
		return errors.New("Progress is nil, want a writer")
	}
	if c.Processor != "" {
		if _, err := exec.LookPath(c.Processor); err != nil {
			return fmt.Errorf("Processor: %w; build it with `make build`", err)
		}
	}
	return nil
}

// measureAll measures everything in turn, round by round. What was measured
// before an error is in the results.
func measureAll(ctx context.Context, cfg Config) ([]Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	plays := make(map[string][]figures)
	var failed error
	for round := range cfg.Rounds {
		if failed = measureRound(ctx, cfg, round, plays); failed != nil {
			break
		}
	}
	return resultsOf(cfg, plays), failed
}

func measureRound(ctx context.Context, cfg Config, round int, plays map[string][]figures) error {
	note := func(name string, f figures, err error) error {
		if err != nil {
			return err
		}
		plays[name] = append(plays[name], f)
		fmt.Fprintf(cfg.Progress, "round %d of %d: %s %.0f calls/s\n", round+1, cfg.Rounds, name, f.CallsPerSecond)
		return nil
	}
	if cfg.Processor != "" {
		f, err := measureProcessor(ctx, cfg)
		if err := note(toolRunledger, f, err); err != nil {
			return err
		}
	}
	for _, s := range cfg.Peers {
		f, err := measurePeer(ctx, cfg, s)
		if err := note(s.Name, f, err); err != nil {
			return err
		}
	}
	return nil
}

// measurePeer starts the servers that a peer needs, and the peer, as processes
// in a folder of their own, and ends all of them.
func measurePeer(ctx context.Context, cfg Config, s spec) (f figures, err error) {
	dir := filepath.Join(cfg.Dir, s.Name)
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at := place{Dir: filepath.Join(dir, "peer")}
	if err := os.MkdirAll(at.Dir, 0o700); err != nil {
		return figures{}, err
	}
	if s.NATS {
		n, err := devserver.StartNATSProcess(ctx, devserver.NATSProcessConfig{
			NATSConfig: devserver.NATSConfig{Dir: filepath.Join(dir, "nats")},
			Program:    cfg.Program, ProgramArgs: []string{commandNATS},
		})
		if err != nil {
			return figures{}, err
		}
		defer func() { err = errors.Join(err, n.Stop()) }()
		at.NATS, at.pids.nats = n.URL(), n.Process().PID()
	}
	if s.Redis {
		redisDir := filepath.Join(dir, "redis")
		if err := os.MkdirAll(redisDir, 0o700); err != nil {
			return figures{}, err
		}
		r, err := devserver.StartRedisProcess(ctx, devserver.RedisConfig{Dir: redisDir, AppendOnly: true, Fsync: "everysec"})
		if err != nil {
			return figures{}, err
		}
		defer func() { err = errors.Join(err, r.Stop()) }()
		at.Redis, at.pids.redis = r.Addr(), r.Process().PID()
	}
	return playApart(ctx, cfg, s, at, dir)
}

// playApart plays a peer in a process of its own.
func playApart(ctx context.Context, cfg Config, s spec, at place, dir string) (figures, error) {
	out := filepath.Join(dir, playFile)
	p, err := devserver.StartProcess(devserver.ProcessConfig{
		Path: cfg.Program,
		Args: []string{
			commandPlay, "--name", s.Name, "--seconds", strconv.Itoa(cfg.Seconds), "--out", out,
			"--nats", at.NATS, "--redis", at.Redis, "--dir", at.Dir,
			"--nats-pid", strconv.Itoa(at.pids.nats), "--redis-pid", strconv.Itoa(at.pids.redis),
		},
		Log: filepath.Join(dir, "peer.log"),
	})
	if err != nil {
		return figures{}, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return figures{}, errors.Join(ctx.Err(), p.Stop(stopGrace))
	}
	if err := p.Err(); err != nil {
		return figures{}, fmt.Errorf("%s: %w; its last lines:\n%s", s.Name, err, p.LogTail(20))
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return figures{}, fmt.Errorf("%s: its figures: %w", s.Name, err)
	}
	var f figures
	if err := json.Unmarshal(data, &f); err != nil {
		return figures{}, fmt.Errorf("%s: its figures: %w", s.Name, err)
	}
	return f, nil
}

// measureProcessor has runledger measure itself, by its own program, and takes
// over the figures that the peers have, too.
func measureProcessor(ctx context.Context, cfg Config) (figures, error) {
	cmd := exec.CommandContext(ctx, cfg.Processor, "bench", "--json", "--rounds", "1", "--rates", "", "--seconds", strconv.Itoa(cfg.Seconds))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return figures{}, fmt.Errorf("%s bench: %w; it wrote:\n%s", cfg.Processor, err, bytes.TrimSpace(stderr.Bytes()))
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var told struct {
		CallsPerSecond float64 `json:"calls_per_second"`
		CPU            struct {
			Processor float64 `json:"processor"`
			Load      float64 `json:"load"`
			NATS      float64 `json:"nats_server"`
			Redis     float64 `json:"redis_server"`
		} `json:"cpu_seconds_per_1000_calls"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &told); err != nil {
		return figures{}, fmt.Errorf("%s bench: its last line: %w", cfg.Processor, err)
	}
	if told.CallsPerSecond <= 0 {
		return figures{}, fmt.Errorf("%s bench: calls_per_second is %v, want more than 0", cfg.Processor, told.CallsPerSecond)
	}
	return figures{
		CallsPerSecond: told.CallsPerSecond,
		CPU:            CPU{Peer: told.CPU.Processor + told.CPU.Load, NATS: told.CPU.NATS, Redis: told.CPU.Redis},
	}, nil
}

// medianOf is the middle of the plays by one figure, 0 of none.
func medianOf(plays []figures, figure func(figures) float64) float64 {
	if len(plays) == 0 {
		return 0
	}
	values := make([]float64, len(plays))
	for i, p := range plays {
		values[i] = figure(p)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

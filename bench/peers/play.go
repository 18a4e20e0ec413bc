package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// figures are what one play measured.
type figures struct {
	CallsPerSecond float64 `json:"calls_per_second"`
	P50            float64 `json:"p50_ms"`
	P99            float64 `json:"p99_ms"`
	// CPU is in seconds per 1,000 calls, over the whole play.
	CPU CPU `json:"cpu_seconds_per_1000_calls"`
	// Calls are all of the play, warm-up included.
	Calls tally `json:"calls"`
}

// playFile is where a play leaves its figures, in its place's folder.
const playFile = "figures.json"

// runPlay is the hidden command that measures one peer in this process.
func runPlay(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(commandPlay, flag.ContinueOnError)
	var at place
	name := flags.String("name", "", "of the peer")
	out := flags.String("out", "", "file that takes the figures")
	seconds := flags.Int("seconds", 0, "measured time")
	flags.StringVar(&at.NATS, "nats", "", "URL of the nats-server")
	flags.StringVar(&at.Redis, "redis", "", "address of the redis-server")
	flags.StringVar(&at.Dir, "dir", "", "folder for the peer's own files")
	flags.IntVar(&at.pids.nats, "nats-pid", 0, "process of the nats-server")
	flags.IntVar(&at.pids.redis, "redis-pid", 0, "process of the redis-server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	at.pids.peer = os.Getpid()
	s, err := specOf(*name)
	if err != nil {
		return err
	}
	f, err := play(ctx, s, at, warmup(*seconds), time.Duration(*seconds)*time.Second)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(*out, data, 0o600)
}

// warmup is what goes before the measured time, as long as in runledger's own
// measure.
func warmup(seconds int) time.Duration {
	return min(max(time.Duration(seconds)*time.Second/4, time.Second), 5*time.Second)
}

// play sets the peer up, keeps it saturated, and checks that every call was
// executed once and settled once, by the ledger and by what the tool tells.
func play(ctx context.Context, s spec, at place, warmup, measured time.Duration) (f figures, err error) {
	l := &ledger{}
	p, err := s.Open(ctx, at, l)
	if err != nil {
		return figures{}, err
	}
	defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	before := at.pids.used()
	from, until, err := saturate(ctx, p, s.InFlight, warmup, measured)
	if err != nil {
		return figures{}, fmt.Errorf("%w (calls came to %+v)", err, l.tally())
	}
	f.Calls = l.tally()
	f.CPU = at.pids.used().minus(before).times(1000 / float64(max(f.Calls.Intended, 1)))
	if err := f.Calls.check(); err != nil {
		return figures{}, err
	}
	if err := waitCompleted(ctx, p, f.Calls.Intended); err != nil {
		return figures{}, err
	}
	latencies := l.latencies(from, until)
	f.CallsPerSecond = float64(len(latencies)) / measured.Seconds()
	f.P50 = milliseconds(percentile(latencies, 50))
	f.P99 = milliseconds(percentile(latencies, 99))
	return f, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

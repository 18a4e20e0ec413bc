package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"runledger/internal/devserver"
)

// Hidden commands, which make this program one of the processes.
const (
	commandNATS = "nats-server"
	commandPlay = "play"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := tell(ctx, run(ctx, os.Args[1:], os.Stdout, os.Stderr))
	stop()
	os.Exit(status)
}

// tell says how the program ended, and gives its exit status.
func tell(ctx context.Context, err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "peers: interrupted")
	default:
		fmt.Fprintln(os.Stderr, "peers:", err)
	}
	return 1
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) > 0 && args[0] == commandNATS {
		return devserver.ServeNATS(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == commandPlay {
		return runPlay(ctx, args[1:])
	}
	cfg, show, err := parse(args, progress)
	if err != nil {
		return err
	}
	if show.guarantees {
		return writeGuarantees(out)
	}
	if cfg.Program, err = os.Executable(); err != nil {
		return err
	}
	if cfg.Dir, err = os.MkdirTemp("", "runledger-peers-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Dir)) }()
	results, err := measureAll(ctx, cfg)
	if len(results) == 0 {
		return err
	}
	if show.json {
		return errors.Join(writeJSON(out, results), err)
	}
	return errors.Join(writeTable(out, results), err)
}

// shows is what is printed, and how.
type shows struct{ json, guarantees bool }

func parse(args []string, progress io.Writer) (Config, shows, error) {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(progress)
	cfg := Config{Progress: progress}
	var show shows
	only := flags.String("only", "", "the `tools` to measure, with commas between: watermill, asynq, temporal, or a peer by its own name; none means all")
	flags.IntVar(&cfg.Seconds, "seconds", 20, "measured time of each peer, after its warm-up")
	flags.IntVar(&cfg.Rounds, "rounds", 1, "how often everything is measured in turn; the medians are told")
	flags.StringVar(&cfg.Processor, "processor", "", "the processor `program`: measures runledger in the same run, and gives ratios to it")
	flags.BoolVar(&show.json, "json", false, "print one JSON object a line")
	flags.BoolVar(&show.guarantees, "guarantees", false, "print the table of guarantees as Markdown, and measure nothing")
	if err := flags.Parse(args); err != nil {
		return Config{}, shows{}, err
	}
	if flags.NArg() > 0 {
		return Config{}, shows{}, fmt.Errorf("got the argument %q, want flags only", flags.Arg(0))
	}
	var err error
	cfg.Peers, err = choose(*only)
	return cfg, show, err
}

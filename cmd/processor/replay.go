package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"runledger/internal/events"
	"runledger/internal/replay"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "replay",
		GroupID: "run",
		Short:   "Read the streams again: check every decision, rebuild Redis, follow the facts",
		Long: `replay makes again from the streams alone what was decided and what is stored.
None of its commands decides, dispatches or publishes anything, and each may run
beside processors that serve. With how many partitions the streams were made they
read from there.

verify and rebuild print what they found for a person to read, and with --json one
JSON object. facts prints a line for each fact on a terminal, and JSON lines with
--json or where no terminal reads them. A pipe changes nothing else.`,
	}
	cmd.AddCommand(newReplayVerify(), newReplayRebuild(), newReplayFacts())
	return cmd
}

// replaySettings are the settings that every command of replay has flags for.
func replaySettings() []string {
	return []string{"nats.url", "nats.credentials", "subjects.prefix"}
}

// replayStoreSettings are those of the commands that look at Redis.
func replayStoreSettings() []string {
	return append(replaySettings(), "redis.addresses", "redis.username", "redis.password_file", "redis.key_prefix")
}

// stretchFlags say which part of the streams is wanted.
type stretchFlags struct {
	runs  []string
	since string
}

func (f *stretchFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.runs, "run", nil, "only this run; may be given more than once, and counts once")
	cmd.Flags().StringVar(&f.since, "since", "", "only from then on: how long ago, such as 2h, or an instant such as 2026-03-01T08:00:00Z")
}

// check refuses what cannot be meant, and gives the instant; zero for none. Runs
// are in order then, each once.
func (f *stretchFlags) check(cmd *cobra.Command) (time.Time, error) {
	for _, run := range f.runs {
		if !events.ValidName(run) {
			return time.Time{}, usageOf(cmd, fmt.Errorf("--run: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", run))
		}
	}
	slices.Sort(f.runs)
	f.runs = slices.Compact(f.runs)
	if f.since == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(f.since); err == nil && ago > 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339Nano, f.since)
	if err != nil {
		return time.Time{}, usageOf(cmd, fmt.Errorf("--since: want a duration such as 2h, or an instant such as 2026-03-01T08:00:00Z, got %.60q", f.since))
	}
	return at, nil
}

// replayMemory is beyond what the bounds of a replay let live (see the Window of a
// verification and HoldBytes of a rebuilding); garbage is collected sooner as it
// comes near.
const replayMemory = 512 << 20

// connectReplay loads the settings and reaches NATS.
func connectReplay(cmd *cobra.Command) (config, jetstream.JetStream, zerolog.Logger, error) {
	c, err := loadConfig(cmd)
	if err != nil {
		return c, nil, zerolog.Nop(), err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent) // as serve does: a third faster
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(replayMemory)
	}
	c.Log.Format, c.Log.Level = "text", zerolog.LevelWarnValue
	log := newLogger(c, cmd.ErrOrStderr())
	js, err := connect(c, log)
	return c, js, log, err
}

// replayError says what to do about streams that are not there.
func replayError(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrBucketNotFound):
		return fmt.Errorf("%w; these servers hold no streams of ours: look at nats.url and nats.credentials, or make them with \"processor streams apply\"", err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("JetStream does not answer: %w; start nats-server with --jetstream, and enable it for the account", err)
	}
	return err
}

// replayLine shows on a terminal how far a replay is, a few times a second.
type replayLine struct {
	w     io.Writer
	found string // what Progress.Found counts
	begun time.Time
	last  time.Time
}

func newReplayLine(w io.Writer, found string) *replayLine {
	if !isTerminal(w) {
		w = nil
	}
	return &replayLine{w: w, found: found, begun: time.Now()}
}

func (l *replayLine) show(p replay.Progress) {
	now := time.Now()
	if l.w == nil || p.Of == 0 || now.Sub(l.begun) < time.Second || now.Sub(l.last) < 200*time.Millisecond {
		return
	}
	l.last = now
	rate := float64(p.Done) / now.Sub(l.begun).Seconds()
	fmt.Fprintf(l.w, "\r%3d %%, %d of %d facts, %.0f a second, %d %s\x1b[K", 100*p.Done/p.Of, p.Done, p.Of, rate, p.Found, l.found)
}

func (l *replayLine) end() {
	if !l.last.IsZero() {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}

// endedByUser takes what only says that somebody stopped the command for no
// fault.
func endedByUser(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

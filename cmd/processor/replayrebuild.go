package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"runledger/internal/events"
	"runledger/internal/replay"
	"runledger/internal/stream"

	"github.com/spf13/cobra"
)

func newReplayRebuild() *cobra.Command {
	var stretch stretchFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Write Redis again from the streams",
		Long: `rebuild makes runs and their records again from their facts, with the complete
bytes of requests and responses and with their first expiry, and writes them into
Redis. What has expired stays so. It publishes and dispatches nothing; doing it
twice changes nothing, and processors may serve meanwhile.

Processors heal a run by themselves when they next touch it; rebuild is for all
that nobody touches any more, and for those who read Redis themselves. With
--since it takes the runs that have a fact since then; with --run those, whenever
they were.

It exits with 1 if a run cannot be made again; the others are written all the same.`,
		Example: `  processor replay rebuild
  processor replay rebuild --since 2h
  processor replay rebuild --run run-1 --run run-2`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := stretch.check(cmd)
			if err != nil {
				return err
			}
			if len(stretch.runs) > 0 && !since.IsZero() {
				return usageOf(cmd, errors.New("--since and --run: want one of them, got both; a run is written whole, whenever it was"))
			}
			return runRebuild(cmd, stretch.runs, since, asJSON)
		},
	}
	stretch.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was done as one JSON object")
	addSettings(cmd.Flags(), replayStoreSettings())
	return cmd
}

func runRebuild(cmd *cobra.Command, runs []string, since time.Time, asJSON bool) error {
	ctx := cmd.Context()
	c, js, log, err := connectReplay(cmd)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	streams, err := replay.NewJetStream(js, c.Subjects.Prefix, "", log)
	if err != nil {
		return err
	}
	if err := streams.Check(ctx); err != nil {
		return replayError(err)
	}
	records, err := openStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { _ = records.Close() }()
	subjects, err := events.NewSubjects(c.Subjects.Prefix)
	if err != nil {
		return err
	}
	line := newReplayLine(cmd.ErrOrStderr(), "runs written")
	rebuilder, err := replay.NewRebuilder(replay.RebuildConfig{
		Subjects: subjects, History: stream.NewHistory(js, log), Store: records, Clock: time.Now, Log: log, Progress: line.show,
	})
	if err != nil {
		return err
	}
	if len(runs) > 0 {
		err = rebuilder.Runs(ctx, runs)
	} else {
		err = rebuildFound(ctx, rebuilder, streams, since)
	}
	line.end()
	done := rebuilder.Done()
	done.EndedEarly = err != nil
	if writeErr := writeRebuilt(cmd.OutOrStdout(), done, asJSON); err == nil {
		err = writeErr
	}
	if err != nil {
		return fmt.Errorf("%w; what was written stands, and the same command can be given again", replayError(err))
	}
	if done.FailedCount > 0 {
		return fmt.Errorf("%s cannot be made again; \"processor replay verify\" tells what is wrong with the facts", plural(done.FailedCount, "run"))
	}
	return nil
}

// rebuildFound writes every run, or every run that has a fact since then.
func rebuildFound(ctx context.Context, rebuilder *replay.Rebuilder, streams *replay.JetStream, since time.Time) error {
	if !since.IsZero() {
		s, err := streams.Survey(ctx, replay.Since{Time: since})
		if err != nil {
			return err
		}
		facts, err := streams.Facts(ctx, s.FactsFrom, s.FactsTo)
		if err != nil {
			return err
		}
		defer facts.Close()
		return rebuilder.Since(ctx, facts, s)
	}
	oldest, err := replay.Unexpired(ctx, streams, time.Now())
	if err != nil {
		return err
	}
	s, err := streams.Survey(ctx, replay.Since{Time: oldest})
	if err != nil {
		return err
	}
	return rebuilder.All(ctx, streams, s)
}

func writeRebuilt(out io.Writer, done replay.Rebuilt, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(done)
	}
	if done.EndedEarly {
		fmt.Fprint(out, endedEarly)
	}
	for _, failed := range done.Failed {
		fmt.Fprintln(out, failed)
	}
	fmt.Fprintf(out, "runs written      %d, with %s and %s of requests and results\n", done.Runs, plural(done.Records, "record"), plural(done.Bytes, "byte"))
	fmt.Fprintf(out, "expired           %d, left so\n", done.Expired)
	if done.Unknown > 0 {
		fmt.Fprintf(out, "without any fact  %d\n", done.Unknown)
	}
	_, err := fmt.Fprintf(out, "failed            %d\n", done.FailedCount)
	return err
}

package main

import (
	"fmt"
	"io"
	"time"

	"runledger/internal/demo"
	"runledger/internal/events"
	"runledger/internal/replay"
	"runledger/internal/stream"

	"github.com/spf13/cobra"
)

type factsFlags struct {
	stretchFlags
	agent        string
	follow, json bool
}

func newReplayFacts() *cobra.Command {
	var f factsFlags
	cmd := &cobra.Command{
		Use:   "facts",
		Short: "Show the facts from any point in the past, and then live",
		Long: `facts shows the audit trail in the order in which it was stored: one line a fact
on a terminal; with --json, or where no terminal reads it, JSON lines, each a
CloudEvent in the JSON format whose member "streamsequence" says where the stream
RUNS has it. Its data stand there byte for byte as they are stored, so that digests
can be computed from the lines; docs/protocol.md says how.

With --follow it goes on with what comes, until interrupted. Servers may go and
come back meanwhile: nothing is left out, and nothing comes twice.`,
		Example: `  processor replay facts --run run-1
  processor replay facts --agent planner --since 24h --follow
  processor replay facts --since 2026-03-01T08:00:00Z --json | jq .type`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := f.check(cmd)
			if err != nil {
				return err
			}
			if f.agent != "" && !events.ValidName(f.agent) {
				return usageOf(cmd, fmt.Errorf("--agent: want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", f.agent))
			}
			return runFacts(cmd, f, since)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.agent, "agent", "", "only runs of this agent, and answers to it")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().BoolVar(&f.json, "json", false, "JSON lines, also on a terminal")
	addSettings(cmd.Flags(), replaySettings())
	return cmd
}

func runFacts(cmd *cobra.Command, f factsFlags, since time.Time) error {
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
	from := uint64(1)
	if !since.IsZero() {
		if from, err = streams.SequenceAt(ctx, stream.StreamRuns, since); err != nil {
			return replayError(err)
		}
	}
	subjects, err := events.NewSubjects(c.Subjects.Prefix)
	if err != nil {
		return err
	}
	out, shown := cmd.OutOrStdout(), 0
	write := writeFactJSON
	switch {
	case isTerminal(out) && f.json:
		write = showFactJSON
	case isTerminal(out):
		write = writeFactLine
	}
	err = streams.Trail(ctx, replay.Trail{Agent: f.agent, Runs: f.runs}, from, f.follow, func(m stream.Message) error {
		shown++
		return write(out, subjects, &m)
	})
	if err != nil {
		if f.follow {
			err = endedByUser(ctx, err)
		}
		return replayError(err)
	}
	if shown == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no such facts")
	}
	return nil
}

func writeFactJSON(out io.Writer, _ events.Subjects, m *stream.Message) error {
	line, err := replay.CloudEvent(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}

// showFactJSON is writeFactJSON for a terminal: what agents chose must not reach it
// as a command. The data are the same value then, and not the same bytes.
func showFactJSON(out io.Writer, _ events.Subjects, m *stream.Message) error {
	line, err := replay.ReadableCloudEvent(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}

// writeFactLine shows a fact to a person; one that cannot be read is named, and
// the others follow.
func writeFactLine(out io.Writer, subjects events.Subjects, m *stream.Message) error {
	fact, _, err := events.DecodeFact(subjects, m.Subject, m.Header, m.Data)
	if err != nil {
		_, err = fmt.Fprintf(out, "message %d of %s cannot be read: %q\n", m.Sequence, stream.StreamRuns, err.Error())
		return err
	}
	return demo.WriteFact(out, fact)
}

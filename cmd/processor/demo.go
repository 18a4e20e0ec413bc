package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"runledger/internal/audit"
	"runledger/internal/demo"
	"runledger/internal/events"
	"runledger/internal/policy"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

// shownTimelines is how many runs the demonstration shows whole.
const shownTimelines = 3

type demoOptions struct {
	transcripts, policy string
	json, keep          bool
}

func newDemo() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:     "demo",
		GroupID: "try",
		Short:   "Play recorded agent runs through everything, in one process",
		Long: `demo starts an embedded nats-server, Redis and a processor, lets a simulated agent
and executor play recorded runs through them, and shows what happened: some runs
as timelines, and a summary that an independent reader counted from the stream
of facts. It exits with 1 if anything was lost, out of sequence or done twice.

With --json the last line, and the only one on standard output, is one object:
runs, calls, reserved, ready, error, evidence_found, no_evidence, rejected (calls
by code), terminated (runs by outcome), facts, sequence_gaps,
duplicate_dispatches, seconds; and, where a promise was broken, violations (a
sentence each) and violation_count.

A file of transcripts has one run a line: {"run": "…", "messages": […]}, messages
in the OpenAI chat format.`,
		Example: `  processor demo
  processor demo --transcripts runs.jsonl --policy policy.yaml --json
  processor demo --keep`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.transcripts, "transcripts", "", "file of transcripts, JSON lines (default a small one, built in)")
	cmd.Flags().StringVar(&o.policy, "policy", "", "policy file, YAML (default the airline policy, built in)")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "keep everything running afterwards, to look into it, until Ctrl-C")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the summary as one JSON object, and nothing else")
	return cmd
}

func runDemo(ctx context.Context, o demoOptions, out, progress io.Writer) error {
	transcripts, err := readTranscripts(o.transcripts)
	if err != nil {
		return usage(err)
	}
	rules, name, err := policyOrAirline(o.policy)
	if err != nil {
		return err
	}
	executor, err := onlyExecutor(name, rules)
	if err != nil {
		return err
	}
	started := time.Now()
	c := defaultConfig()
	c.Log.Format, c.Log.Level = "text", zerolog.LevelWarnValue
	l, err := startLocal(ctx, rules, name, localPorts{}, newLogger(c, progress))
	if err != nil {
		return err
	}
	announce := out
	if o.json {
		announce = progress
	}
	fmt.Fprintf(announce, "%s at %s, and %s at %s\n", l.nats.Kind(), l.nats.Addr(), l.redis.Kind(), l.redis.Addr())
	report, err := play(ctx, l, o, transcripts, executor, started, out, progress)
	if errors.Is(err, syscall.EPIPE) {
		err = nil // whoever read has had enough; what was found still counts
	}
	if o.keep && err == nil {
		fmt.Fprintf(progress, "\neverything runs on until Ctrl-C; look into it, for instance with\n  processor replay verify --nats-url %s --redis-addresses %s\n", l.nats.URL(), l.redis.Addr())
		l.wait(ctx)
	}
	if stopErr := l.stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return err
	}
	if !report.OK() {
		return fmt.Errorf("%d promises broken, the first: %s", report.ViolationCount, report.Violations[0])
	}
	return nil
}

// play plays the transcripts, and shows what an independent reader finds in the
// streams afterwards.
func play(ctx context.Context, l *local, o demoOptions, transcripts []demo.Transcript, executor string, started time.Time, out, progress io.Writer) (*audit.Report, error) {
	line := newProgressLine(progress)
	played, err := demo.Play(ctx, demo.PlayConfig{
		Conn: l.js.Conn(), Transcripts: transcripts, Executor: executor, Progress: line.show,
	})
	line.end()
	if err != nil {
		return nil, err
	}
	report, err := audit.Count(ctx, l.js, events.DefaultPrefix)
	if err != nil {
		return nil, err
	}
	expectAll(report, transcripts)
	report.Seconds = time.Since(started).Round(time.Millisecond).Seconds()
	if o.json {
		summary, err := report.JSON()
		if err != nil {
			return nil, err
		}
		_, err = fmt.Fprintf(out, "%s\n", summary)
		return report, err
	}
	for _, id := range played.RunIDs[:min(shownTimelines, len(played.RunIDs))] {
		t, err := demo.FetchTimeline(ctx, l.js, events.DefaultPrefix, id)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(out)
		if err := demo.WriteTimeline(out, t); err != nil {
			return report, err
		}
	}
	fmt.Fprintln(out)
	return report, demo.WriteSummary(out, report)
}

// expectAll adds to the report what the streams cannot know: that what was
// played is all there.
func expectAll(report *audit.Report, transcripts []demo.Transcript) {
	runs, calls := int64(len(transcripts)), int64(0)
	for _, t := range transcripts {
		calls += int64(len(t.Calls))
	}
	lost := func(what string, want, got int64) {
		if want != got {
			report.ViolationCount++
			report.Violations = append(report.Violations, fmt.Sprintf("%s: played %d, found %d in the facts", what, want, got))
		}
	}
	lost("runs", runs, report.Runs)
	lost("calls", calls, report.Calls)
}

func readTranscripts(file string) ([]demo.Transcript, error) {
	if file == "" {
		return demo.BuiltIn()
	}
	return demo.LoadTranscripts(file)
}

// onlyExecutor gives the one executor that the policy names: the demonstration
// plays one.
func onlyExecutor(name string, rules []byte) (string, error) {
	parsed, err := policy.Parse(name, rules)
	if err != nil {
		return "", usage(err)
	}
	executors := policy.Executors(parsed)
	if len(executors) != 1 {
		return "", usage(fmt.Errorf("policy %s: the demonstration plays one executor, got %d (%v)", name, len(executors), executors))
	}
	return executors[0], nil
}

// progressLine shows on a terminal how far the playing is.
type progressLine struct {
	w     io.Writer
	shown bool
}

func newProgressLine(w io.Writer) *progressLine {
	if !isTerminal(w) {
		w = nil
	}
	return &progressLine{w: w}
}

func (l *progressLine) show(p demo.Progress) {
	if l.w == nil {
		return
	}
	l.shown = true
	fmt.Fprintf(l.w, "\r%d of %d runs, %d of %d calls", p.RunsDone, p.Runs, p.CallsDone, p.Calls)
}

func (l *progressLine) end() {
	if l.shown {
		fmt.Fprintln(l.w)
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/replay"
	"runledger/internal/store"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

type verifyFlags struct {
	stretchFlags
	fromSeq     int64
	store       string
	skew        time.Duration
	differences int
	policy      string
	strict      bool
	json        bool
}

func newReplayVerify() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Decide the events again and compare every fact; or see what another policy would do",
		Long: `verify decides the events of the streams again, in memory, at the recorded instants
and by each run's own policy, and compares every fact byte for byte. It names the
first fact of a run that was changed, left out or put in, follows the chain of
digests to its end, and finds events that nothing answered. What cannot be decided
again is counted by name. It also holds DISPATCH and INVALID to what the events lead
to, and names what IN and RUNS must have and have not. The last line says whether
all was checked. It exits with 1 if anything differs, if nothing at all was checked,
or if it was ended early; what was found until then is told. With --strict it does
so, too, if anything was not checked that is decided.

Nothing follows the last fact of a run, so its digest is compared with what Redis
has, where that has not expired: --store auto does so if Redis answers, and says
if it does not; always requires it; never leaves it out.

With --policy FILE it compares nothing: it decides the same events by that policy
and shows what would have been, by code and by agent. Results of calls that would
not have been reserved fall away; a call that was refused and would have been
reserved has no result, and is counted so; a run that was ended and would have
gone on is counted as GOES_ON.`,
		Example: `  processor replay verify
  processor replay verify --since 24h --json
  processor replay verify --run run-1
  processor replay verify --since 24h --policy stricter.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			since, err := f.begin(cmd)
			if err != nil {
				return err
			}
			if f.policy != "" {
				return runWhatIf(cmd, f, since)
			}
			return runVerify(cmd, f, since)
		},
	}
	f.add(cmd)
	cmd.Flags().Int64Var(&f.fromSeq, "from-seq", 0, "only events of the stream IN from this sequence on; earlier ones build state")
	cmd.Flags().StringVar(&f.store, "store", "auto", "compare the ends of runs with Redis: auto, always or never")
	cmd.Flags().DurationVar(&f.skew, "clock-skew", replay.DefaultSkew, "by which a processor's clock may be ahead of the server's")
	cmd.Flags().IntVar(&f.differences, "max-differences", replay.DefaultDifferences, "differences that are shown; all are counted")
	cmd.Flags().StringVar(&f.policy, "policy", "", "decide by this policy instead, and show what would have been")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit with 1 also if anything was not checked that is decided")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the result as one JSON object")
	addSettings(cmd.Flags(), replayStoreSettings())
	return cmd
}

// begin refuses what cannot be meant together.
func (f *verifyFlags) begin(cmd *cobra.Command) (replay.Since, error) {
	at, err := f.check(cmd)
	if err != nil {
		return replay.Since{}, err
	}
	switch {
	case f.fromSeq > 0 && !at.IsZero():
		return replay.Since{}, usageOf(cmd, errors.New("--since and --from-seq: want one of them, got both"))
	case f.fromSeq < 1 && cmd.Flags().Changed("from-seq"):
		return replay.Since{}, usageOf(cmd, fmt.Errorf("--from-seq: want a sequence of IN, 1 or more, got %d", f.fromSeq))
	case f.store != "auto" && f.store != "always" && f.store != "never":
		return replay.Since{}, usageOf(cmd, fmt.Errorf("--store: want auto, always or never, got %.40q", f.store))
	case f.skew <= 0:
		return replay.Since{}, usageOf(cmd, fmt.Errorf("--clock-skew: want a positive duration such as 1m, got %v", f.skew))
	case f.differences < 1:
		return replay.Since{}, usageOf(cmd, fmt.Errorf("--max-differences: want 1 or more, got %d", f.differences))
	case f.policy != "" && len(f.runs) > 1:
		return replay.Since{}, usageOf(cmd, fmt.Errorf("--policy: want at most one --run beside it, got %d", len(f.runs)))
	}
	for _, name := range []string{"store", "max-differences", "clock-skew", "strict"} {
		if f.policy != "" && cmd.Flags().Changed(name) {
			return replay.Since{}, usageOf(cmd, fmt.Errorf("--policy and --%s: want one of them, got both; nothing is compared where another policy decides", name))
		}
	}
	return replay.Since{Time: at, Event: uint64(f.fromSeq)}, nil //nolint:gosec // it is no less than 0
}

func runVerify(cmd *cobra.Command, f verifyFlags, since replay.Since) error {
	ctx := cmd.Context()
	c, js, log, err := connectReplay(cmd)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	records, why, err := verifyStore(ctx, c, f.store, log)
	if err != nil {
		return err
	}
	if records != nil {
		defer func() { _ = records.Close() }()
	}
	line := newReplayLine(cmd.ErrOrStderr(), "differences")
	report, err := verifyRuns(ctx, c, js, log, f, since, records, line)
	line.end()
	report.EndedEarly = err != nil
	if err == nil || !report.Nothing() || len(report.NoSuchRuns) > 0 {
		if writeErr := writeReport(cmd.OutOrStdout(), report, why, f.json); err == nil {
			err = writeErr
		}
	}
	if err != nil {
		return replayError(err)
	}
	return judgeReport(report, c.Subjects.Prefix, since, f.strict)
}

// judgeReport says what of a verification that came to its end is no good.
func judgeReport(r *replay.Report, prefix string, since replay.Since, strict bool) error {
	var errs []error
	if !r.OK() {
		errs = append(errs, fmt.Errorf("differences: %d", r.DifferenceCount))
	}
	if len(r.NoSuchRuns) > 0 {
		errs = append(errs, fmt.Errorf("the streams have nothing of run %s", strings.Join(r.NoSuchRuns, ", ")))
	}
	if r.Nothing() && len(errs) == 0 && since == (replay.Since{}) {
		waiting := r.Unchecked[replay.UncheckedUndecided]
		if waiting > 0 {
			return fmt.Errorf("nothing was checked: there are no facts, and %s not decided yet; is a processor serving?", plural(waiting, "event"))
		}
		return fmt.Errorf("nothing was checked: the streams hold no events and no facts below %q", prefix)
	}
	if n := r.NotChecked() - r.Unchecked[replay.UncheckedUndecided]; strict && n > 0 {
		errs = append(errs, fmt.Errorf("not checked: %d, and --strict wants none", n))
	}
	return errors.Join(errs...)
}

// verifyRuns verifies everything, or the runs that were named, one after the
// other. What was found is given with an error, too.
func verifyRuns(ctx context.Context, c config, js jetstream.JetStream, log zerolog.Logger, f verifyFlags, since replay.Since, records *store.Store, line *replayLine) (*replay.Report, error) {
	runs := f.runs
	if len(runs) == 0 {
		runs = []string{""}
	}
	sum := &replay.Report{}
	for _, run := range runs {
		streams, err := replay.NewJetStream(js, c.Subjects.Prefix, run, log)
		if err != nil {
			return sum, err
		}
		cfg := replay.VerifyConfig{
			Prefix: c.Subjects.Prefix, Streams: streams, Policies: streams,
			Skew: f.skew, Differences: f.differences, Progress: line.show, Clock: time.Now,
		}
		if records != nil {
			cfg.Store = records
		}
		if cfg.Stretch, err = streams.Survey(ctx, since); err != nil {
			return sum, err
		}
		if run != "" && cfg.Stretch.FactsTo == 0 && cfg.Stretch.EventsTo == 0 {
			sum.NoSuchRuns = append(sum.NoSuchRuns, run)
			continue
		}
		report, err := replay.Verify(ctx, cfg)
		if report != nil {
			sum.Add(report, f.differences)
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// verifyStore opens Redis to read from; nil, and why, where it is left out.
func verifyStore(ctx context.Context, c config, want string, log zerolog.Logger) (*store.Store, string, error) {
	if want == "never" {
		return nil, "left out", nil
	}
	records, err := newStore(c, log)
	if err != nil {
		return nil, "", err
	}
	if err := records.Ping(ctx); err != nil {
		_ = records.Close()
		err = redisError(c, err)
		if want == "always" {
			return nil, "", err
		}
		return nil, "not compared: " + err.Error(), nil
	}
	return records, "", nil
}

func runWhatIf(cmd *cobra.Command, f verifyFlags, since replay.Since) error {
	content, err := readPolicy(f.policy)
	if err != nil {
		return err
	}
	rules, err := policy.Parse(f.policy, content)
	if err != nil {
		return usage(err)
	}
	c, js, log, err := connectReplay(cmd)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	line := newReplayLine(cmd.ErrOrStderr(), "events decided again")
	comparison, err := whatIf(cmd.Context(), c, js, log, f, since, rules, line)
	line.end()
	if err != nil {
		return replayError(err)
	}
	if comparison.Events == 0 && since == (replay.Since{}) {
		return fmt.Errorf("nothing was decided again: the streams hold no events below %q that were decided", c.Subjects.Prefix)
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(comparison)
	}
	return writeComparison(cmd.OutOrStdout(), comparison)
}

func whatIf(ctx context.Context, c config, js jetstream.JetStream, log zerolog.Logger, f verifyFlags, since replay.Since, rules *harness.Policy, line *replayLine) (*replay.Comparison, error) {
	run := ""
	if len(f.runs) == 1 {
		run = f.runs[0]
	}
	streams, err := replay.NewJetStream(js, c.Subjects.Prefix, run, log)
	if err != nil {
		return nil, err
	}
	stretch, err := streams.Survey(ctx, since)
	if err != nil {
		return nil, err
	}
	return replay.WhatIf(ctx, replay.WhatIfConfig{Prefix: c.Subjects.Prefix, Streams: streams, Policy: rules, Stretch: stretch, Progress: line.show})
}

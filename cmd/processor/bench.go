package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"runledger/internal/bench"
	"runledger/internal/devserver"

	"github.com/spf13/cobra"
)

type benchOptions struct {
	seconds, rounds int
	rates           string
	json, matrix    bool
	cells           string
}

func newBench() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:     "bench",
		GroupID: "try",
		Short:   "Measure throughput, latency and cost on this machine, beside a floor",
		Long: `bench starts nats-server, redis-server, a processor and a load of agents and
executors as processes, and measures whole calls: from the intent to the settled
fact that the agent reads back. Beside it, it measures the floor: a bare loop
that makes the same reads, publishes and writes with no logic. Both take turns
over several rounds on fresh servers; the medians are told.

docs/performance.md says what is measured and how.`,
		Example: `  processor bench
  processor bench --seconds 5 --rounds 1 --rates ""
  processor bench --matrix --rounds 1
  processor bench --json | tail -1 | jq .floor_ratio`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBench(cmd, o) },
	}
	cmd.Flags().IntVar(&o.seconds, "seconds", 20, "measured time of each phase, after its warm-up")
	cmd.Flags().IntVar(&o.rounds, "rounds", 3, "rounds of processor and floor")
	cmd.Flags().StringVar(&o.rates, "rates", "500,1000,2000", `arrivals a second at which latencies are measured; "" leaves latencies out; not with --matrix`)
	cmd.Flags().BoolVar(&o.matrix, "matrix", false, "vary one factor at a time instead: durability, processors, sizes, runs")
	cmd.Flags().StringVar(&o.cells, "cells", "", `with --matrix: only cells whose names hold this text, such as "open runs"`)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object as the last line")
	cmd.AddCommand(newBenchNATS(), newBenchLoad(), newBenchFloor())
	return cmd
}

func runBench(cmd *cobra.Command, o benchOptions) (err error) {
	rates, err := o.check(cmd)
	if err != nil {
		return usageOf(cmd, err)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "runledger-bench-")
	if err != nil {
		return err
	}
	defer func() {
		if interrupted := cmd.Context().Err(); interrupted != nil {
			err = interrupted // whatever failed, failed because of that
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	cfg := bench.Config{
		Program: program, Dir: dir, Seconds: o.seconds, Rounds: o.rounds, Rates: rates, Progress: cmd.ErrOrStderr(),
	}
	if err := cfg.Validate(); err != nil {
		return usageOf(cmd, err)
	}
	out := cmd.OutOrStdout()
	if o.matrix {
		cells := bench.Cells(o.cells)
		if len(cells) == 0 {
			return usageOf(cmd, fmt.Errorf("--cells: no cell's name holds %.100q", o.cells))
		}
		matrix, failed := bench.MeasureMatrix(cmd.Context(), cfg, cells)
		if len(matrix.Cells) == 0 {
			return failed
		}
		return errors.Join(tellBench(out, matrix, o.json), failed)
	}
	result, err := bench.Measure(cmd.Context(), cfg, bench.BaseSetup())
	if err != nil {
		return err
	}
	return tellBench(out, result, o.json)
}

// check refuses flags that do not go together or are out of range, and reads the
// rates.
func (o benchOptions) check(cmd *cobra.Command) (rates []int, err error) {
	switch {
	case cmd.Flags().Changed("cells") && !o.matrix:
		return nil, errors.New("--cells: it names cells of the matrix; add --matrix, or leave --cells out")
	case cmd.Flags().Changed("rates") && o.matrix:
		return nil, errors.New("--rates: the cells of the matrix have rates of their own; leave out --rates or --matrix")
	case o.seconds < 1 || o.seconds > bench.MaxSeconds:
		return nil, fmt.Errorf("--seconds: want 1 to %d, got %d", bench.MaxSeconds, o.seconds)
	case o.rounds < 1 || o.rounds > bench.MaxRounds:
		return nil, fmt.Errorf("--rounds: want 1 to %d, got %d", bench.MaxRounds, o.rounds)
	}
	if rates, err = parseRates(o.rates); err != nil {
		return nil, err
	}
	for _, rate := range rates {
		if rate < 1 || rate > bench.MaxRate {
			return nil, fmt.Errorf("--rates: want 1 to %d calls a second, got %d", bench.MaxRate, rate)
		}
	}
	return rates, nil
}

// parseRates reads whole numbers with commas between; nothing is none.
func parseRates(text string) ([]int, error) {
	var rates []int
	for part := range strings.SplitSeq(text, ",") {
		if part == "" && text == "" {
			return nil, nil
		}
		rate, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf(`--rates: want whole numbers with commas between, or "", got %.100q`, text)
		}
		rates = append(rates, rate)
	}
	return rates, nil
}

// tellBench writes a table, and for programs a line.
func tellBench(out io.Writer, result interface{ WriteTable(w io.Writer) error }, asJSON bool) error {
	if err := result.WriteTable(out); err != nil || !asJSON {
		return err
	}
	line, err := json.Marshal(result)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}

// newBenchNATS makes this program a nats-server, with the flags of one.
func newBenchNATS() *cobra.Command {
	return &cobra.Command{
		Use: bench.CommandNATS, Short: "A nats-server, for bench", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error { return devserver.ServeNATS(cmd.Context(), args) },
	}
}

func newBenchLoad() *cobra.Command {
	var cfg bench.LoadConfig
	cmd := &cobra.Command{
		Use: bench.CommandLoad, Short: "Agents and executors, for bench", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.RunLoad(cmd.Context(), cfg) },
	}
	cmd.Flags().StringVar(&cfg.URL, "nats-url", "", "NATS servers")
	cmd.Flags().IntVar(&cfg.ArgumentBytes, "argument-bytes", 1024, "of each call")
	cmd.Flags().IntVar(&cfg.ResultBytes, "result-bytes", 4096, "of each call")
	return cmd
}

func newBenchFloor() *cobra.Command {
	var cfg bench.FloorConfig
	cmd := &cobra.Command{
		Use: bench.CommandFloor, Short: "The bare loop, for bench", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent) // as serve, or the two could not be compared
			}
			return bench.RunFloor(cmd.Context(), cfg)
		},
	}
	cmd.Flags().StringVar(&cfg.URL, "nats-url", "", "NATS servers")
	cmd.Flags().StringVar(&cfg.Redis, "redis", "", "host:port of Redis")
	cmd.Flags().StringVar(&cfg.Recipe, "recipe", "", "file with what is to be stored for a call")
	cmd.Flags().IntVar(&cfg.Loops, "loops", 0, "loops that share the partitions, 0 for what was fastest")
	return cmd
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

// Result is what was measured of one tool in one form.
type Result struct {
	Name string `json:"name"`
	What string `json:"what"` // what a call is
	// Versions are the tool's modules.
	Versions       map[string]string `json:"versions,omitempty"`
	CallsPerSecond float64           `json:"calls_per_second"`
	P50            float64           `json:"p50_ms,omitempty"` // intent to settled, at saturation
	P99            float64           `json:"p99_ms,omitempty"`
	// CPU is in seconds per 1,000 calls.
	CPU CPU `json:"cpu_seconds_per_1000_calls"`
	// RunledgerRatio is runledger's calls a second by this one's, where it was
	// measured in the same run.
	RunledgerRatio float64 `json:"runledger_ratio,omitempty"`
	Seconds        int     `json:"seconds"`
	Rounds         int     `json:"rounds"`
	// RoundCallsPerSecond are each round's, in order.
	RoundCallsPerSecond []float64 `json:"round_calls_per_second"`
	// Calls are those of all rounds, warm-up included; runledger counts its own.
	Calls      tally             `json:"calls,omitzero"`
	Settings   string            `json:"settings"`
	Durability string            `json:"durability"`
	Guarantees map[string]string `json:"guarantees"`
}

func resultsOf(cfg Config, plays map[string][]figures) []Result {
	var results []Result
	ours := medianOf(plays[toolRunledger], callsPerSecond)
	add := func(r Result, tool string) {
		of := plays[r.Name]
		if len(of) == 0 {
			return
		}
		r.CallsPerSecond = medianOf(of, callsPerSecond)
		r.P50 = medianOf(of, func(f figures) float64 { return f.P50 })
		r.P99 = medianOf(of, func(f figures) float64 { return f.P99 })
		r.CPU = CPU{
			Peer:  medianOf(of, func(f figures) float64 { return f.CPU.Peer }),
			NATS:  medianOf(of, func(f figures) float64 { return f.CPU.NATS }),
			Redis: medianOf(of, func(f figures) float64 { return f.CPU.Redis }),
		}
		r.RunledgerRatio = ours / r.CallsPerSecond
		r.Seconds, r.Rounds = cfg.Seconds, len(of)
		for _, f := range of {
			r.RoundCallsPerSecond = append(r.RoundCallsPerSecond, f.CallsPerSecond)
			r.Calls = r.Calls.plus(f.Calls)
		}
		r.Guarantees = guaranteesOf(tool)
		results = append(results, r)
	}
	add(Result{
		Name: toolRunledger, What: "processor bench", Durability: onNATSAndRedis,
		Settings: "1 processor, 1,000 open runs",
	}, toolRunledger)
	for _, s := range cfg.Peers {
		add(Result{Name: s.Name, What: s.What, Settings: s.Settings, Durability: s.Durability, Versions: versionsOf(s.Tool)}, s.Tool)
	}
	return results
}

func callsPerSecond(f figures) float64 { return f.CallsPerSecond }

// versionsOf are the modules of a tool that this program was built with.
func versionsOf(tool string) map[string]string {
	of := map[string][]string{
		toolWatermill: {"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-nats/v2", "github.com/nats-io/nats-server/v2"},
		toolAsynq:     {"github.com/hibiken/asynq"},
		toolTemporal:  {"go.temporal.io/server", "go.temporal.io/sdk"},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	versions := make(map[string]string)
	for _, dep := range info.Deps {
		for _, path := range of[tool] {
			if dep.Path == path {
				versions[path] = dep.Version
			}
		}
	}
	return versions
}

// writeJSON writes one object a line.
func writeJSON(w io.Writer, results []Result) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// writeTable writes the figures for people, and below them the settings.
func writeTable(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n\tcalls/s\tp50 ms\tp99 ms\tCPU s/1,000\tnats-server\tredis-server\trunledger is\ta call is\n")
	for _, r := range results {
		row := []string{r.Name, fmt.Sprintf("%.0f", r.CallsPerSecond), figure("%.1f", r.P50), figure("%.1f", r.P99),
			figure("%.3f", r.CPU.Peer), figure("%.3f", r.CPU.NATS), figure("%.3f", r.CPU.Redis), figure("%.2f times", r.RunledgerRatio), r.What}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d s each, %d rounds, medians; arguments of %d bytes, results of %d; from intent to settled, at saturation\n\n",
		results[0].Seconds, results[0].Rounds, argumentBytes, resultBytes)
	for _, r := range results {
		fmt.Fprintf(w, "%s\n  %s\n  %s\n", r.Name, r.Settings, r.Durability)
	}
	fmt.Fprintln(w, "\nWhat each guarantees: peers --guarantees")
	return nil
}

// figure is "–" where there is none.
func figure(format string, value float64) string {
	if value == 0 {
		return "–"
	}
	return fmt.Sprintf(format, value)
}

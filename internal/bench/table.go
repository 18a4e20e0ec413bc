package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes a result for people.
func (r Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) { fmt.Fprintf(t, format+"\t\n", args...) }
	fmt.Fprintf(w, "\n%s\n%s\n\n", r.Setup, r.Machine.circumstances(r.Seconds, r.Rounds))
	line("at saturation\tprocessor\tfloor\tratio")
	line("whole calls a second\t%.0f\t%.0f\t%.2f", r.CallsPerSecond, r.FloorCallsPerSecond, r.FloorRatio)
	line("CPU s per 1,000 calls: itself\t%.3f\t%.3f\t%.2f", r.CPU.Processor, r.FloorCPU.Processor, ratio(r.CPU.Processor, r.FloorCPU.Processor))
	line("nats-server\t%.3f\t%.3f\t%.2f", r.CPU.NATS, r.FloorCPU.NATS, ratio(r.CPU.NATS, r.FloorCPU.NATS))
	line("redis-server\t%.3f\t%.3f\t%.2f", r.CPU.Redis, r.FloorCPU.Redis, ratio(r.CPU.Redis, r.FloorCPU.Redis))
	line("load\t%.3f\t%.3f\t%.2f", r.CPU.Load, r.FloorCPU.Load, ratio(r.CPU.Load, r.FloorCPU.Load))
	line("all of them\t%.3f\t%.3f\t%.2f", r.CPU.sum(), r.FloorCPU.sum(), ratio(r.CPU.sum(), r.FloorCPU.sum()))
	line("CPU: itself by both servers\t%.2f\t%.2f\t", r.ProcessorToServers, ratio(r.FloorCPU.Processor, r.FloorCPU.NATS+r.FloorCPU.Redis))
	line("CPU that others took, %%\t%.0f\t%.0f\t", r.OthersPercent, r.FloorOthersPercent)
	line("memory, MiB\t%.0f\t%.0f\t", r.MemoryMiB, r.FloorMemoryMiB)
	line("bytes allocated per call\t%.0f\t\t", r.AllocatedBytesPerCall)
	line("writes to Redis per call\t%d\t%d\t", r.WritesPerCall, r.WritesPerCall)
	line("bytes of them\t%d\t%d\t", r.WriteBytesPerCall, r.WriteBytesPerCall)
	if err := t.Flush(); err != nil {
		return err
	}
	return writeLatencies(w, r.Latencies)
}

// circumstances is a line above a table.
func (m Machine) circumstances(seconds, rounds int) string {
	told := plural(rounds, "round")
	if rounds > 1 {
		told += ", medians"
	}
	return fmt.Sprintf("%s, %s, %s, nats-server %s; %d s a phase, %s", m.OS, plural(m.CPUs, "CPU"), m.Go, m.NATS, seconds, told)
}

func writeLatencies(w io.Writer, rates []RateResult) error {
	if len(rates) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nlatencies in ms, processor / floor (ratio)\n\n")
	fmt.Fprintf(t, "calls/s\t\tp50\tp99\tp99.9\t\n")
	for _, r := range rates {
		name := fmt.Sprint(r.CallsPerSecond)
		if r.Percent > 0 {
			name += fmt.Sprintf(" (%d %%)", r.Percent)
		}
		row := func(what string, ours, floor Latency) {
			pair := func(a, b float64) string { return fmt.Sprintf("%.2f / %.2f (%.2f)", a, b, ratio(a, b)) }
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", name, what, pair(ours.P50, floor.P50), pair(ours.P99, floor.P99), pair(ours.P999, floor.P999))
			name = ""
		}
		row("intent to dispatch", r.Processor.IntentToDispatch, r.Floor.IntentToDispatch)
		row("result to settled", r.Processor.ResultToSettled, r.Floor.ResultToSettled)
		row("whole call", r.Processor.Whole, r.Floor.Whole)
		if r.Unfinished+r.FloorUnfinished > 0 {
			fmt.Fprintf(t, "\tnot settled\t%d / %d\t\t\t\n", r.Unfinished, r.FloorUnfinished)
		}
	}
	return t.Flush()
}

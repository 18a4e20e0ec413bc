package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// matrixRate is the fixed arrival rate of those cells whose question is what a
// call costs, not how many there can be: batches are then the same in all.
const matrixRate = 500

// Cell is one case of the matrix: the base with one factor varied.
type Cell struct {
	Factor string
	Value  string
	Setup  Setup

	// Rate of arrivals; 0 is saturation.
	Rate int
	// CallsPerRun, where it is set: 10 runs are under way at a time, each has
	// had CallsPerRun calls by the end, and the next one takes its place.
	CallsPerRun int
}

// Name tells the cell from the others.
func (c Cell) Name() string { return strings.TrimSpace(c.Factor + " " + c.Value) }

// Cells is those of the matrix whose names hold a text.
func Cells(text string) []Cell {
	return slices.DeleteFunc(allCells(), func(c Cell) bool { return !strings.Contains(c.Name(), text) })
}

func allCells() []Cell {
	with := func(factor, value string, change func(*Setup)) Cell {
		c := Cell{Factor: factor, Value: value, Setup: BaseSetup()}
		if change != nil {
			change(&c.Setup)
		}
		return c
	}
	cells := []Cell{
		with("base", "", nil),
		with("nats-server", "sync always", func(s *Setup) { s.SyncAlways = true }),
		with("nats-server", "3 replicas", func(s *Setup) { s.Replicas = 3 }),
		with("redis-server", "no AOF", func(s *Setup) { s.NoAOF = true }),
		with("processors", "2", func(s *Setup) { s.Processors = 2 }),
	}
	for _, bytes := range []int{256, 64 << 10, 900 << 10} {
		cells = append(cells, with("results", size(bytes), func(s *Setup) { s.ResultBytes = bytes }))
	}
	for _, runs := range []int{10, 1000, 100_000} {
		c := with("open runs", fmt.Sprint(runs), func(s *Setup) { s.OpenRuns = runs })
		c.Rate = matrixRate
		cells = append(cells, c)
	}
	for _, calls := range []int{10, 10_000} {
		c := with("calls of a run", fmt.Sprint(calls), nil)
		c.Rate, c.CallsPerRun = matrixRate, calls
		cells = append(cells, c)
	}
	return cells
}

// activeRuns are under way at a time where runs have an end.
const activeRuns = 10

// Matrix is the results of all cells.
type Matrix struct {
	Machine Machine      `json:"machine"`
	Seconds int          `json:"seconds"`
	Rounds  int          `json:"rounds"`
	Cells   []CellResult `json:"cells"`
}

// CellResult is what a cell came to; see [Result].
type CellResult struct {
	Factor string `json:"factor"`
	Value  string `json:"value,omitempty"`
	Rate   int    `json:"arrivals_per_second,omitempty"` // 0: at saturation
	Error  string `json:"error,omitempty"`               // why there are no figures

	CallsPerSecond        float64 `json:"calls_per_second"`
	FloorCallsPerSecond   float64 `json:"floor_calls_per_second"`
	FloorRatio            float64 `json:"floor_ratio"`
	CPU                   CPU     `json:"cpu_seconds_per_1000_calls"`
	FloorCPU              CPU     `json:"floor_cpu_seconds_per_1000_calls"`
	MemoryMiB             float64 `json:"processor_memory_mib"`
	AllocatedBytesPerCall float64 `json:"allocated_bytes_per_call"`
	OthersPercent         float64 `json:"others_cpu_percent"` // the most of all rounds, of both
	Whole                 Latency `json:"whole_call_ms"`
	FloorWhole            Latency `json:"floor_whole_call_ms"`
}

// MeasureMatrix measures the cells one after the other. Where some could not be
// measured, the error says how many, and the others are given.
func MeasureMatrix(ctx context.Context, cfg Config, cells []Cell) (Matrix, error) {
	if err := cfg.Validate(); err != nil {
		return Matrix{}, err
	}
	m := &measurement{cfg: cfg, recipes: make(map[[2]int]*recipe)}
	out := Matrix{Machine: thisMachine(), Seconds: cfg.Seconds, Rounds: cfg.Rounds}
	failed := 0
	for _, c := range cells {
		cfg.say("%s", c.Name())
		result, err := m.cell(ctx, c)
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if err != nil { // the others are worth having
			cfg.say("%v", err)
			result = CellResult{Factor: c.Factor, Value: c.Value, Rate: c.Rate, Error: err.Error()}
			failed++
		}
		out.Cells = append(out.Cells, result)
	}
	if failed > 0 {
		return out, fmt.Errorf("%d of %s of the matrix could not be measured; see above", failed, plural(len(out.Cells), "cell"))
	}
	return out, nil
}

func (m *measurement) cell(ctx context.Context, c Cell) (CellResult, error) {
	if err := c.Setup.Validate(); err != nil {
		return CellResult{}, err
	}
	plays := bothOf{}
	err := m.rounds(ctx, c.Setup, func(ctx context.Context, s *session, what subject, round int) error {
		p, err := m.playCell(ctx, s, c)
		if err != nil {
			return err
		}
		m.cfg.say("round %d  %-9s  %7.0f calls/s  CPU s per 1,000 calls: %.3f; others took %.0f %%",
			round+1, what, p.rate(), p.Cost.Processor, p.Cost.OthersPercent)
		plays[what] = append(plays[what], p)
		return nil
	})
	if err != nil {
		return CellResult{}, err
	}
	r := m.result(c.Setup, plays)
	whole := func(p play) Latency { return p.Latencies.Whole }
	return CellResult{
		Factor: c.Factor, Value: c.Value, Rate: c.Rate,
		CallsPerSecond: r.CallsPerSecond, FloorCallsPerSecond: r.FloorCallsPerSecond, FloorRatio: r.FloorRatio,
		CPU: r.CPU, FloorCPU: r.FloorCPU, MemoryMiB: r.MemoryMiB, AllocatedBytesPerCall: r.AllocatedBytesPerCall,
		OthersPercent: max(r.OthersPercent, r.FloorOthersPercent),
		Whole:         medianLatency(plays[subjectProcessor], whole), FloorWhole: medianLatency(plays[subjectFloor], whole),
	}, nil
}

// playCell opens the runs and plays: at saturation, or at the cell's rate.
func (m *measurement) playCell(ctx context.Context, s *session, c Cell) (play, error) {
	if c.CallsPerRun > 0 {
		return m.playRuns(ctx, s, c)
	}
	if err := s.open(ctx, c.Setup.OpenRuns); err != nil {
		return play{}, err
	}
	if c.Rate == 0 {
		return s.play(ctx, m.saturated(c.Setup))
	}
	return s.play(ctx, m.paced(c.Setup, c.Rate))
}

// playRuns plays runs of a given length. Short ones are opened before, so that
// only calls are measured; long ones have had most of their calls before.
func (m *measurement) playRuns(ctx context.Context, s *session, c Cell) (play, error) {
	o := m.paced(c.Setup, c.Rate)
	o.ActiveRuns, o.CallsPerRun = activeRuns, c.CallsPerRun
	arrivals := c.Rate * int(o.WarmupMS+o.MeasuredMS) / 1000
	runs := arrivals/c.CallsPerRun + 2*activeRuns
	if err := s.open(ctx, runs); err != nil {
		return play{}, err
	}
	before := activeRuns*c.CallsPerRun - arrivals - activeRuns
	if before <= 0 {
		return s.play(ctx, o)
	}
	if err := s.prepare(ctx, before); err != nil {
		return play{}, err
	}
	o.CallsPerRun = 0 // they have their length when the time is over
	return s.play(ctx, o)
}

// WriteTable writes the matrix for people.
func (m Matrix) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\nbase: %s\n\n", m.Machine.circumstances(m.Seconds, m.Rounds), BaseSetup())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tload\tcalls/s\tfloor\tratio\tCPU s/1,000\tnats\tredis\tfloor CPU\tnats\tredis\tMiB\tB/call\tp50 ms\tp99 ms\tothers %\t")
	for _, c := range m.Cells {
		if c.Error != "" {
			fmt.Fprintf(t, "%s %s\tnot measured\t\n", c.Factor, c.Value)
			continue
		}
		load := "saturated"
		if c.Rate > 0 {
			load = fmt.Sprintf("%d/s", c.Rate)
		}
		fmt.Fprintf(t, "%s %s\t%s\t%.0f\t%.0f\t%.2f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.0f\t%.0f\t%.1f\t%.1f\t%.0f\t\n",
			c.Factor, c.Value, load, c.CallsPerSecond, c.FloorCallsPerSecond, c.FloorRatio,
			c.CPU.Processor, c.CPU.NATS, c.CPU.Redis, c.FloorCPU.Processor, c.FloorCPU.NATS, c.FloorCPU.Redis,
			c.MemoryMiB, c.AllocatedBytesPerCall, c.Whole.P50, c.Whole.P99, c.OthersPercent)
	}
	return t.Flush()
}

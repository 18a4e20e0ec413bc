package bench

import (
	"runtime"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// Result is one measurement. Ratios are those of processor to floor.
type Result struct {
	Setup   string  `json:"setup"`
	Machine Machine `json:"machine"`
	Seconds int     `json:"seconds"` // measured of each phase
	Rounds  int     `json:"rounds"`

	CallsPerSecond      float64 `json:"calls_per_second"`
	FloorCallsPerSecond float64 `json:"floor_calls_per_second"`
	FloorRatio          float64 `json:"floor_ratio"`
	// Each round's, in order.
	RoundCallsPerSecond      []float64 `json:"round_calls_per_second"`
	RoundFloorCallsPerSecond []float64 `json:"round_floor_calls_per_second"`

	CPU      CPU `json:"cpu_seconds_per_1000_calls"`
	FloorCPU CPU `json:"floor_cpu_seconds_per_1000_calls"`
	// ProcessorToServers is the processor's CPU by that of NATS and Redis
	// together.
	ProcessorToServers float64 `json:"processor_to_servers_cpu"`

	MemoryMiB             float64 `json:"processor_memory_mib"`
	FloorMemoryMiB        float64 `json:"floor_memory_mib"`
	AllocatedBytesPerCall float64 `json:"allocated_bytes_per_call"`

	// CPU of the machine that others took meanwhile; the most of all rounds.
	OthersPercent      float64 `json:"others_cpu_percent"`
	FloorOthersPercent float64 `json:"floor_others_cpu_percent"`

	// What one call changes in Redis, of processor and floor alike.
	WritesPerCall     int `json:"redis_writes_per_call"`
	WriteBytesPerCall int `json:"redis_write_bytes_per_call"`

	Latencies []RateResult `json:"latencies_ms,omitempty"`
}

// CPU seconds, by process.
type CPU struct {
	Processor float64 `json:"processor"` // or the floor
	NATS      float64 `json:"nats_server"`
	Redis     float64 `json:"redis_server"`
	Load      float64 `json:"load"`
}

func (c CPU) sum() float64 { return c.Processor + c.NATS + c.Redis + c.Load }

// RateResult is latencies at one arrival rate.
type RateResult struct {
	CallsPerSecond  int       `json:"calls_per_second"`
	Percent         int       `json:"percent_of_throughput,omitempty"` // 0 for a fixed rate
	Processor       Latencies `json:"processor"`
	Floor           Latencies `json:"floor"`
	CPU             CPU       `json:"cpu_seconds_per_1000_calls"`
	FloorCPU        CPU       `json:"floor_cpu_seconds_per_1000_calls"`
	Late            Latency   `json:"load_behind_schedule"`
	Unfinished      int64     `json:"unfinished"` // of the processor, in all rounds
	FloorUnfinished int64     `json:"floor_unfinished"`
}

// Machine is what it was measured on.
type Machine struct {
	OS   string `json:"os"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
	NATS string `json:"nats_server"`
}

func thisMachine() Machine {
	return Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), NATS: server.VERSION}
}

// median is the middle of the values, 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// medianOf is the median of one figure of the plays.
func medianOf(plays []play, figure func(play) float64) float64 {
	values := make([]float64, len(plays))
	for i, p := range plays {
		values[i] = figure(p)
	}
	return median(values)
}

func mostOthers(plays []play) float64 {
	most := 0.0
	for _, p := range plays {
		most = max(most, p.Cost.OthersPercent)
	}
	return most
}

func medianCPU(plays []play) CPU {
	return CPU{
		Processor: medianOf(plays, func(p play) float64 { return p.Cost.Processor }),
		NATS:      medianOf(plays, func(p play) float64 { return p.Cost.NATS }),
		Redis:     medianOf(plays, func(p play) float64 { return p.Cost.Redis }),
		Load:      medianOf(plays, func(p play) float64 { return p.Cost.Load }),
	}
}

func medianLatency(plays []play, of func(play) Latency) Latency {
	return Latency{
		P50:  medianOf(plays, func(p play) float64 { return of(p).P50 }),
		P99:  medianOf(plays, func(p play) float64 { return of(p).P99 }),
		P999: medianOf(plays, func(p play) float64 { return of(p).P999 }),
		Max:  medianOf(plays, func(p play) float64 { return of(p).Max }),
	}
}

func medianLatencies(plays []play) Latencies {
	return Latencies{
		IntentToDispatch: medianLatency(plays, func(p play) Latency { return p.Latencies.IntentToDispatch }),
		ResultToSettled:  medianLatency(plays, func(p play) Latency { return p.Latencies.ResultToSettled }),
		Whole:            medianLatency(plays, func(p play) Latency { return p.Latencies.Whole }),
	}
}

// ratio is 0 where there is nothing to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// bothOf is the plays of both subjects, a round each.
type bothOf map[subject][]play

// measurement carries one through.
type measurement struct {
	cfg     Config
	recipes map[[2]int]*recipe // by bytes of arguments and result: nothing else changes them
}

// Measure measures one setup: throughput and cost, then latencies. The context
// ends it early, with everything stopped and removed.
func Measure(ctx context.Context, cfg Config, setup Setup) (Result, error) {
	if err := errors.Join(cfg.Validate(), setup.Validate()); err != nil {
		return Result{}, err
	}
	m := &measurement{cfg: cfg, recipes: make(map[[2]int]*recipe)}
	result, err := m.throughput(ctx, setup)
	if err != nil {
		return Result{}, err
	}
	if len(cfg.Rates) > 0 {
		result.Latencies, err = m.latencies(ctx, setup, result.CallsPerSecond)
	}
	return result, err
}

// rounds lets both subjects have a session in each round, in turn first.
func (m *measurement) rounds(ctx context.Context, setup Setup, phase func(context.Context, *session, subject, int) error) error {
	recipe, err := m.recipe(ctx, setup)
	if err != nil {
		return err
	}
	for round := range m.cfg.Rounds {
		order := []subject{subjectProcessor, subjectFloor}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, what := range order {
			err := m.inSession(ctx, setup, what, recipe, func(s *session) error {
				if err := s.startLoad(ctx); err != nil {
					return err
				}
				return phase(ctx, s, what, round)
			})
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", what, round+1, err)
			}
		}
	}
	return nil
}

func (m *measurement) inSession(ctx context.Context, setup Setup, what subject, recipe *recipe, fn func(*session) error) error {
	s, err := startSession(ctx, m.cfg, setup, what, recipe)
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.stop())
}

// recipe records what a processor stores for a call, once for each size of call.
func (m *measurement) recipe(ctx context.Context, setup Setup) (*recipe, error) {
	key := [2]int{setup.ArgumentBytes, setup.ResultBytes}
	if m.recipes[key] != nil {
		return m.recipes[key], nil
	}
	m.cfg.say("recording what the processor stores for a call")
	plain := BaseSetup()
	plain.ArgumentBytes, plain.ResultBytes = setup.ArgumentBytes, setup.ResultBytes
	err := m.inSession(ctx, plain, subjectProcessor, nil, func(s *session) (err error) {
		m.recipes[key], err = s.record(ctx)
		return err
	})
	return m.recipes[key], err
}

// throughput measures at saturation.
func (m *measurement) throughput(ctx context.Context, setup Setup) (Result, error) {
	plays := bothOf{}
	err := m.rounds(ctx, setup, func(ctx context.Context, s *session, what subject, round int) error {
		if err := s.open(ctx, setup.OpenRuns); err != nil {
			return err
		}
		p, err := s.play(ctx, m.saturated(setup))
		if err != nil {
			return err
		}
		m.cfg.say("round %d  %-9s  %7.0f calls/s  CPU s per 1,000 calls: %.3f, nats %.3f, redis %.3f, load %.3f; others took %.0f %%",
			round+1, what, p.rate(), p.Cost.Processor, p.Cost.NATS, p.Cost.Redis, p.Cost.Load, p.Cost.OthersPercent)
		plays[what] = append(plays[what], p)
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	return m.result(setup, plays), nil
}

func (m *measurement) saturated(setup Setup) playOrder {
	return playOrder{
		Window: setup.window(), ActiveRuns: setup.OpenRuns, MaxCalls: setup.maxCalls(),
		WarmupMS: m.cfg.warmup().Milliseconds(), MeasuredMS: m.cfg.measured().Milliseconds(),
	}
}

// result draws the figures of throughput together.
func (m *measurement) result(setup Setup, plays bothOf) Result {
	ours, floors := plays[subjectProcessor], plays[subjectFloor]
	r := Result{
		Setup: setup.String(), Machine: thisMachine(), Seconds: m.cfg.Seconds, Rounds: m.cfg.Rounds,
		CallsPerSecond: medianOf(ours, play.rate), FloorCallsPerSecond: medianOf(floors, play.rate),
		CPU: medianCPU(ours), FloorCPU: medianCPU(floors),
		MemoryMiB:             medianOf(ours, func(p play) float64 { return p.Cost.MemoryMiB }),
		FloorMemoryMiB:        medianOf(floors, func(p play) float64 { return p.Cost.MemoryMiB }),
		AllocatedBytesPerCall: medianOf(ours, func(p play) float64 { return p.Cost.AllocatedBytes }),
	}
	r.OthersPercent, r.FloorOthersPercent = mostOthers(ours), mostOthers(floors)
	for i := range ours {
		r.RoundCallsPerSecond = append(r.RoundCallsPerSecond, ours[i].rate())
		r.RoundFloorCallsPerSecond = append(r.RoundFloorCallsPerSecond, floors[i].rate())
	}
	r.FloorRatio = ratio(r.CallsPerSecond, r.FloorCallsPerSecond)
	r.ProcessorToServers = ratio(r.CPU.Processor, r.CPU.NATS+r.CPU.Redis)
	if recipe := m.recipes[[2]int{setup.ArgumentBytes, setup.ResultBytes}]; recipe != nil {
		r.WritesPerCall, r.WriteBytesPerCall = recipe.writes()
	}
	return r
}

// arrival is one rate at which latencies are measured.
type arrival struct{ rate, percent int }

// arrivals are a quarter, a half and three quarters of the throughput, then the
// fixed rates.
func (m *measurement) arrivals(throughput float64) []arrival {
	var all []arrival
	for _, percent := range []int{25, 50, 75} {
		all = append(all, arrival{max(1, int(throughput)*percent/100), percent})
	}
	for _, rate := range m.cfg.Rates {
		all = append(all, arrival{rate: rate})
	}
	return all
}

// latencies measures both subjects at the same rates.
func (m *measurement) latencies(ctx context.Context, setup Setup, throughput float64) ([]RateResult, error) {
	arrivals := m.arrivals(throughput)
	plays := make([]bothOf, len(arrivals))
	err := m.rounds(ctx, setup, func(ctx context.Context, s *session, what subject, round int) error {
		if err := s.open(ctx, setup.OpenRuns); err != nil {
			return err
		}
		for i, a := range arrivals {
			p, err := s.play(ctx, m.paced(setup, a.rate))
			if err != nil {
				return fmt.Errorf("at %d calls a second: %w", a.rate, err)
			}
			m.cfg.say("round %d  %-9s  %7d calls/s  whole call p50 %.1f ms, p99 %.1f ms; others took %.0f %%",
				round+1, what, a.rate, p.Latencies.Whole.P50, p.Latencies.Whole.P99, p.Cost.OthersPercent)
			if plays[i] == nil {
				plays[i] = bothOf{}
			}
			plays[i][what] = append(plays[i][what], p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	results := make([]RateResult, len(arrivals))
	for i, a := range arrivals {
		results[i] = rateResult(a, plays[i])
	}
	return results, nil
}

func (m *measurement) paced(setup Setup, rate int) playOrder {
	return playOrder{
		Rate: rate, ActiveRuns: setup.OpenRuns,
		WarmupMS: min(m.cfg.warmup(), 2*time.Second).Milliseconds(), MeasuredMS: m.cfg.measured().Milliseconds(),
	}
}

func rateResult(a arrival, plays bothOf) RateResult {
	ours, floors := plays[subjectProcessor], plays[subjectFloor]
	r := RateResult{
		CallsPerSecond: a.rate, Percent: a.percent,
		Processor: medianLatencies(ours), Floor: medianLatencies(floors), CPU: medianCPU(ours), FloorCPU: medianCPU(floors),
		Late: medianLatency(ours, func(p play) Latency { return p.Late }),
	}
	for i := range ours {
		r.Unfinished += ours[i].Unfinished
		r.FloorUnfinished += floors[i].Unfinished
	}
	return r
}

package bench

// controlSubject is where the load takes its orders, one at a time, each a
// request. It is plain NATS and lies outside of every stream.
const controlSubject = "bench.load"

// order is what the load is asked for: one of the two.
type order struct {
	Open *openOrder `json:"open,omitempty"`
	Play *playOrder `json:"play,omitempty"`
}

// openOrder asks for runs to be started, and waits until they are.
type openOrder struct {
	Runs int `json:"runs"` // how many there shall be in all
}

// playOrder asks for calls: of some or all of the open runs, in turn.
type playOrder struct {
	// Window is how many calls are under way at any time (a closed loop); where
	// Rate is set, calls arrive by schedule instead, so many a second.
	Window int `json:"window,omitempty"`
	Rate   int `json:"rate,omitempty"`

	WarmupMS   int64 `json:"warmup_ms"`
	MeasuredMS int64 `json:"measured_ms"`
	MaxCalls   int   `json:"max_calls,omitempty"` // ends a closed loop early; 0 for no end

	FirstRun    int   `json:"first_run"`            // the runs that are played begin here
	ActiveRuns  int   `json:"active_runs"`          // so many of them at a time
	CallsPerRun int   `json:"calls_per_run"`        // then the next run takes its place; 0 for no end
	Unmeasured  bool  `json:"unmeasured,omitempty"` // it only prepares for what is measured next
	DrainMS     int64 `json:"drain_ms"`             // how long to wait for what is under way at the end
	Watch       watch `json:"watch"`
}

// watch is whose processor time and memory to take at the beginning and the end
// of the measured time.
type watch struct {
	Processor []int    `json:"processor,omitempty"` // process ids: of processors, or of the floor
	NATS      []int    `json:"nats,omitempty"`
	Redis     []int    `json:"redis,omitempty"`
	Metrics   []string `json:"metrics,omitempty"` // addresses of /metrics of the processors
}

// report is the load's answer to an order.
type report struct {
	Error string `json:"error,omitempty"`
	play
}

// play is what came of a playOrder.
type play struct {
	Seconds    float64   `json:"seconds"`    // measured
	Calls      int64     `json:"calls"`      // settled within the measured time
	Unfinished int64     `json:"unfinished"` // arrived within the measured time, and not settled when the load gave up
	Late       Latency   `json:"late"`       // how far the load itself was behind its schedule
	Latencies  Latencies `json:"latencies"`  // of calls that arrived within the measured time
	Cost       cost      `json:"cost"`
}

// rate is whole calls a second.
func (p play) rate() float64 { return float64(p.Calls) / p.Seconds }

package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

func plays(rates ...float64) []play {
	out := make([]play, len(rates))
	for i, rate := range rates {
		out[i] = play{Seconds: 2, Calls: int64(2 * rate), Cost: cost{Processor: rate / 1000, NATS: 1, Redis: 3, MemoryMiB: rate}}
		out[i].Latencies.Whole.P99 = rate
	}
	return out
}

func TestFiguresAreMediansOfTheRoundsAndRatiosOfMedians(t *testing.T) {
	m := &measurement{cfg: Config{Seconds: 2, Rounds: 3}}
	r := m.result(BaseSetup(), bothOf{subjectProcessor: plays(900, 3000, 1200), subjectFloor: plays(2000, 1600, 100)})
	if r.CallsPerSecond != 1200 || r.FloorCallsPerSecond != 1600 || r.FloorRatio != 0.75 {
		t.Errorf("got %v by %v is %v, want 1200 by 1600 is 0.75", r.CallsPerSecond, r.FloorCallsPerSecond, r.FloorRatio)
	}
	if r.CPU.Processor != 1.2 || r.ProcessorToServers != 0.3 || r.MemoryMiB != 1200 {
		t.Errorf("got CPU %v, %v of the servers', %v MiB", r.CPU, r.ProcessorToServers, r.MemoryMiB)
	}
	if got := medianLatencies(plays(7, 5, 6)).Whole.P99; got != 6 {
		t.Errorf("p99 is %v, want 6", got)
	}
}

func TestLatenciesAreMeasuredAtSharesOfTheThroughputAndAtFixedRates(t *testing.T) {
	m := &measurement{cfg: Config{Rates: []int{500}}}
	want := []arrival{{1000, 25}, {2000, 50}, {3000, 75}, {500, 0}}
	if got := m.arrivals(4000.9); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestJSONHasTheNamesThatOthersRead(t *testing.T) {
	r := Result{CallsPerSecond: 3000, FloorCallsPerSecond: 4000, FloorRatio: 0.75, Latencies: []RateResult{{CallsPerSecond: 500}}}
	line, err := json.Marshal(r)
	if err != nil || bytes.ContainsRune(line, '\n') {
		t.Fatalf("%s, %v", line, err)
	}
	var got map[string]any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"floor_ratio": 0.75, "calls_per_second": 3000, "floor_calls_per_second": 4000} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	for _, path := range []string{
		"processor_memory_mib", "allocated_bytes_per_call", "processor_to_servers_cpu",
		"cpu_seconds_per_1000_calls processor", "cpu_seconds_per_1000_calls nats_server", "cpu_seconds_per_1000_calls redis_server",
		"floor_cpu_seconds_per_1000_calls processor", "machine cpus",
		"latencies_ms processor intent_to_dispatch p50", "latencies_ms processor result_to_settled p99", "latencies_ms floor whole_call p99_9",
	} {
		var at any = got
		for _, name := range strings.Fields(path) {
			if list, ok := at.([]any); ok {
				at = list[0]
			}
			object, _ := at.(map[string]any)
			if at = object[name]; at == nil {
				t.Errorf("there is no %s", path)
				break
			}
		}
	}
}

func TestTablesTellTheRatio(t *testing.T) {
	var out bytes.Buffer
	r := Result{CallsPerSecond: 3000, FloorCallsPerSecond: 4000, FloorRatio: 0.75, Latencies: []RateResult{{CallsPerSecond: 750, Percent: 25}}}
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3000", "4000", "0.75", "750 (25 %)", "intent to dispatch", "result to settled"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
	out.Reset()
	if err := (Matrix{Cells: []CellResult{{Factor: "results", Value: "256 B", FloorRatio: 0.5}, {Factor: "processors", Error: "no"}}}).WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"results 256 B", "0.50", "not measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
}

func TestOneOfAThingIsToldAsOne(t *testing.T) {
	m := Machine{OS: "linux/amd64", CPUs: 1, Go: "go1", NATS: "2"}
	if got, want := m.circumstances(20, 1), "linux/amd64, 1 CPU, go1, nats-server 2; 20 s a phase, 1 round"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	m.CPUs = 2
	if got, want := m.circumstances(20, 3), "linux/amd64, 2 CPUs, go1, nats-server 2; 20 s a phase, 3 rounds, medians"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEachCellVariesOneThing(t *testing.T) {
	cells := Cells("")
	if len(cells) != 13 || cells[0].Setup != BaseSetup() {
		t.Fatalf("there are %d cells, the first is %+v", len(cells), cells[0])
	}
	for _, c := range cells {
		if err := c.Setup.Validate(); err != nil {
			t.Errorf("%s: %v", c.Name(), err)
		}
		base, changed := BaseSetup(), 0
		for _, differs := range []bool{
			c.Setup.SyncAlways != base.SyncAlways, c.Setup.Replicas != base.Replicas, c.Setup.NoAOF != base.NoAOF,
			c.Setup.Processors != base.Processors, c.Setup.ArgumentBytes != base.ArgumentBytes,
			c.Setup.ResultBytes != base.ResultBytes, c.Setup.OpenRuns != base.OpenRuns, c.CallsPerRun != 0,
		} {
			if differs {
				changed++
			}
		}
		if changed > 1 {
			t.Errorf("%s varies %d things", c.Name(), changed)
		}
	}
	if got := Cells("open runs"); len(got) != 3 {
		t.Errorf("%d cells are about open runs, want 3", len(got))
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	good := Config{Program: program, Dir: "x", Seconds: 1, Rounds: 1, Progress: io.Discard}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"Program": func(c *Config) { c.Program = "" }, "Dir": func(c *Config) { c.Dir = "" },
		"Seconds": func(c *Config) { c.Seconds = 0 }, "Rounds": func(c *Config) { c.Rounds = 0 },
		"rate is -1": func(c *Config) { c.Rates = []int{-1} }, "Progress": func(c *Config) { c.Progress = nil },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(*Setup){
		"Replicas": func(s *Setup) { s.Replicas = 2 }, "Processors": func(s *Setup) { s.Processors = 0 },
		"ArgumentBytes": func(s *Setup) { s.ArgumentBytes = 1 }, "ResultBytes": func(s *Setup) { s.ResultBytes = 1 << 20 },
		"OpenRuns": func(s *Setup) { s.OpenRuns = 0 },
	} {
		s := BaseSetup()
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestTheWindowIsOneCallARunWithinWhatMemoryTakes(t *testing.T) {
	for want, change := range map[int]func(*Setup){
		1000: func(*Setup) {}, 10: func(s *Setup) { s.OpenRuns = 10 }, 72: func(s *Setup) { s.ResultBytes = 900 << 10 },
	} {
		s := BaseSetup()
		change(&s)
		if got := s.window(); got != want {
			t.Errorf("%v: %d calls under way, want %d", s, got, want)
		}
	}
	s := BaseSetup()
	s.OpenRuns = 100_000
	if got := s.window(); got != 1000 {
		t.Errorf("%v: %d calls under way, want 1000", s, got)
	}
}

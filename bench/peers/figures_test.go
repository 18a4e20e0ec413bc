package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheLedgerSeesWhatWasExecutedOrSettledTwiceOrNever(t *testing.T) {
	l := &ledger{}
	for range 3 {
		l.intend()
	}
	for _, call := range []int{0, 1, 1} {
		if err := l.execute(call); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range []int{1, 1} {
		if err := l.settle(call); err != nil {
			t.Fatal(err)
		}
	}
	want := tally{Intended: 3, Executed: 2, ExecutedMore: 1, Settled: 1, SettledMore: 1}
	if got := l.tally(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := l.tally().check(); err == nil {
		t.Error("got no error, want one that tells of the calls")
	}
	if err := l.execute(3); err == nil {
		t.Error("executed a call that nobody intended without an error")
	}
}

func TestATallyHoldsOnlyWhereEachCallIsExecutedOnceAndSettledOnce(t *testing.T) {
	for name, c := range map[string]struct {
		tally tally
		holds bool
	}{
		"all once":       {tally{Intended: 2, Executed: 2, Settled: 2}, true},
		"none":           {tally{}, false},
		"one lost":       {tally{Intended: 2, Executed: 1, Settled: 1}, false},
		"one twice":      {tally{Intended: 2, Executed: 2, ExecutedMore: 1, Settled: 2}, false},
		"one unsettled":  {tally{Intended: 2, Executed: 2, Settled: 1}, false},
		"settled double": {tally{Intended: 2, Executed: 2, Settled: 2, SettledMore: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.tally.check(); (err == nil) != c.holds {
				t.Errorf("got %v, want it to hold: %v", err, c.holds)
			}
		})
	}
}

func TestOnlyCallsSettledWithinTheSpanCount(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	l := &ledger{calls: []entry{
		{intended: at(0), settled: at(0.9), ending: 1},
		{intended: at(0.5), settled: at(1), ending: 1},
		{intended: at(1), settled: at(1.2), ending: 1},
		{intended: at(1), settled: at(2), ending: 1},
		{intended: at(1)},
	}}
	want := []time.Duration{200 * time.Millisecond, 500 * time.Millisecond}
	if got := l.latencies(at(1), at(2)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPercentilesAreTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		of   []time.Duration
		p    int
		want time.Duration
	}{
		{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100},
		{[]time.Duration{7}, 50, 7}, {[]time.Duration{7, 9}, 50, 7}, {[]time.Duration{7, 9}, 99, 9}, {nil, 99, 0},
	} {
		if got := percentile(c.of, c.p); got != c.want {
			t.Errorf("p%d of %d values is %v, want %v", c.p, len(c.of), got, c.want)
		}
	}
}

func TestCPUTimeIsReadBehindANameWithParentheses(t *testing.T) {
	const stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0 20 0 8 0 100"
	if got := cpuOf(stat); got != 4 {
		t.Errorf("got %v s, want 4", got)
	}
	for _, bad := range []string{"", "42 (x", "42 (x) S 1 2", "42 (x) S 1 2 3 4 5 6 7 8 9 10 a b"} {
		if got := cpuOf(bad); got != 0 {
			t.Errorf("%q gave %v s, want 0", bad, got)
		}
	}
}

func TestArgumentsAndResultsHaveTheSizesOfRunledgersMeasure(t *testing.T) {
	i, err := decide(encodeIntent(1234))
	if err != nil {
		t.Fatal(err)
	}
	if i.Call != 1234 || i.Run != "run-0234" || len(i.Arguments) != 1024 || !json.Valid(i.Arguments) {
		t.Errorf("got call %d of %s with %d bytes, want call 1234 of run-0234 with 1024 bytes of JSON", i.Call, i.Run, len(i.Arguments))
	}
	if result := runTool(); len(result) != 4096 || !json.Valid(result) {
		t.Errorf("the result has %d bytes, want 4096 of JSON", len(result))
	}
}

func TestAnIntentThatBreaksARuleIsRefused(t *testing.T) {
	for name, data := range map[string]string{
		"no JSON":       `{"call":`,
		"unknown tool":  `{"call":1,"tool":"rm","arguments":{}}`,
		"no arguments":  `{"call":1,"tool":"lookup"}`,
		"not an object": `{"call":1,"tool":"lookup","arguments":[1]}`,
		"too large":     `{"call":1,"tool":"lookup","arguments":` + jsonOf(1025) + `}`,
	} {
		if _, err := decide([]byte(data)); err == nil {
			t.Errorf("%s: decided without an error", name)
		}
	}
}

func TestOnlyPicksPeersByNameOrTool(t *testing.T) {
	for only, want := range map[string][]string{
		"":                   {"watermill", "watermill-dispatch", "asynq", "asynq-read", "temporal-activities", "temporal-workflows", "temporal-standalone"},
		"watermill":          {"watermill", "watermill-dispatch"},
		"watermill-dispatch": {"watermill-dispatch"},
		"temporal,asynq":     {"asynq", "asynq-read", "temporal-activities", "temporal-workflows", "temporal-standalone"},
	} {
		peers, err := choose(only)
		if err != nil {
			t.Errorf("--only %q: %v", only, err)
		}
		var got []string
		for _, p := range peers {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("--only %q picked %v, want %v", only, got, want)
		}
	}
	if _, err := choose("asynq,kafka"); err == nil || !strings.Contains(err.Error(), "kafka") {
		t.Errorf("got %v, want an error that names kafka", err)
	}
}

func TestRatiosAreOfMediansInOneRun(t *testing.T) {
	s, err := specOf("asynq")
	if err != nil {
		t.Fatal(err)
	}
	plays := map[string][]figures{
		"runledger": {{CallsPerSecond: 5000}, {CallsPerSecond: 9000}, {CallsPerSecond: 6000}},
		"asynq":     {{CallsPerSecond: 4000, P50: 2, P99: 9}, {CallsPerSecond: 3000, P50: 4, P99: 7}, {CallsPerSecond: 1, P50: 3, P99: 8}},
	}
	results := resultsOf(Config{Peers: []spec{s}, Seconds: 20, Rounds: 3}, plays)
	if len(results) != 2 || results[0].Name != "runledger" || results[1].Name != "asynq" {
		t.Fatalf("got %+v, want runledger and asynq", results)
	}
	r := results[1]
	if r.CallsPerSecond != 3000 || r.RunledgerRatio != 2 || r.P50 != 3 || r.P99 != 8 {
		t.Errorf("got %v calls/s, ratio %v, p50 %v, p99 %v, want 3000, 2, 3, 8", r.CallsPerSecond, r.RunledgerRatio, r.P50, r.P99)
	}
}

func TestJSONIsOneObjectALineWithTheAgreedNames(t *testing.T) {
	s, err := specOf("asynq")
	if err != nil {
		t.Fatal(err)
	}
	results := resultsOf(Config{Peers: []spec{s, s}, Seconds: 1, Rounds: 1}, map[string][]figures{"asynq": {{CallsPerSecond: 10, P50: 1, P99: 2}}})
	var out bytes.Buffer
	if err := writeJSON(&out, results); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %d lines, want 2", len(lines))
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &object); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"name", "calls_per_second", "p50_ms", "p99_ms", "settings", "durability", "guarantees", "cpu_seconds_per_1000_calls"} {
		if _, ok := object[name]; !ok {
			t.Errorf("the object has no %q: %s", name, lines[0])
		}
	}
}

func TestTheProcessorsOwnMeasureIsTakenFromItsLastLine(t *testing.T) {
	program := filepath.Join(t.TempDir(), "processor")
	const script = `#!/bin/sh
[ "$*" = "bench --json --rounds 1 --rates  --seconds 3" ] || { echo "got: $*" >&2; exit 1; }
echo 'a table'
echo '{"calls_per_second":6100.5,"cpu_seconds_per_1000_calls":{"processor":0.25,"load":0.5,"nats_server":0.09,"redis_server":0.08}}'
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t)
	cfg.Processor, cfg.Seconds = program, 3
	got, err := measureProcessor(t.Context(), cfg)
	want := figures{CallsPerSecond: 6100.5, CPU: CPU{Peer: 0.75, NATS: 0.09, Redis: 0.08}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestTheConfigurationNamesTheFieldThatIsWrong(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"Peers":     func(c *Config) { c.Peers = nil },
		"Program":   func(c *Config) { c.Program = "" },
		"Dir":       func(c *Config) { c.Dir = "" },
		"Seconds":   func(c *Config) { c.Seconds = 0 },
		"Rounds":    func(c *Config) { c.Rounds = 101 },
		"Progress":  func(c *Config) { c.Progress = nil },
		"Processor": func(c *Config) { c.Processor = "/nowhere/processor" },
	} {
		cfg := testConfig(t, catalogue()...)
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("a wrong %s gave %v, want an error that names it", field, err)
		}
	}
}

func TestEveryToolAnswersForEveryGuarantee(t *testing.T) {
	for _, g := range guarantees() {
		for _, tool := range []string{"runledger", "watermill", "asynq", "temporal"} {
			answer, _, _ := strings.Cut(g.By[tool], ":")
			if answer != "yes" && answer != "partly" && answer != "no" {
				t.Errorf("%s, %s: got %q, want yes, partly or no first", tool, g.Key, g.By[tool])
			}
		}
	}
}

func TestTheTableOfGuaranteesInTheReadmeIsTheOneInTheProgram(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := writeGuarantees(&table); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(readme, table.Bytes()) {
		t.Errorf("README.md has another table; print it with: go run . --guarantees\n%s", table.String())
	}
}

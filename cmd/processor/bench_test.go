package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// benchProgram prepares a run of bench whose files go to a folder that is empty
// before.
func benchProgram(t *testing.T, args ...string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd = program(t, append([]string{"bench"}, args...)...)
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	return cmd, dir
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind in %s: %v, %v", dir, left, err)
	}
}

func TestBenchMeasuresProcessorAndFloorAndLeavesNothing(t *testing.T) {
	cmd, dir := benchProgram(t, "--seconds", "1", "--rounds", "1", "--rates", "100", "--json")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &errOut)
	}
	wantEmpty(t, dir)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var got struct {
		Calls  float64 `json:"calls_per_second"`
		Floor  float64 `json:"floor_calls_per_second"`
		Ratio  float64 `json:"floor_ratio"`
		Writes int     `json:"redis_writes_per_call"`
		Bytes  float64 `json:"allocated_bytes_per_call"`
		Memory float64 `json:"processor_memory_mib"`
		Rates  []struct {
			Calls     int `json:"calls_per_second"`
			Processor struct {
				Whole struct{ P50, P99 float64 } `json:"whole_call"`
			} `json:"processor"`
		} `json:"latencies_ms"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatalf("the last line is no object: %v\n%s", err, &out)
	}
	if got.Calls < 10 || got.Floor < 10 || got.Ratio <= 0 || got.Writes < 4 || got.Bytes < 1000 || got.Memory < 5 {
		t.Errorf("these cannot be: %+v", got)
	}
	if len(got.Rates) != 4 || got.Rates[3].Calls != 100 {
		t.Fatalf("rates: %+v, want three shares and 100", got.Rates)
	}
	if whole := got.Rates[3].Processor.Whole; whole.P50 <= 0 || whole.P99 < whole.P50 {
		t.Errorf("at 100 calls a second the whole call took %+v ms", whole)
	}
	if !strings.Contains(out.String(), "whole calls a second") {
		t.Errorf("there is no table:\n%s", &out)
	}
}

func TestBenchThatIsInterruptedLeavesNothing(t *testing.T) {
	cmd, dir := benchProgram(t, "--seconds", "50", "--rounds", "1", "--rates", "")
	read, write := io.Pipe()
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			told.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "recording") { // servers are being started
				_ = cmd.Process.Signal(syscall.SIGINT)
			}
		}
	}()
	err := cmd.Wait()
	_ = write.Close()
	<-done
	if code := cmd.ProcessState.ExitCode(); err == nil || code != exitFailed {
		t.Errorf("status %d, want %d; it says\n%s", code, exitFailed, told.String())
	}
	if !strings.HasSuffix(told.String(), "processor: interrupted\n") {
		t.Errorf("it says\n%s", told.String())
	}
	wantEmpty(t, dir)
}

func TestBenchRefusesWhatItCannotMeasure(t *testing.T) {
	try(t, "bench", "--seconds", "0").want(t, exitUsage, "--seconds: want 1 to 3600, got 0")
	try(t, "bench", "--seconds", "3601").want(t, exitUsage, "--seconds: want 1 to 3600, got 3601")
	try(t, "bench", "--rounds", "101").want(t, exitUsage, "--rounds: want 1 to 100, got 101")
	try(t, "bench", "--rates", "500,50001").want(t, exitUsage, "--rates: want 1 to 50000 calls a second, got 50001")
	try(t, "bench", "--cells", "open runs").want(t, exitUsage, "--cells", "add --matrix, or leave --cells out")
	try(t, "bench", "--matrix", "--rates", "500").want(t, exitUsage, "--rates", "leave out --rates or --matrix")
	try(t, "bench", "--rates", "1,x").want(t, exitUsage, "--rates", `"1,x"`)
	try(t, "bench", "--matrix", "--cells", "nonsense").want(t, exitUsage, `"nonsense"`)
	try(t, "bench", "nats-server", "--nonsense").want(t, exitFailed, "nats-server", "nonsense")
}

package testenv

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"runledger/internal/devserver"
)

// BuildProcessor builds the program into a folder and returns its path. Call it
// from TestMain: a test binary then runs what stands in the tree now. Where the
// tests have the race detector, the program has it, too.
func BuildProcessor(dir string) (string, error) {
	path := filepath.Join(dir, "processor")
	args := append(processorBuildArgs(), "-o", path, "runledger/cmd/processor")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the processor: %w\n%s", err, out)
	}
	return path, nil
}

// ProcessorConfig says how "processor serve" runs. All but Listen and Args must
// be given.
type ProcessorConfig struct {
	Program string // see BuildProcessor
	Name    string // of the process among those that serve
	NATS    string // addresses, separated by commas
	Redis   string // addresses, separated by commas
	Policy  string // path of the file
	Dir     string // folder of its log
	Listen  string // host:port of health and metrics; "" is none
	Args    []string
}

// Processor is a running "processor serve". Several goroutines may use it.
type Processor struct {
	*devserver.Process
	Name   string
	listen string
}

// StartProcessor starts one; it may be called from any goroutine of the running
// test. It is killed with the test, and its log is shown if the test failed.
func StartProcessor(t testing.TB, cfg ProcessorConfig) (*Processor, error) {
	args := append([]string{
		"serve", "--nats-url", cfg.NATS, "--redis-addresses", cfg.Redis, "--policy", cfg.Policy,
		"--process", cfg.Name, "--listen", cfg.Listen, "--log-level", "info",
	}, cfg.Args...)
	process, err := devserver.StartProcess(devserver.ProcessConfig{
		Path: cfg.Program, Args: args, Log: filepath.Join(cfg.Dir, cfg.Name+".log"),
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = process.Kill() // it may have ended
		if t.Failed() {
			t.Logf("%s:\n%s", cfg.Name, process.LogTail(4000))
		}
	})
	return &Processor{Process: process, Name: cfg.Name, listen: cfg.Listen}, nil
}

// Terminate asks it to stop in order (SIGTERM) and waits for at most grace. The
// error says that it did not, or that its exit status was not 0.
func (p *Processor) Terminate(grace time.Duration) error {
	if err := p.Stop(grace); err != nil {
		return err
	}
	if err := p.Err(); err != nil {
		return fmt.Errorf("%s after SIGTERM: %w, want exit status 0", p.Name, err)
	}
	return nil
}

// Metrics reads all that it measures: the sum over the series of each name.
func (p *Processor) Metrics(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.listen+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", p.Name, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of %s: got status %s, want 200", p.Name, response.Status)
	}
	sums := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, text, found := cutSample(lines.Text())
		if !found {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of %s: %q: %w", p.Name, lines.Text(), err)
		}
		sums[name] += value
	}
	return sums, lines.Err()
}

// cutSample takes a line of the Prometheus text format apart, without labels.
func cutSample(line string) (name, value string, found bool) {
	if strings.HasPrefix(line, "#") {
		return "", "", false
	}
	space := strings.LastIndexByte(line, ' ')
	if space < 0 {
		return "", "", false
	}
	name, _, _ = strings.Cut(line[:space], "{")
	return name, line[space+1:], true
}

// FreeAddress is a loopback address where nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := devserver.FreeAddress()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return address
}

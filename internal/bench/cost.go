package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// cost is what the processes used in the measured time.
type cost struct {
	// CPU seconds for every 1,000 calls that were settled.
	Processor float64 `json:"processor"`
	NATS      float64 `json:"nats_server"`
	Redis     float64 `json:"redis_server"`
	Load      float64 `json:"load"`
	// MemoryMiB is the resident memory of all processors at the end, in MiB.
	MemoryMiB float64 `json:"memory_mib"`
	// AllocatedBytes on the heap for each call by all processors; 0 where it is
	// not known.
	AllocatedBytes float64 `json:"allocated_bytes"`
	// OthersPercent is how much of the machine's CPU time went to anything
	// else, the kernel's own work and what the host took away included. A
	// measurement with much of it says little.
	OthersPercent float64 `json:"others_percent"`
}

// usage is what processes have used since they began.
type usage struct {
	processor, nats, redis, load float64 // CPU seconds
	resident                     int     // bytes, of the processors
	allocated                    float64 // bytes on the heap, of the processors
	busy, all                    float64 // CPU seconds of the machine: in use or taken away, and these and idle ones
}

// ours is the CPU seconds of all that is watched.
func (u usage) ours() float64 { return u.processor + u.nats + u.redis + u.load }

// look takes the usage of everything watched. /metrics is asked outside of the
// stretch that is measured: before it at the beginning, after it at the end.
func (w watch) look(ctx context.Context, begin bool) (u usage, err error) {
	if begin {
		if u.allocated, err = allocatedBytes(ctx, w.Metrics); err != nil {
			return u, err
		}
	}
	if u.processor, u.resident, err = used(w.Processor); err != nil {
		return u, err
	}
	if u.nats, _, err = used(w.NATS); err != nil {
		return u, err
	}
	if u.redis, _, err = used(w.Redis); err != nil {
		return u, err
	}
	if u.load, _, err = used([]int{os.Getpid()}); err != nil {
		return u, err
	}
	if u.busy, u.all, err = machineTime(); err != nil {
		return u, err
	}
	if !begin {
		u.allocated, err = allocatedBytes(ctx, w.Metrics)
	}
	return u, err
}

// used adds up CPU seconds and resident bytes of processes.
func used(pids []int) (cpu float64, resident int, err error) {
	for _, pid := range pids {
		process, err := procfs.NewProc(pid)
		if err != nil {
			return 0, 0, fmt.Errorf("look at process %d: %w", pid, err)
		}
		stat, err := process.Stat()
		if err != nil {
			return 0, 0, fmt.Errorf("look at process %d: %w", pid, err)
		}
		cpu += stat.CPUTime()
		resident += stat.ResidentMemory()
	}
	return cpu, resident, nil
}

// machineTime gives the CPU seconds of the machine since it was started.
func machineTime() (busy, all float64, err error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0, err
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("look at the machine: %w", err)
	}
	t := stat.CPUTotal // guests are counted within user and nice
	busy = t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal
	return busy, busy + t.Idle + t.Iowait, nil
}

// cost is the difference between two looks, by call.
func (u usage) cost(end usage, calls int64) cost {
	n := float64(max(calls, 1))
	each := func(begin, end float64) float64 { return 1000 * (end - begin) / n }
	return cost{
		Processor: each(u.processor, end.processor), NATS: each(u.nats, end.nats),
		Redis: each(u.redis, end.redis), Load: each(u.load, end.load),
		MemoryMiB: float64(end.resident) / (1 << 20), AllocatedBytes: (end.allocated - u.allocated) / n,
		OthersPercent: max(0, 100*ratio(end.busy-u.busy-(end.ours()-u.ours()), end.all-u.all)),
	}
}

const allocatedMetric = "go_memstats_alloc_bytes_total"

// allocatedBytes adds up what the processes at the addresses have allocated.
func allocatedBytes(ctx context.Context, addresses []string) (float64, error) {
	sum := 0.0
	for _, address := range addresses {
		text, err := fetch(ctx, "http://"+address+"/metrics")
		if err != nil {
			return 0, err
		}
		value, err := metric(text, allocatedMetric)
		if err != nil {
			return 0, fmt.Errorf("metrics of %s: %w", address, err)
		}
		sum += value
	}
	return sum, nil
}

func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s says %s: %.200s", url, response.Status, text)
	}
	return string(text), nil
}

var errNoMetric = errors.New("it is not there")

// metric finds the value of a metric without labels in the text format of
// Prometheus.
func metric(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%s: %w", name, errNoMetric)
}

package bench

import (
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestProcessorTimeOfAProcessIsCounted burns a known amount of this process's
// own time and finds it in /proc.
func TestProcessorTimeOfAProcessIsCounted(t *testing.T) {
	before, resident, err := used([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if resident < 1<<20 || resident > 1<<34 {
		t.Errorf("%d bytes resident, want some megabytes", resident)
	}
	for start := time.Now(); time.Since(start) < 30*time.Second; {
		after, _, err := used([]int{os.Getpid()})
		if err != nil {
			t.Fatal(err)
		}
		if after-before >= 0.3 {
			if wall := time.Since(start).Seconds(); after-before > 64*wall+0.1 {
				t.Errorf("%v CPU seconds within %v s", after-before, wall)
			}
			return
		}
	}
	t.Error("30 s of work are less than 0.3 CPU seconds")
}

func TestTimeOfSeveralProcessesAddsUp(t *testing.T) {
	one, _, err := used([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := used([]int{os.Getpid(), os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if two < 2*one {
		t.Errorf("one is %v s, twice that process is %v s", one, two)
	}
}

func TestAProcessThatIsGoneIsAnError(t *testing.T) {
	if _, _, err := used([]int{1 << 30}); err == nil || !strings.Contains(err.Error(), "1073741824") {
		t.Errorf("got %v, want an error with the process id", err)
	}
}

func TestCostIsWhatWasUsedInBetweenByCall(t *testing.T) {
	begin := usage{processor: 10, nats: 20, redis: 30, load: 40, resident: 1 << 20, allocated: 1e6, busy: 500, all: 1000}
	end := usage{processor: 11, nats: 22, redis: 33, load: 44, resident: 64 << 20, allocated: 5e6, busy: 515, all: 1040}
	// Of 40 s of the machine 15 were in use, and 10 of these by what is watched.
	want := cost{Processor: 0.5, NATS: 1, Redis: 1.5, Load: 2, MemoryMiB: 64, AllocatedBytes: 2000, OthersPercent: 12.5}
	if got := begin.cost(end, 2000); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := begin.cost(end, 0); math.IsInf(got.Processor, 0) || math.IsNaN(got.Processor) {
		t.Errorf("without calls: got %+v", got)
	}
}

func TestTheMachineHasBeenBusyForAPartOfItsTime(t *testing.T) {
	busy, all, err := machineTime()
	if err != nil || busy <= 0 || all <= busy {
		t.Errorf("busy for %v of %v s, %v", busy, all, err)
	}
}

func TestAllocatedBytesAreReadFromMetrics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("# HELP go_memstats_alloc_bytes_total x\n# TYPE go_memstats_alloc_bytes_total counter\n" +
			"go_memstats_alloc_bytes 77\ngo_memstats_alloc_bytes_total_x 9\ngo_memstats_alloc_bytes_total 1.5e+06\n"))
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	got, err := allocatedBytes(t.Context(), []string{address, address})
	if err != nil || got != 3e6 {
		t.Errorf("got %v, %v, want 3e6 of two", got, err)
	}
	if _, err := metric("other 1\n", allocatedMetric); err == nil || !strings.Contains(err.Error(), allocatedMetric) {
		t.Errorf("a metric that is not there: got %v", err)
	}
}

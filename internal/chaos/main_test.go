//go:build chaos

package chaos

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"runledger/internal/testenv"
)

// program is the processor, built for this run of the tests.
var program string

func TestMain(m *testing.M) { os.Exit(withProgram(m)) }

func withProgram(m *testing.M) int {
	if mode := os.Getenv(executorMode); mode != "" {
		return beExecutor(mode)
	}
	dir, err := os.MkdirTemp("", "runledger-chaos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if program, err = testenv.BuildProcessor(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	table.write(os.Stdout)
	if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, "left behind by the tests:", err)
		status = 1
	}
	return status
}

package devserver

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// orphanDir is set for the copy of this test program that plays a parent: it
// starts a child, says its process id and waits to be killed.
const orphanDir = "DEVSERVER_TEST_ORPHAN_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanDir); dir != "" {
		playParent(dir)
	}
	// The client's pool tries once a second whether a server that went is back,
	// and notices only then that it has been closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

func playParent(dir string) {
	p, err := StartProcess(ProcessConfig{Path: "sleep", Args: []string{"600"}, Log: dir + "/child.log"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	<-p.Done()
	os.Exit(2)
}

package devserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// childAttributes makes the kernel kill the child when its parent ends,
// even if the parent had no chance to say so.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// waitPaused returns when every thread of a process that was sent SIGSTOP
// stands still. Until then it may go on answering for a moment.
func waitPaused(pid int) error {
	const limit = 5 * time.Second
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); <-poll.C {
		if allStopped(pid) {
			return nil
		}
	}
	return fmt.Errorf("process %d has not come to a halt within %v of SIGSTOP", pid, limit)
}

// allStopped reads the state of each thread: the first field after the name
// in parentheses. A process that has ended stands still, too.
func allStopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has ended
		}
		line := string(stat)
		state := line[strings.LastIndex(line, ")")+1:]
		if !strings.HasPrefix(state, " T") && !strings.HasPrefix(state, " Z") {
			return false
		}
	}
	return true
}

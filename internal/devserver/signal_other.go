//go:build !unix

package devserver

import "syscall"

// Systems without these signals: a process cannot be paused (sending the
// signal returns an error), and stopping it means killing it.
const (
	pauseSignal     = syscall.Signal(0x13)
	resumeSignal    = syscall.Signal(0x12)
	terminateSignal = syscall.SIGTERM
)

func childAttributes() *syscall.SysProcAttr { return nil }

func waitPaused(int) error { return nil }

//go:build unix

package devserver

import (
	"syscall"
)

const (
	pauseSignal     = syscall.SIGSTOP
	resumeSignal    = syscall.SIGCONT
	terminateSignal = syscall.SIGTERM
)

//go:build unix && !linux

package devserver

import "syscall"

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// waitPaused does nothing where there is no /proc to look at: the process may
// go on for a moment.
func waitPaused(int) error { return nil }

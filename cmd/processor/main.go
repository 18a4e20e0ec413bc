// Command processor governs the tool calls of AI agents: it decides each call
// that an agent intends by the rules of its run, and publishes every decision
// as a fact.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Set by the linker; see the Makefile.
var (
	version = "dev"
	commit  = "unknown"
)

// Exit statuses.
const (
	exitFailed = 1 // the command ran and found something wrong
	exitUsage  = 2 // the command could not run as it was given
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "processor:", err)
		os.Exit(status(err))
	}
}

// errFailed is a finding: the command worked, and what it looked at is wrong.
var errFailed = errors.New("failed")

func status(err error) int {
	if errors.Is(err, errFailed) {
		return exitFailed
	}
	return exitUsage
}

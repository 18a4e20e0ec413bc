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

func main() { os.Exit(run()) }

func run() (status int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "processor:", err)
	if errors.Is(err, errFailed) {
		return exitFailed
	}
	return exitUsage
}

// errFailed is a finding: the command worked, and what it looked at is wrong.
var errFailed = errors.New("failed")

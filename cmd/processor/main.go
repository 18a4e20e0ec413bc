// Command processor governs the tool calls of AI agents: it decides each call
// that an agent intends by the rules of its run, and publishes every decision
// as a fact.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Set by the linker; see the Makefile.
var (
	version = "dev"
	commit  = "unknown"
)

func main() { os.Exit(run()) }

func run() (status int) {
	// Whoever reads our output may stop reading (processor demo | head). Where
	// nobody takes the signal it ends the process, with servers running and
	// files in place; where somebody does, the write fails and nothing else.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	return execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/nats-io/nats-server/v2/server"
)

// serveNATS is a nats-server with the command line of the real one, in this
// process, until the context ends. Nothing has to be built or installed for it.
func serveNATS(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("nats-server", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says what is wrong
	nothing := func() {}
	options, err := server.ConfigureOptions(flags, args, nothing, nothing, nothing)
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	options.NoSigs = true // signals belong to the program around it
	s, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	s.ConfigureLogger()
	stop := context.AfterFunc(ctx, s.Shutdown)
	defer stop()
	s.Start()
	s.WaitForShutdown()
	return nil
}

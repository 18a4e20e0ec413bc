package devserver

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/nats-io/nats-server/v2/server"
)

// ServeNATS is a nats-server with the command line of the real one, in this
// process, until the context ends: a program that runs itself again can be the
// Program of a [NATSProcessConfig], and nothing has to be built or installed.
func ServeNATS(ctx context.Context, args []string) error {
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

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"runledger/internal/policy"
	"runledger/internal/processor"
	"runledger/internal/store"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve",
		GroupID: "run",
		Short:   "Decide, dispatch and settle tool calls until stopped",
		Long: `serve carries the events of its share of the partitions. Start as many as you
like: they share the partitions, and when one stops or dies the others carry on.

Settings come from a file, the environment and flags; flags win. The setting
nats.url of the file is RUNLEDGER_NATS_URL in the environment and --nats-url on
the command line. The streams must exist: see "processor streams apply". The
Redis password comes from a file or from RUNLEDGER_REDIS_PASSWORD.

SIGTERM stops it in order; what it had not finished, another one does.`,
		Example: `  processor serve --policy policy.yaml
  processor serve --config /etc/runledger.yaml --log-level debug
  RUNLEDGER_NATS_URL=nats://nats:4222 processor serve --policy policy.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, newLogger(c, cmd.ErrOrStderr()))
		},
	}
	addSettings(cmd.Flags(), serveSettings())
	return cmd
}

// gcPercent is how much may be allocated between two collections, in percent of
// what lives; GOGC in the environment wins. A processor holds little (some 20 MiB)
// and allocates some 60 KB a call, so the default of 100 collects without end.
const gcPercent = 400

func serve(ctx context.Context, c config, log zerolog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	rules, err := readPolicy(c.Policy)
	if err != nil {
		return err
	}
	if _, err := policy.Parse(c.Policy, rules); err != nil {
		return usage(err)
	}
	js, err := connect(c, log)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	records, err := openStore(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { _ = records.Close() }()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p, err := processor.New(ctx, processor.Settings{
		Name: c.Process, JetStream: js, Store: records, Policy: rules, PolicyName: c.Policy,
		Prefix: c.Subjects.Prefix, Partitions: c.Subjects.Partitions, LeaseTTL: c.LeaseTTL,
		Registerer: registry, Log: log,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if c.Listen != "" {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
		if err != nil {
			return fmt.Errorf("listen: %w; choose another address with --listen", err)
		}
		ready := func(ctx context.Context) error { return checkReady(ctx, js.Conn(), records, p) }
		group.Go(func() error { return serveHTTP(ctx, listener, newMonitor(registry, ready)) })
		log.Info().Str("address", listener.Addr().String()).Msg("health and metrics")
	}
	version, commit := buildVersion()
	log.Info().Str("version", version).Str("commit", commit).Str("policy", c.Policy).Msg("serving")
	group.Go(func() error { return p.Run(ctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	log.Info().Msg("stopped")
	return nil
}

// checkReady reports what keeps this process from deciding events.
func checkReady(ctx context.Context, nc *nats.Conn, records *store.Store, p *processor.Processor) error {
	var errs []error
	if !nc.IsConnected() {
		errs = append(errs, errors.New("NATS: not connected"))
	}
	if err := records.Ping(ctx); err != nil {
		errs = append(errs, errors.New("Redis: no answer"))
	}
	if nc.IsConnected() && p.Deaf() {
		errs = append(errs, errors.New("NATS: stores nothing, or does not answer; look at its log and its disk"))
	}
	if held := p.Held(); held > 0 {
		errs = append(errs, fmt.Errorf("%d partitions are held: the log says what they wait for", held))
	}
	return errors.Join(errs...)
}

// serveHTTP serves until the context ends.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() {
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = server.Shutdown(shutdown)
	})
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

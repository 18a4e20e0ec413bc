package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"runledger/internal/processor"
	"runledger/internal/store"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
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
the command line. The streams must exist: see "processor streams apply".

SIGTERM stops it in order; what it had not finished, another one does.`,
		Example: `  processor serve --policy policy.yaml
  processor serve --config /etc/runledger.yaml --log-level debug
  RUNLEDGER_NATS_URL=nats://nats:4222 processor serve --policy policy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, newLogger(c, cmd.ErrOrStderr()))
		},
	}
	addSettings(cmd.Flags(), serverSettings(), serveSettings())
	return cmd
}

func newLogger(c config, w io.Writer) zerolog.Logger {
	level, _ := zerolog.ParseLevel(c.Log.Level) // validated
	if c.Log.Format == "text" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Str("process", c.Process).Logger()
}

func serve(ctx context.Context, c config, log zerolog.Logger) error {
	rules, err := readPolicy(c.Policy)
	if err != nil {
		return err
	}
	js, err := connect(c, log)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	redis.SetLogger(redisLog{log})
	records, err := openStore(ctx, c)
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
	version, commit := buildVersion()
	log.Info().Str("version", version).Str("commit", commit).Str("policy", c.Policy).Msg("serving")
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.Run(ctx) })
	if c.Listen != "" {
		ready := func(ctx context.Context) error { return checkReady(ctx, js.Conn(), records) }
		group.Go(func() error { return serveHTTP(ctx, c.Listen, newMonitor(registry, ready), log) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	log.Info().Msg("stopped")
	return nil
}

func readPolicy(name string) ([]byte, error) {
	if name == "" {
		return nil, errors.New(`policy: want a policy file, got none; set it with --policy FILE (see "processor dev" for one to start from)`)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return content, nil
}

// connect reaches NATS. It keeps nothing to be sent after a reconnect, and
// reconnects for ever.
func connect(c config, log zerolog.Logger) (jetstream.JetStream, error) {
	options := append(stream.ConnectionOptions("runledger "+c.Process),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() && err != nil {
				log.Warn().Err(err).Msg("NATS connection lost")
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info().Str("server", nc.ConnectedUrlRedacted()).Msg("NATS connection is back")
		}),
	)
	if c.NATS.Credentials != "" {
		options = append(options, nats.UserCredentials(c.NATS.Credentials))
	}
	nc, err := nats.Connect(c.NATS.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at nats.url: %w", err)
	}
	return jetstream.New(nc)
}

func openStore(ctx context.Context, c config) (*store.Store, error) {
	records, err := store.Open(store.Config{
		Addrs: c.Redis.Addresses, Username: c.Redis.Username, Password: c.Redis.Password,
		KeyPrefix: c.Redis.KeyPrefix, AllowColon: true, // the policy decides; the key stays unambiguous
	})
	if err != nil {
		return nil, err
	}
	if err := records.Check(ctx); err != nil {
		_ = records.Close()
		return nil, err
	}
	return records, nil
}

// redisLog takes what the Redis client says of its pool into our log; what fails
// because of it is told by whoever needed the answer.
type redisLog struct{ log zerolog.Logger }

// Printf implements the client's logging.
func (l redisLog) Printf(_ context.Context, format string, args ...any) {
	l.log.Debug().Msgf("redis client: "+format, args...)
}

// checkReady reports what keeps this process from deciding events.
func checkReady(ctx context.Context, nc *nats.Conn, records *store.Store) error {
	var errs []error
	if !nc.IsConnected() {
		errs = append(errs, errors.New("NATS: not connected"))
	}
	if err := records.Ping(ctx); err != nil {
		errs = append(errs, errors.New("Redis: no answer"))
	}
	return errors.Join(errs...)
}

// serveHTTP serves until the context ends.
func serveHTTP(ctx context.Context, address string, handler http.Handler, log zerolog.Logger) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() {
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = server.Shutdown(shutdown)
	})
	defer stopped()
	log.Info().Str("address", address).Msg("health and metrics")
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"strconv"

	"runledger/internal/events"
	"runledger/internal/policy"
	"runledger/internal/processor"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

type devOptions struct {
	policy, logLevel string
	ports            localPorts
}

func newDev() *cobra.Command {
	o := devOptions{ports: localPorts{nats: 4222, redis: 6379}}
	cmd := &cobra.Command{
		Use:     "dev",
		GroupID: "try",
		Short:   "Run servers and a processor on this machine, for an agent of your own",
		Long: `dev runs an embedded nats-server, Redis and a processor until interrupted. Data
are kept in a temporary folder and removed at the end. Nobody has to
authenticate; it listens on loopback only.

It prints how to connect and first events to paste, and tells of each event that
could not be decided.`,
		Example: `  processor dev
  processor policy example > policy.yaml; processor dev --policy policy.yaml
  processor dev --nats-port 14222 --redis-port 16379 --log-level debug`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDev(cmd, o) },
	}
	cmd.Flags().StringVar(&o.policy, "policy", "", "policy file, YAML (default the airline policy of the demonstration)")
	cmd.Flags().Var((*port)(&o.ports.nats), "nats-port", "port of the nats-server, 0 for any free one")
	cmd.Flags().Var((*port)(&o.ports.redis), "redis-port", "port of Redis, 0 for any free one")
	cmd.Flags().StringVar(&o.logLevel, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

func runDev(cmd *cobra.Command, o devOptions) error {
	if s, _ := settingOf("log.level"); !s.takes(o.logLevel) {
		return usageOf(cmd, fmt.Errorf("--log-level: want %s, got %.100q", s.want, o.logLevel))
	}
	rules, name, err := policyOrAirline(o.policy)
	if err != nil {
		return err
	}
	parsed, err := policy.Parse(name, rules)
	if err != nil {
		return usage(err)
	}
	c := defaultConfig()
	c.Log.Format, c.Log.Level = "text", o.logLevel
	log := newLogger(c, cmd.ErrOrStderr())
	l, err := startLocal(cmd.Context(), rules, name, o.ports, log)
	if err != nil {
		return err
	}
	if err := tellDeadLetters(l.js.Conn(), log); err != nil {
		return errors.Join(err, l.stop())
	}
	fmt.Fprint(cmd.OutOrStdout(), banner{
		nats: l.nats.URL(), natsKind: l.nats.Kind(), redis: l.redis.Addr(), redisKind: l.redis.Kind(),
		policy: name, first: firstEvents(parsed, o.policy == ""),
	})
	l.wait(cmd.Context())
	fmt.Fprintln(cmd.ErrOrStderr(), "\nstopping")
	return l.stop()
}

// policyOrAirline reads the policy file, or gives the one of the demonstration.
func policyOrAirline(file string) (rules []byte, name string, err error) {
	if file == "" {
		return policy.Airline(), policy.AirlineName + " (built in)", nil
	}
	rules, err = readPolicy(file)
	return rules, file, err
}

// tellDeadLetters logs each event that could not be decided, as it comes. The
// payload is not shown.
func tellDeadLetters(nc *nats.Conn, log zerolog.Logger) error {
	_, err := nc.Subscribe(events.DefaultPrefix+".invalid.>", func(m *nats.Msg) {
		log.Warn().Str("reason", m.Header.Get(processor.HeaderReason)).Str("detail", m.Header.Get(processor.HeaderDetail)).
			Str("subject", m.Header.Get(processor.HeaderSubject)).Msg("an event could not be decided")
	})
	return err
}

// port is a flag for a TCP port.
type port int

// String implements pflag.Value.
func (p *port) String() string { return strconv.Itoa(int(*p)) }

// Set implements pflag.Value.
func (p *port) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("want a port from 1 to 65535, or 0 for any free one")
	}
	*p = port(n)
	return nil
}

// Type implements pflag.Value.
func (p *port) Type() string { return "port" }

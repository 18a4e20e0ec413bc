package main

import (
	"fmt"
	"time"

	"runledger/internal/events"
	"runledger/internal/policy"

	"github.com/spf13/cobra"
)

func newDev() *cobra.Command {
	var file string
	var ports localPorts
	cmd := &cobra.Command{
		Use:     "dev",
		GroupID: "try",
		Short:   "Run servers and a processor on this machine, for an agent of your own",
		Long: `dev runs an embedded nats-server, Redis and a processor until interrupted. Data
are kept in a temporary folder and removed at the end. Nobody has to
authenticate; it listens on loopback only.`,
		Example: `  processor dev
  processor dev --policy policy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rules, name, err := policyOrAirline(file)
			if err != nil {
				return err
			}
			c := defaultConfig()
			c.Log.Format = "text"
			l, err := startLocal(cmd.Context(), rules, name, ports, newLogger(c, cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			printDev(cmd, l, name)
			<-cmd.Context().Done()
			cmd.Println("\nstopping")
			return l.stop()
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "policy file, YAML (default the airline policy of the demonstration)")
	cmd.Flags().IntVar(&ports.nats, "nats-port", 4222, "port of the nats-server")
	cmd.Flags().IntVar(&ports.redis, "redis-port", 6379, "port of Redis")
	return cmd
}

// policyOrAirline reads the policy file, or gives the one of the demonstration.
func policyOrAirline(file string) (rules []byte, name string, err error) {
	if file == "" {
		return policy.Airline(), "airline.yaml (built in)", nil
	}
	rules, err = readPolicy(file)
	return rules, file, err
}

// printDev says how to connect, with a first event that can be pasted as it is.
func printDev(cmd *cobra.Command, l *local, policyName string) {
	deadline := time.Now().Add(30 * time.Minute).UTC().Truncate(time.Second).Format(time.RFC3339)
	subjects, _ := events.NewSubjects(events.DefaultPrefix) // a constant of ours
	cmd.Printf(`runledger is running; Ctrl-C ends it and removes its data.

  nats    %s   (%s)
  redis   %s   (%s)
  policy  %s

Follow the runs of the agent "me":

  nats sub -s %s '%s'

Start a run, then call a tool (docs/protocol.md goes on from here):

  nats pub -s %s %s '{"specversion":"1.0","id":"e1","source":"/me","type":"%s","data":{"run_id":"run-1","session_id":"s1","deadline":"%s","limits":{"model_calls":10,"tool_calls":10,"calls_per_tool":10,"input_tokens":1000,"output_tokens":1000,"total_tokens":2000,"run_bytes":1000000}}}'

  nats pub -s %s %s '{"specversion":"1.0","id":"e2","source":"/me","type":"%s","data":{"run_id":"run-1","tool_call_id":"call_1","tool":"calculate","arguments":{"expression":"1 + 1"}}}'
`,
		l.nats.URL(), l.nats.Kind(), l.redis.Addr(), l.redis.Kind(), policyName,
		l.nats.URL(), subjects.Republished("me"),
		l.nats.URL(), subjects.Agent("me", "run-1", events.VerbRunStart), events.VerbRunStart.Type(), deadline,
		l.nats.URL(), subjects.Agent("me", "run-1", events.VerbToolCall), events.VerbToolCall.Type())
	if l.redis.Kind() == "miniredis" {
		fmt.Fprintln(cmd.OutOrStdout(), "\nRedis is emulated: this machine has no redis-server. That is for trying only.")
	}
}

package main

import (
	"context"
	"fmt"
	"time"

	"runledger/internal/policy"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

const streamsTimeout = 30 * time.Second

func newStreams() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "streams",
		GroupID: "run",
		Short:   "Make and check the streams, buckets and consumers",
	}
	cmd.AddCommand(newStreamsApply(), newStreamsCheck())
	return cmd
}

func newStreamsApply() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make what is missing and change what may be changed",
		Long: `apply makes the streams, buckets and the consumers of the policy's executors as
deploy/nats describes them. It refuses what would lose data, and a change of the
number of partitions, which is fixed when the stream is made; then it has changed
nothing.`,
		Example: "  processor streams apply --policy policy.yaml --subjects-replicas 3",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTopology(cmd, func(ctx context.Context, t stream.Topology, js jetstream.JetStream) error {
				changes, err := t.Apply(ctx, js)
				for _, change := range changes {
					fmt.Fprintln(cmd.OutOrStdout(), change)
				}
				if err == nil && len(changes) == 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "nothing to change")
				}
				return err
			})
		},
	}
	addSettings(cmd.Flags(), streamSettings())
	return cmd
}

func newStreamsCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Name each difference from what they should be; exit 1 if there is one",
		Example: "  processor streams check --policy policy.yaml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTopology(cmd, func(ctx context.Context, t stream.Topology, js jetstream.JetStream) error {
				return checkStreams(ctx, t, js, cmd)
			})
		},
	}
	addSettings(cmd.Flags(), streamSettings())
	return cmd
}

// checkStreams lists the differences, and says what mends them.
func checkStreams(ctx context.Context, t stream.Topology, js jetstream.JetStream, cmd *cobra.Command) error {
	differences, err := t.Check(ctx, js)
	if err != nil {
		return err
	}
	out, fixed := cmd.OutOrStdout(), 0
	for _, d := range differences {
		if d.Refused != "" {
			fixed++
			fmt.Fprintf(out, "%s; %s\n", d, d.Refused)
			continue
		}
		fmt.Fprintln(out, d)
	}
	switch {
	case fixed > 0:
		return fmt.Errorf("differences: %d; \"processor streams apply\" cannot mend %d of them, and changes nothing while they stand", len(differences), fixed)
	case len(differences) > 0:
		return fmt.Errorf("differences: %d; \"processor streams apply\" mends them", len(differences))
	case !t.HasConsumers():
		fmt.Fprintln(out, "all as it should be; without a policy the executors' consumers are not looked at")
	default:
		fmt.Fprintln(out, "all as it should be")
	}
	return nil
}

// withTopology connects and loads what the streams should be. Without a policy
// there are no executors and so no consumers for them.
func withTopology(cmd *cobra.Command, fn func(context.Context, stream.Topology, jetstream.JetStream) error) error {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	options := stream.DefaultOptions()
	options.Prefix, options.Partitions, options.Replicas = c.Subjects.Prefix, c.Subjects.Partitions, c.Subjects.Replicas
	if c.Policy != "" {
		content, err := readPolicy(c.Policy)
		if err != nil {
			return err
		}
		parsed, err := policy.Parse(c.Policy, content)
		if err != nil {
			return usage(err)
		}
		options.Executors = policy.Executors(parsed)
	}
	topology, err := stream.LoadTopology(options)
	if err != nil {
		return err
	}
	js, err := connect(c, zerolog.Nop())
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), streamsTimeout)
	defer cancel()
	return fn(ctx, topology, js)
}

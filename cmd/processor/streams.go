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
number of partitions, which is fixed when the stream is made.`,
		Example: "  processor streams apply --policy policy.yaml --subjects-replicas 3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTopology(cmd, func(ctx context.Context, t stream.Topology, js jetstream.JetStream) error {
				changes, err := t.Apply(ctx, js)
				for _, change := range changes {
					cmd.Println(change)
				}
				if err == nil && len(changes) == 0 {
					cmd.Println("nothing to change")
				}
				return err
			})
		},
	}
	addSettings(cmd.Flags(), serverSettings(), streamSettings())
	return cmd
}

func newStreamsCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Name each difference from what they should be; exit 1 if there is one",
		Example: "  processor streams check --policy policy.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withTopology(cmd, func(ctx context.Context, t stream.Topology, js jetstream.JetStream) error {
				differences, err := t.Check(ctx, js)
				if err != nil {
					return err
				}
				for _, difference := range differences {
					cmd.Println(difference)
				}
				if len(differences) > 0 {
					return fmt.Errorf("%w: %d differences; \"processor streams apply\" mends what may be changed", errFailed, len(differences))
				}
				cmd.Println("all as it should be")
				return nil
			})
		},
	}
	addSettings(cmd.Flags(), serverSettings(), streamSettings())
	return cmd
}

// withTopology connects and loads what the streams should be. Without a policy
// there are no executors and so no consumers for them.
func withTopology(cmd *cobra.Command, fn func(context.Context, stream.Topology, jetstream.JetStream) error) error {
	c, err := loadConfig(cmd.Flags())
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
			return err
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

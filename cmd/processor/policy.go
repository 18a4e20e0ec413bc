package main

import (
	"fmt"
	"strings"

	"runledger/internal/harness"
	"runledger/internal/policy"

	"github.com/spf13/cobra"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "policy",
		GroupID: "run",
		Short:   "Print a policy to begin with, check one",
	}
	cmd.AddCommand(newPolicyExample(), newPolicyCheck())
	return cmd
}

func newPolicyExample() *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Print the policy of the demonstration, with every setting, to begin with",
		Example: `  processor policy example > policy.yaml
  processor policy check policy.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), string(policy.Airline())+policyDefaults)
			return err
		},
	}
}

// policyDefaults follows the policy of the demonstration, which leaves these at
// their defaults. docs/policy.md describes them.
const policyDefaults = `
# What else can be said, with the defaults:

# bytes:                 # of one call
#   request: 256KiB      # the complete request
#   raw_response: 768KiB # what the tool gave
#   record: 1MiB         # both together
#   agent_result: 32KiB  # what the agent sees of it
# longest_run: 1h        # from a run's start to its deadline
# ttl: 24h               # how long its records are kept after the deadline
# allow_colon_in_tool_call_ids: false
# observed: 100          # calls that run.progress lists
# progress:              # how long a run may go on without it
#   max_repairs: 3       # wrong progress reports; one more releases the run
#   max_repeats: 10      # times that one call may come to the same result
#   grace: 30s           # for a released run to finish
`

func newPolicyCheck() *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "Name every fault of a policy file, with its line; exit 1 if there is one",
		Example: `  processor policy check policy.yaml`,
		Args:    oneArg("policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := readPolicy(args[0])
			if err != nil {
				return err
			}
			parsed, err := policy.Parse(args[0], content)
			if err != nil {
				return fmt.Errorf("this policy is refused:\n%w", err)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), describePolicy(args[0], parsed))
			return err
		},
	}
}

func describePolicy(name string, p *harness.Policy) string {
	readOnly := 0
	for _, tool := range p.Tools {
		if tool.ReadOnly {
			readOnly++
		}
	}
	return fmt.Sprintf("%s: good\n  tools      %d, of which %d are read-only and may be called\n  executors  %s\n  grants     %d\n  digest     %s\n",
		name, len(p.Tools), readOnly, strings.Join(policy.Executors(p), ", "), len(p.Grants), p.Digest)
}

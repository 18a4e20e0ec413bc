package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "processor",
		Short: "Govern the tool calls of AI agents over NATS JetStream and Redis",
		Long: `processor decides each tool call that an agent intends by the rules of its
run, reserves budget, hands the call to an executor at most once, and publishes
every decision as a fact.

New here? Run "processor demo".

Exit status: 0 all well; 1 it failed, or found something wrong; 2 it could not
run as it was given (flags, settings, files).`,
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(usageOf)
	root.AddGroup(
		&cobra.Group{ID: "try", Title: "Try it:"},
		&cobra.Group{ID: "run", Title: "Run it:"},
	)
	root.AddCommand(newDemo(), newDev(), newBench(), newServe(), newStreams(), newPolicy(), newReplay(), newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version and commit",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

func versionText() string {
	v, c := buildVersion()
	return fmt.Sprintf("runledger processor %s\ncommit %s\n%s %s/%s\n", v, c, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion prefers what the linker was told, and falls back to what the Go
// toolchain recorded.
func buildVersion() (v, c string) {
	v, c = version, commit
	info, ok := debug.ReadBuildInfo()
	if !ok || c != "unknown" {
		return v, c
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			c = s.Value
		}
	}
	return v, c
}

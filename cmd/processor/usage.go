package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses, as the help of the program tells them. A supervisor need not
// try again after exitUsage.
const (
	exitFailed = 1 // the command ran, and failed or found something wrong
	exitUsage  = 2 // the command could not run as it was given
)

// usageError is a command that could not run as it was given: its flags, its
// settings, or a file that they name.
type usageError struct {
	err error
	see string // command line that tells more; empty where the error says it all
}

// Error implements error.
func (e *usageError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *usageError) Unwrap() error { return e.err }

// usage makes an error one of usage.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err: err}
}

// usageOf makes an error one of usage, with a hint at the command's help.
func usageOf(cmd *cobra.Command, err error) error {
	return &usageError{err: err, see: cmd.CommandPath() + " --help"}
}

// execute runs a command line and gives the exit status. What it was asked for
// goes to out, everything else to errOut.
func execute(ctx context.Context, args []string, out, errOut io.Writer) (status int) {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := checkCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	switch wrong := (*usageError)(nil); {
	case err == nil, errors.Is(err, syscall.EPIPE): // nobody reads any more: nothing is wrong
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintln(errOut, "processor:", err)
		if wrong.see != "" {
			fmt.Fprintf(errOut, "see %q\n", wrong.see)
		}
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(errOut, "processor: interrupted")
		return exitFailed
	}
	fmt.Fprintln(errOut, "processor:", err)
	return exitFailed
}

// checkCommand refuses a word where a command is expected, before its flags are
// looked at: those are another command's.
func checkCommand(root *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == "help" {
		args = args[1:]
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, _ := root.Find(args) // the error says only that it stopped at the root
	if !cmd.HasAvailableSubCommands() {
		return nil
	}
	i := slices.IndexFunc(rest, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if i < 0 || strings.HasPrefix(rest[i], "__") { // what shells ask for completions
		return nil
	}
	text := fmt.Sprintf("unknown command %q", rest[i])
	if near := nearest(cmd, rest[i]); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return usageOf(cmd, errors.New(text))
}

// nearest gives the command that was probably meant: one that begins so, else
// one that is spelt nearly so.
func nearest(cmd *cobra.Command, typed string) string {
	cmd.SuggestionsMinimumDistance = 2
	suggestions := cmd.SuggestionsFor(typed)
	for _, s := range suggestions {
		if strings.HasPrefix(s, typed) {
			return s
		}
	}
	if len(suggestions) == 0 {
		return ""
	}
	return suggestions[0]
}

// noArgs is for commands that take flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageOf(cmd, fmt.Errorf("%s takes no arguments, got %q", cmd.Name(), args[0]))
}

// oneArg is for commands that take one argument, called what.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return usageOf(cmd, fmt.Errorf("%s takes one %s, got %d", cmd.Name(), what, len(args)))
	}
}

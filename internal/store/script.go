package store

import (
	"context"
	"crypto/sha1" // it is how Redis names scripts
	_ "embed"     // of the script
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/project.lua
var projectScript string

//nolint:gochecknoglobals // computed once from what is embedded
var projectSHA = func() string {
	sum := sha1.Sum([]byte(projectScript))
	return hex.EncodeToString(sum[:])
}()

// scriptCall is one call of the script: its keys and arguments, preceded by
// room for the command and what it runs, and in the end its answer.
type scriptCall struct {
	args []any
	cmd  *redis.Cmd
}

// newScriptCall starts a call with the number of keys that will follow.
func newScriptCall(keys, room int) *scriptCall {
	args := make([]any, 3, 3+keys+room)
	args[2] = keys
	return &scriptCall{args: args}
}

func (c *scriptCall) add(values ...any) { c.args = append(c.args, values...) }

func (c *scriptCall) command(ctx context.Context, name, script string) redis.Cmder {
	c.args[0], c.args[1] = name, script
	c.cmd = redis.NewCmd(ctx, c.args...)
	return c.cmd
}

func (c *scriptCall) unknownScript() bool {
	err := c.cmd.Err()
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}

func (c *scriptCall) reply() (string, error) {
	reply, err := c.cmd.Text()
	return reply, classify(err)
}

// evaluate carries the calls in one pipeline. A server that has just started,
// or taken over, does not know the script, and a pipeline cannot fall back: the
// calls that it did not know the script for, and so have not run, are sent once
// more with its text, in their order.
func (s *Store) evaluate(ctx context.Context, calls []*scriptCall) {
	cmds := make([]redis.Cmder, 0, len(calls))
	for _, c := range calls {
		cmds = append(cmds, c.command(ctx, "EVALSHA", projectSHA))
	}
	s.send(ctx, cmds...)

	cmds = cmds[:0]
	for _, c := range calls {
		if c.unknownScript() {
			cmds = append(cmds, c.command(ctx, "EVAL", projectScript))
		}
	}
	s.send(ctx, cmds...)
}

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// recipe is what a processor stores for a run and for a call, as it was
// recorded: the messages, byte for byte, and the commands that change Redis.
type recipe struct {
	Run      string // of which everything was recorded
	Call     string
	Sequence uint64 // of the call's tool.reserved within the run

	Start   step    // a run starts
	Reserve step    // an intent is accepted
	Settle  step    // a result is settled
	Lease   message // a position is moved
}

// step is what one event leads to: a fact, then commands to Redis, then, of an
// intent, a dispatch.
type step struct {
	Fact     message
	Writes   []command
	Dispatch *message
}

// message is one message of a stream.
type message struct {
	Subject string
	Header  map[string][]string
	Data    []byte
}

// command is one command with its arguments, as Redis ran it.
type command [][]byte

// validate reports what a floor could not do without.
func (r recipe) validate() error {
	switch {
	case r.Run == "" || r.Call == "" || r.Sequence == 0:
		return errors.New("recipe: it names no run, call or sequence")
	case r.Start.Fact.Subject == "" || r.Reserve.Fact.Subject == "" || r.Settle.Fact.Subject == "":
		return errors.New("recipe: a fact is missing")
	case r.Reserve.Dispatch == nil || r.Lease.Subject == "":
		return errors.New("recipe: the dispatch or the lease is missing")
	case len(r.Reserve.Writes) == 0 || len(r.Settle.Writes) == 0:
		return errors.New("recipe: the commands to Redis are missing")
	}
	return nil
}

// writes gives number and bytes of the arguments of what a call changes in Redis.
func (r recipe) writes() (commands, bytes int) {
	for _, step := range []step{r.Reserve, r.Settle} {
		for _, c := range step.Writes {
			commands++
			for _, arg := range c {
				bytes += len(arg)
			}
		}
	}
	return commands, bytes
}

func (r recipe) writeFile(name string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the recipe: %w", err)
	}
	return os.WriteFile(name, data, 0o600)
}

func readRecipe(name string) (recipe, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return recipe{}, err
	}
	var r recipe
	if err := json.Unmarshal(data, &r); err != nil {
		return recipe{}, fmt.Errorf("recipe %s: %w", name, err)
	}
	return r, r.validate()
}

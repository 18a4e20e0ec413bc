package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Recipe is what a processor stores for a run and for a call, as it was
// recorded: the messages, byte for byte, and the commands that change Redis.
type Recipe struct {
	Run      string // of which everything was recorded
	Call     string
	Sequence uint64 // of the call's tool.reserved within the run

	Start   Step    // a run starts
	Reserve Step    // an intent is accepted
	Settle  Step    // a result is settled
	Lease   Message // a position is moved
}

// Step is what one event leads to: a fact, then commands to Redis, then, of an
// intent, a dispatch.
type Step struct {
	Fact     Message
	Writes   []Command
	Dispatch *Message
}

// Message is one message of a stream.
type Message struct {
	Subject string
	Header  map[string][]string
	Data    []byte
}

// Command is one command with its arguments, as Redis ran it.
type Command [][]byte

// Validate reports what a floor could not do without.
func (r Recipe) Validate() error {
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
func (r Recipe) writes() (commands, bytes int) {
	for _, step := range []Step{r.Reserve, r.Settle} {
		for _, c := range step.Writes {
			commands++
			for _, arg := range c {
				bytes += len(arg)
			}
		}
	}
	return commands, bytes
}

func (r Recipe) writeFile(name string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the recipe: %w", err)
	}
	return os.WriteFile(name, data, 0o600)
}

func readRecipe(name string) (Recipe, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return Recipe{}, err
	}
	var r Recipe
	if err := json.Unmarshal(data, &r); err != nil {
		return Recipe{}, fmt.Errorf("recipe %s: %w", name, err)
	}
	return r, r.Validate()
}

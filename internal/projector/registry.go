package projector

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"runledger/internal/harness"
)

// Config is the options of one projector. Its fields carry the names that they
// have in a policy as yaml tags; "size" in a tag marks a number of bytes, and
// "short" a field that may stand alone for the struct that holds it.
type Config interface {
	// Validate reports every option that is wrong, as [FieldErrors].
	Validate() error
	// Shared gives the options that every projector has, to be read or set before
	// New.
	Shared() *Options
	// New gives the projector. The error is that of Validate.
	New() (harness.Projector, error)
}

// registry gives the options of each projector by its name, set to defaults.
func registry() map[string]func() Config {
	return map[string]func() Config{
		NameJSON:     func() Config { return DefaultJSON() },
		NameLog:      func() Config { return DefaultLog() },
		NameMCP:      func() Config { return DefaultMCP() },
		NamePassages: func() Config { return DefaultPassages() },
		NameRows:     func() Config { return DefaultRows() },
		NameText:     func() Config { return DefaultText() },
	}
}

// NewConfig returns the options of the projector of that name, set to their
// defaults; false where there is none.
func NewConfig(name string) (Config, bool) {
	config, ok := registry()[name]
	if !ok {
		return nil, false
	}
	return config(), true
}

// Names lists the projectors, sorted.
func Names() []string { return slices.Sorted(maps.Keys(registry())) }

// FieldError says what is wrong with one option.
type FieldError struct {
	Field   string // as in the policy, for instance "keep[2]"
	Problem string // what is wanted, and what came
}

// FieldErrors is every option of a Config that is wrong.
type FieldErrors []FieldError

// Error lists them, one after the other.
func (e FieldErrors) Error() string {
	texts := make([]string, len(e))
	for i, f := range e {
		texts[i] = f.Field + ": " + f.Problem
	}
	return strings.Join(texts, "; ")
}

func (e FieldErrors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return slices.Clip(e)
}

func (e *FieldErrors) add(field, format string, args ...any) {
	*e = append(*e, FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

func (e *FieldErrors) between(option string, value, low, high int64) {
	if value < low || value > high {
		e.add(option, "want %d to %d, got %d", low, high, value)
	}
}

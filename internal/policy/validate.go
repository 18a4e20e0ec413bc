package policy

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"runledger/internal/events"
	"runledger/internal/projector"
)

// Bounds of what a policy may say.
const (
	MaxTools  = 1000
	MaxGrants = 1000
	// MaxSpan bounds longest_run and ttl, each: together they stay below the 30
	// days for which the streams keep events.
	MaxSpan = 14 * 24 * time.Hour
	// MaxTimeout bounds the timeout of a tool: dispatches are kept for two days.
	MaxTimeout = 24 * time.Hour
	// MaxCallBytes bounds requests, raw responses and records, in bytes. A message
	// of a NATS server can have 64 MiB at most.
	MaxCallBytes = 64 << 20
	// MaxAgentResult bounds agent results, in bytes: a fact holds one.
	MaxAgentResult = 512 << 10
	MaxObserved    = 10_000
	// MaxRepairs and MaxRepeats bound what progress may allow.
	MaxRepairs = 1000
	MaxRepeats = 1_000_000
	// MaxGrace bounds the time that a released run has to finish.
	MaxGrace = time.Hour
)

// validate finds what is wrong beyond the form of single values.
func (f *file) validate(r *reader) {
	f.validateTools(r)
	f.validateGrants(r)
	limits := reflect.ValueOf(f.Ceilings)
	for i := range limits.NumField() {
		name, _, _ := strings.Cut(limits.Type().Field(i).Tag.Get("yaml"), ",")
		if n := limits.Field(i).Int(); n <= 0 {
			r.refuse("ceilings."+name, "want a positive number, got %d", n)
		}
	}
	f.validateBytes(r)
	span := func(path string, d time.Duration) {
		if d < time.Second || d > MaxSpan || d%time.Millisecond != 0 {
			r.refuse(path, "want 1s to %dh in whole milliseconds, got %s", MaxSpan/time.Hour, d)
		}
	}
	span("longest_run", f.LongestRun)
	span("ttl", f.TTL)
	if f.Observed < 1 || f.Observed > MaxObserved {
		r.refuse("observed", "want 1 to %d, got %d", MaxObserved, f.Observed)
	}
	f.validateProgress(r)
}

func (f *file) validateProgress(r *reader) {
	p := f.Progress
	if p.MaxRepairs < 1 || p.MaxRepairs > MaxRepairs {
		r.refuse("progress.max_repairs", "want 1 to %d, got %d", MaxRepairs, p.MaxRepairs)
	}
	if p.MaxRepeats < 1 || p.MaxRepeats > MaxRepeats {
		r.refuse("progress.max_repeats", "want 1 to %d, got %d", MaxRepeats, p.MaxRepeats)
	}
	if p.Grace < time.Millisecond || p.Grace > MaxGrace || p.Grace%time.Millisecond != 0 {
		r.refuse("progress.grace", "want 1ms to %dh in whole milliseconds, got %s", MaxGrace/time.Hour, p.Grace)
	}
}

func (f *file) validateBytes(r *reader) {
	between := func(path string, n, high int64) {
		if n < 1 || n > high {
			r.refuse(path, "want 1 to %d bytes, got %d", high, n)
		}
	}
	b := f.Bytes
	between("bytes.request", b.Request, MaxCallBytes)
	between("bytes.raw_response", b.RawResponse, MaxCallBytes)
	between("bytes.record", b.Record, MaxCallBytes)
	between("bytes.agent_result", b.AgentResult, MaxAgentResult)
	if largest := max(b.Request, b.RawResponse); b.Record < largest {
		r.refuse("bytes.record", "want at least the larger of request and raw_response, %d bytes, got %d", largest, b.Record)
	}
}

func (f *file) validateTools(r *reader) {
	if len(f.Tools) == 0 || len(f.Tools) > MaxTools {
		r.refuse("tools", "want 1 to %d tools, got %d", MaxTools, len(f.Tools))
		return
	}
	first := map[string]string{}
	for i := range f.Tools {
		path := item("tools", i)
		f.validateTool(r, path, &f.Tools[i])
		name := f.Tools[i].Name
		if before, ok := first[name]; ok && name != "" {
			r.refuse(path+".name", "want a name of its own, got %.80q, which is %s (line %d)", name, before, r.at[before+".name"].line)
		} else {
			first[name] = path
		}
	}
}

func (f *file) validateTool(r *reader, path string, t *toolEntry) {
	if r.refused[path] {
		return // there is nothing in it to judge
	}
	if err := checkToolName(t.Name); err != nil {
		r.refuse(path+".name", "%v", err)
	}
	if !events.ValidName(t.Executor) {
		r.refuse(path+".executor", "want 1 to 128 of A-Z a-z 0-9 _ -, got %.140q", t.Executor)
	}
	switch {
	case !r.has(path + ".timeout"):
		r.refuse(path+".timeout", "want how long one call may take, such as 10s, got none")
	case t.Timeout < time.Millisecond || t.Timeout > MaxTimeout || t.Timeout%time.Millisecond != 0:
		r.refuse(path+".timeout", "want 1ms to %dh in whole milliseconds, got %s", MaxTimeout/time.Hour, t.Timeout)
	}
	f.validateProjector(r, path+".projector", t)
}

// validateProjector also sets what follows from other parts of the file.
func (f *file) validateProjector(r *reader, path string, t *toolEntry) {
	if t.Projector.config == nil {
		t.Projector.config = projector.DefaultJSON()
	}
	options := t.Projector.config.Shared()
	if !r.has(path + ".max_bytes") {
		options.MaxBytes = min(options.MaxBytes, f.Bytes.AgentResult)
	}
	if !r.has(path + ".max_input") {
		options.MaxInput = max(1, min(f.Bytes.RawResponse, projector.MaxInputBytes))
	}
	if r.has(path+".evidence") && options.Evidence == "" {
		r.refuse(path+".evidence", "want a CEL expression over result, or no evidence at all, got nothing")
	}
	var wrong projector.FieldErrors
	if errors.As(t.Projector.config.Validate(), &wrong) {
		for _, field := range wrong {
			r.refuse(join(path, field.Field), "%s", field.Problem)
		}
	}
	if limit := f.Bytes.AgentResult; options.MaxBytes > limit {
		r.refuse(path+".max_bytes", "want at most bytes.agent_result, %d bytes, got %d", limit, options.MaxBytes)
	}
}

// checkToolName takes what people call tools, but nothing that looks like
// another name than it is.
func checkToolName(name string) error {
	switch {
	case name == "" || len(name) > events.MaxToolName:
		return fmt.Errorf("want 1 to %d bytes, got %d", events.MaxToolName, len(name))
	case name == "*":
		return fmt.Errorf(`want the name of one tool; "*" stands for all of them in grants`)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("want no control characters, got %.80q", name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("want no white space around it, got %.80q", name)
	}
	return nil
}

func (f *file) validateGrants(r *reader) {
	if len(f.Grants) == 0 || len(f.Grants) > MaxGrants {
		r.refuse("grants", "want 1 to %d grants, got %d; what is not granted is refused", MaxGrants, len(f.Grants))
		return
	}
	declared := map[string]bool{"*": true}
	for i := range f.Tools {
		declared[f.Tools[i].Name] = true
	}
	first := map[string]int{}
	for i, grant := range f.Grants {
		path := item("grants", i)
		if r.refused[path] {
			continue
		}
		if grant.Agent != "*" && !events.ValidName(grant.Agent) {
			r.refuse(path+".agent", `want "*" or 1 to 128 of A-Z a-z 0-9 _ -, got %.140q`, grant.Agent)
		} else if before, ok := first[grant.Agent]; ok {
			r.refuse(path+".agent", "want one grant for each agent, got a second one for %q (the first is in line %d)", grant.Agent, r.at[item("grants", before)+".agent"].line)
		} else {
			first[grant.Agent] = i
		}
		if n := len(grant.Tools); n == 0 || n > MaxTools {
			r.refuse(path+".tools", "want 1 to %d tools, got %d", MaxTools, n)
			continue
		}
		for j, tool := range grant.Tools {
			if !declared[tool] && !r.refused["tools"] {
				r.refuse(item(path+".tools", j), `want a tool that this file declares, or "*", got %.80q`, tool)
			}
		}
	}
}

package policy

import (
	_ "embed" //nolint:depguard // it reads when the program is built: at run time there is no I/O
	"fmt"
	"slices"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// Parse reads and compiles a policy. The name, such as the file's path, stands
// in front of each problem. The error is an [*Error] with every problem that
// was found. The same bytes give the same policy, and its digest is that of
// the bytes: events.DigestBytes(data).
func Parse(name string, data []byte) (*harness.Policy, error) {
	root, problem := parseYAML(data)
	if problem != nil {
		return nil, &Error{Name: name, Problems: []Problem{*problem}}
	}
	r := newReader()
	if ours, newer := readVersion(r, root); !ours {
		return nil, &Error{Name: name, Problems: r.problems, Newer: newer}
	}
	f := readFile(r, root)
	f.validate(r)
	if len(r.problems) > 0 {
		return nil, &Error{Name: name, Problems: inOrder(r.problems)}
	}
	p, err := f.compile()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.Digest = events.DigestBytes(data)
	return p, nil
}

// compile makes the policy of a file in which nothing is wrong.
func (f *file) compile() (*harness.Policy, error) {
	p := &harness.Policy{
		Tools:    make(map[string]harness.Tool, len(f.Tools)),
		Grants:   make(map[string][]string, len(f.Grants)),
		Ceilings: f.Ceilings.limits(),
		Bytes: harness.ByteLimits{
			Request: f.Bytes.Request, RawResponse: f.Bytes.RawResponse, Record: f.Bytes.Record, AgentResult: f.Bytes.AgentResult,
		},
		LongestRun: f.LongestRun, TTL: f.TTL, AllowColon: f.AllowColon, Observed: int(f.Observed),
		Progress: harness.ProgressLimits{
			MaxRepairs: int(f.Progress.MaxRepairs), MaxRepeats: int(f.Progress.MaxRepeats), Grace: f.Progress.Grace,
		},
	}
	for i := range f.Tools {
		entry := &f.Tools[i]
		projector, err := entry.Projector.config.New()
		if err != nil {
			return nil, fmt.Errorf("tool %s: projector: %w", entry.Name, err)
		}
		tool := harness.Tool{
			Name: entry.Name, Executor: entry.Executor, ReadOnly: entry.ReadOnly, Timeout: entry.Timeout, Projector: projector,
		}
		if entry.Input.compiled != nil { // an interface that holds a nil pointer would not be nil
			tool.Input = entry.Input.compiled
		}
		p.Tools[entry.Name] = tool
	}
	for _, grant := range f.Grants {
		p.Grants[grant.Agent] = grant.Tools
	}
	return p, nil
}

// Executors lists the executors that the policy's tools name, sorted, each
// once. Each reads its dispatches through a consumer of its own.
func Executors(p *harness.Policy) []string {
	names := make([]string, 0, len(p.Tools))
	for _, tool := range p.Tools {
		names = append(names, tool.Executor)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AirlineName is the name of the built-in policy, for messages.
const AirlineName = "airline.yaml"

//go:embed airline.yaml
var airline string

// Airline gives the built-in policy of the demonstration: the tools of the
// airline agents whose recorded runs it plays. Compile it with [Parse].
func Airline() []byte { return []byte(airline) }

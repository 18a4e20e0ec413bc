package policy

import (
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"runledger/internal/events"
	"runledger/internal/projector"
)

// Version is the form of policy files that this program reads.
const Version = 1

// file is a policy file as it is written.
type file struct {
	Version    int64         `yaml:"version"`
	Tools      []toolEntry   `yaml:"tools"`
	Grants     []grantEntry  `yaml:"grants"`
	Ceilings   ceilings      `yaml:"ceilings"`
	Bytes      byteEntry     `yaml:"bytes"`
	LongestRun time.Duration `yaml:"longest_run"`
	TTL        time.Duration `yaml:"ttl"`
	AllowColon bool          `yaml:"allow_colon_in_tool_call_ids"`
	Observed   int64         `yaml:"observed"`
	Progress   progressEntry `yaml:"progress"`
}

type toolEntry struct {
	Name      string         `yaml:"name"`
	Executor  string         `yaml:"executor"`
	ReadOnly  bool           `yaml:"read_only"`
	Timeout   time.Duration  `yaml:"timeout"`
	Input     inputEntry     `yaml:"input_schema"`
	Projector projectorEntry `yaml:"projector"`
}

type grantEntry struct {
	Agent string   `yaml:"agent"`
	Tools []string `yaml:"tools"`
}

// ceilings has the members of events.Limits, in their order.
type ceilings struct {
	ModelCalls   int64 `yaml:"model_calls"`
	ToolCalls    int64 `yaml:"tool_calls"`
	CallsPerTool int64 `yaml:"calls_per_tool"`
	InputTokens  int64 `yaml:"input_tokens"`
	OutputTokens int64 `yaml:"output_tokens"`
	TotalTokens  int64 `yaml:"total_tokens"`
	RunBytes     int64 `yaml:"run_bytes,size"`
}

type byteEntry struct {
	Request     int64 `yaml:"request,size"`
	RawResponse int64 `yaml:"raw_response,size"`
	Record      int64 `yaml:"record,size"`
	AgentResult int64 `yaml:"agent_result,size"`
}

type progressEntry struct {
	MaxRepairs int64         `yaml:"max_repairs"`
	MaxRepeats int64         `yaml:"max_repeats"`
	Grace      time.Duration `yaml:"grace"`
}

// defaults gives what holds where the file says nothing. A message of a NATS
// server has at most 1 MiB by its own default, which bounds the bytes.
func defaults() *file {
	return &file{
		Ceilings: ceilings{
			ModelCalls: 1000, ToolCalls: 1000, CallsPerTool: 1000,
			InputTokens: 10_000_000, OutputTokens: 1_000_000, TotalTokens: 11_000_000, RunBytes: 64 << 20,
		},
		Bytes:      byteEntry{Request: 256 << 10, RawResponse: 768 << 10, Record: 1 << 20, AgentResult: 32 << 10},
		LongestRun: time.Hour,
		TTL:        24 * time.Hour,
		Observed:   100,
		Progress:   progressEntry{MaxRepairs: 3, MaxRepeats: 10, Grace: 30 * time.Second},
	}
}

// readVersion reports whether the file is of the form that this program reads,
// or of a newer one. One of another form is refused for that alone: nothing else
// in it can be judged.
func readVersion(r *reader, root *ast.MappingNode) (ours, newer bool) {
	for key, value := range r.entries(root, "") {
		if key != "version" {
			continue
		}
		switch n, ok := integerOf(value); {
		case ok && n == Version:
			return true, false
		case ok && n > Version:
			newer = true
			r.refuse("version", "want %d, got %d: the file is of a newer form, for a newer version of this program", Version, n)
		default:
			r.refuse("version", "want %d, got %s", Version, kindOf(value))
		}
		return false, newer
	}
	r.refuse("version", "want %d, got none", Version)
	return false, false
}

func readFile(r *reader, root *ast.MappingNode) *file {
	f := defaults()
	r.readStruct(root, "", reflect.ValueOf(f).Elem())
	return f
}

func (c ceilings) limits() events.Limits {
	return events.Limits{
		ModelCalls: c.ModelCalls, ToolCalls: c.ToolCalls, CallsPerTool: c.CallsPerTool,
		InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, TotalTokens: c.TotalTokens, RunBytes: c.RunBytes,
	}
}

// projectorEntry names a projector and holds its options.
type projectorEntry struct{ config projector.Config }

func (e *projectorEntry) readNode(r *reader, node ast.Node, path string) {
	name, known := "", false
	for key, value := range r.entries(node, path) {
		if key == "name" {
			name, known = textOf(value)
		}
	}
	if _, ok := node.(*ast.MappingNode); !ok {
		return
	}
	if known {
		e.config, known = projector.NewConfig(name)
	}
	if !known {
		r.refuse(join(path, "name"), "want one of %s, got %q", strings.Join(projector.Names(), ", "), name)
		return
	}
	r.readStruct(node, path, reflect.ValueOf(e.config).Elem(), "name")
}

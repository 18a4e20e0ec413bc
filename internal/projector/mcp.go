package projector

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/harness"
)

// NameMCP names the projector of [MCPConfig].
const NameMCP = "mcp"

// MCPConfig is the options of the mcp projector. It takes the result of a tool
// call of the Model Context Protocol (revision 2025-06-18 and those before it:
// content, structuredContent, isError) and gives
//
//	{"structuredContent": {…}, "content": [{"type": "text", "text": "…"}],
//	 "scope": {…}, "left_out": {"content": 1, "binary": 1}}
//
// The structured content is reduced as the json projector does. Of the blocks
// of content, text, links and embedded texts are shown; of images, sounds and
// other bytes only type and size ("bytes", decoded). A block is left out and
// counted as "content" where it is not meant for the agent (its
// annotations.audience does not name the assistant), is of no known type, or is
// a text that only says the structured content again, as JSON. Where Keep is
// given, there must be structured content, and every block is left out: a text
// could tell what Keep hides.
//
// NO_EVIDENCE is a result in which all is empty: no blocks, or only texts that
// are blank or empty JSON, and no structured content or an empty one.
//
// A result with isError true is an error, whatever it tells. An unknown tool or
// bad arguments is how the agent called, not what the tool observed; any other
// failure says that nothing was observed, which is neither evidence nor the lack
// of it. A READY record could be cited as one of these, so the call becomes an
// ERROR, with the raw response kept for the operator.
//
// Where the result is larger than MaxBytes, lists in the structured content are
// cut first, as in the json projector, with room for no block; then blocks are
// left out from the end. One block always stands where there is no structured
// content.
type MCPConfig struct {
	Options
	// Keep lists what the agent may see of the structured content.
	Keep []Keep `yaml:"keep"`
	// MaxItems bounds the blocks, and every list in the structured content.
	MaxItems int64 `yaml:"max_items"`
}

// DefaultMCP returns the defaults: 100 blocks, and items of a list.
func DefaultMCP() *MCPConfig { return &MCPConfig{Options: defaultOptions(), MaxItems: 100} }

// Validate implements [Config].
func (c *MCPConfig) Validate() error {
	_, err := c.compile()
	return err
}

// New implements [Config].
func (c *MCPConfig) New() (harness.Projector, error) { return c.compile() }

func (c *MCPConfig) compile() (*mcpProjector, error) {
	var wrong FieldErrors
	p := &mcpProjector{bounds: c.Options.compile(&wrong), keep: parseKeep(c.Keep, &wrong), items: int(c.MaxItems)}
	wrong.between("max_items", c.MaxItems, 1, MaxItems)
	p.used = append(parsePaths("", []string{"content", "structuredContent", "isError"}, MaxPaths, &wrong), p.scope...)
	if err := wrong.orNil(); err != nil {
		return nil, err
	}
	return p, nil
}

type mcpProjector struct {
	bounds
	keep  []path
	items int
	used  []path // members of a result that are read
}

// errToolFailed is what a result with isError true becomes.
var errToolFailed = errors.New("raw response: want an MCP result without isError; the tool reported a failure, which is no evidence and no lack of it")

// mcpResult is a result of a tool call, its parts found and not yet judged.
type mcpResult struct {
	content    jsontext.Value
	structured jsontext.Value // nil if there is none
}

// readMCP finds the parts of a result.
func readMCP(value jsontext.Value) (r mcpResult, err error) {
	if value.Kind() != '{' {
		return r, errors.New("raw response: want an MCP tool result, an object with content, got another value")
	}
	for name, member := range members(value) {
		switch kind := member.Kind(); name {
		case "content":
			if kind != '[' {
				return r, errors.New("raw response: want a list as content, got another value")
			}
			r.content = member
		case "structuredContent":
			if kind != '{' && kind != 'n' {
				return r, errors.New("raw response: want an object as structuredContent, got another value")
			}
			if kind == '{' {
				r.structured = member
			}
		case "isError":
			switch kind {
			case 't':
				return r, errToolFailed
			case 'f':
			default:
				return r, errors.New("raw response: want true or false as isError, got another value")
			}
		}
	}
	if r.content == nil && r.structured == nil {
		return r, errors.New("raw response: want an MCP tool result with content or structuredContent, got neither")
	}
	return r, nil
}

// Project implements [harness.Projector]. The work is as that of the json
// projector.
func (p *mcpProjector) Project(raw []byte) (projection harness.Projection, err error) {
	value, m, err := p.open(raw)
	if err != nil {
		return projection, err
	}
	if err := m.pass(6 * len(value)); err != nil {
		return projection, err
	}
	r, err := readMCP(value)
	if err != nil {
		return projection, err
	}
	if len(p.keep) > 0 && r.structured == nil {
		return projection, errors.New("raw response: want structuredContent, of which the policy keeps paths, got none")
	}
	blocks, err := p.readBlocks(r, m)
	if err != nil {
		return projection, err
	}
	nothing := blocks.empty && (r.structured == nil || isEmpty(r.structured))
	if projection.Evidence, err = p.judge(value, m, nothing); err != nil {
		return projection, err
	}
	around := leftOut{leftPaths: others(value, p.used)}
	scope, err := p.scopeOf(value, m, &around)
	if err != nil {
		return projection, err
	}
	head, err := p.structured(r, m, blocks, scope, &around)
	if err != nil {
		return projection, err
	}
	least := 1
	if r.structured != nil {
		least = 0
	}
	projection.Result, err = p.fit(head, blocks.body, blocks.parts, least, func(n int, left leftOut) []byte {
		left.add(&around)
		left[leftContent] = int64(blocks.count - n)
		return append(left.append(append([]byte("]"), scope...)), '}')
	})
	return projection, err
}

// structured writes the head of the result: the structured content, if there is
// any, with the longest lists that leave room for the rest without blocks.
func (p *mcpProjector) structured(r mcpResult, m *meter, blocks *mcpBlocks, scope []byte, around *leftOut) ([]byte, error) {
	const head = `{"content":[`
	if r.structured == nil {
		return []byte(head), nil
	}
	var left leftOut
	out, err := longest(p.items, func(items int) ([]byte, error) {
		w := newWalk(&p.bounds, m, r.structured, items, p.result)
		w.out = append(w.out, `{"structuredContent":`...)
		keep := p.keep
		if isEmpty(r.structured) {
			keep = nil
		}
		if err := w.root(keep); err != nil {
			return nil, err
		}
		w.out = append(w.out, `,"content":[`...)
		all := w.left
		all.add(around)
		all[leftContent] = int64(blocks.count)
		if rest := all.append(nil); len(w.out)+len("]}")+len(scope)+len(rest) > p.result {
			return nil, errOver
		}
		left = w.left
		return w.out, nil
	})
	if err != nil {
		return nil, fmt.Errorf("structuredContent: %w", err)
	}
	around.add(&left)
	return out, nil
}

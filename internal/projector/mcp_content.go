package projector

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// mcpBlocks is the content of an MCP result, written and judged.
type mcpBlocks struct {
	count int  // blocks of the result
	empty bool // there is nothing in them
	body  []byte
	parts []part
}

// readBlocks writes the blocks that the agent may see, until they are more than
// a result can hold.
func (p *mcpProjector) readBlocks(r mcpResult, m *meter) (*mcpBlocks, error) {
	blocks := &mcpBlocks{empty: true}
	same, err := canonical(r.structured, m)
	if err != nil {
		return nil, err
	}
	for _, block := range items(r.content) {
		blocks.count++
		if block.Kind() != '{' {
			return nil, errors.New("raw response: want objects as blocks of content, got another value")
		}
		full := len(blocks.parts) >= p.items || len(blocks.body) > p.result || len(p.keep) > 0
		if full && !blocks.empty {
			continue // it can change neither what is shown nor the evidence
		}
		b := readMCPBlock(block)
		blocks.empty = blocks.empty && b.kind == "text" && isEmpty(b.text)
		if full || !b.known() || !b.forAgent {
			continue
		}
		if repeated, err := b.says(same, m); err != nil || repeated {
			if err != nil {
				return nil, err
			}
			continue
		}
		if err := blocks.add(&b, p.text); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

func (blocks *mcpBlocks) add(b *mcpBlock, limit int) (err error) {
	next := part{}
	if n := len(blocks.parts); n > 0 {
		next = blocks.parts[n-1]
		blocks.body = append(blocks.body, ',')
	}
	if blocks.body, err = b.append(blocks.body, limit, &next.left); err != nil {
		return err
	}
	next.end = len(blocks.body)
	blocks.parts = append(blocks.parts, next)
	return nil
}

// says reports whether the block is a text that is the structured content once
// more.
func (b *mcpBlock) says(structured jsontext.Value, m *meter) (bool, error) {
	if structured == nil || b.kind != "text" {
		return false, nil
	}
	if err := m.pass(2 * len(b.text)); err != nil {
		return false, err
	}
	inner, ok := parsedText(b.text)
	if !ok {
		return false, nil
	}
	form, err := canonical(inner, m)
	return form != nil && bytes.Equal(form, structured), err
}

// canonical gives a value in the one form that all ways to write it share, where
// there is a value, and it has one. It is only compared, never shown: its numbers
// are rounded.
func canonical(value jsontext.Value, m *meter) (jsontext.Value, error) {
	if value == nil {
		return nil, nil
	}
	if err := m.pass(4 * len(value)); err != nil { // it also sorts
		return nil, err
	}
	form := jsontext.Value(bytes.Clone(value))
	if ok := form.Canonicalize() == nil; !ok {
		form = nil
	}
	return form, nil
}

// mcpBlock is one block of content, its members found.
type mcpBlock struct {
	kind     string
	text     jsontext.Value // of a text, or of an embedded resource
	data     jsontext.Value // base64
	forAgent bool
	fields   []mcpField // what is shown beside these
	others   int64
}

type mcpField struct {
	name  string
	value jsontext.Value
}

func readMCPBlock(block jsontext.Value) mcpBlock {
	b := mcpBlock{forAgent: true}
	if kind, ok := at(block, path{{kind: stepMember, name: "type"}}); ok {
		b.kind, _ = textOf(kind)
	}
	for name, value := range members(block) {
		switch {
		case name == "type":
		case name == "annotations":
			b.others++
			b.forAgent = isForAgent(value)
		case name == "resource" && b.kind == "resource":
			for name, value := range members(value) {
				b.member(name, value)
			}
		default:
			b.member(name, value)
		}
	}
	return b
}

func (b *mcpBlock) member(name string, value jsontext.Value) {
	switch {
	case name == "text" && (b.kind == "text" || b.kind == "resource"):
		b.text = value
	case (name == "data" && (b.kind == "image" || b.kind == "audio")) || (name == "blob" && b.kind == "resource"):
		b.data = value
	case isMCPField(name) && isScalar(value):
		b.fields = append(b.fields, mcpField{name, value})
	default:
		b.others++
	}
}

func isMCPField(name string) bool {
	switch name {
	case "uri", "name", "title", "description", "mimeType", "size":
		return true
	}
	return false
}

// isForAgent reads annotations: without an audience a block is for everybody.
func isForAgent(annotations jsontext.Value) bool {
	audience, ok := at(annotations, path{{kind: stepMember, name: "audience"}})
	if !ok || audience.Kind() != '[' {
		return true
	}
	for _, role := range items(audience) {
		if text, _ := textOf(role); text == "assistant" {
			return true
		}
	}
	return false
}

// known reports whether the block is of a type of the protocol.
func (b *mcpBlock) known() bool {
	switch b.kind {
	case "text", "image", "audio", "resource", "resource_link":
		return true
	}
	return false
}

// append writes a block of a known type.
func (b *mcpBlock) append(out []byte, limit int, left *leftOut) ([]byte, error) {
	out = append(append(append(out, `{"type":"`...), b.kind...), '"')
	for _, field := range b.fields {
		out = append(append(append(out, `,"`...), field.name...), `":`...)
		if text, ok := textOf(field.value); ok {
			out = left.appendText(out, text, limit)
			continue
		}
		if err := checkNumber(field.value); err != nil {
			return nil, err
		}
		out = append(out, field.value...)
	}
	left[leftPaths] += b.others
	if b.data != nil {
		encoded, ok := textOf(b.data)
		if !ok {
			return nil, errors.New("raw response: want bytes as a base64 string, got another value")
		}
		left[leftBinary]++
		out = strconv.AppendInt(append(out, `,"bytes":`...), decodedLen(encoded), 10)
	}
	if b.text != nil {
		text, ok := textOf(b.text)
		if !ok {
			return nil, errors.New("raw response: want a string as text, got another value")
		}
		out = left.appendText(append(out, `,"text":`...), text, limit)
	} else if b.kind == "text" {
		return nil, errors.New("raw response: want a text in a block of text, got none")
	}
	return append(out, '}'), nil
}

// decodedLen is how many bytes a base64 text stands for.
func decodedLen(encoded string) int64 {
	n := int64(len(encoded))
	for n > 0 && encoded[n-1] == '=' {
		n--
	}
	return n * 3 / 4
}

package policy

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on the file, checked before it is parsed. The parser's time grows with
// the square of the depth and of the keys of one mapping; within these it stays
// below a second.
const (
	MaxFile   = 512 << 10 // bytes; it must also fit a message of the key-value store
	MaxTokens = 60_000    // of YAML
	MaxNest   = 64        // levels
)

// parseYAML gives the one mapping that the file is. The problem is the first
// that was met; what stands after it cannot be told.
func parseYAML(data []byte) (root *ast.MappingNode, problem *Problem) {
	// The parser has panicked on input from fuzzing before; a policy comes from
	// outside and must not end the process.
	defer func() {
		if r := recover(); r != nil {
			root, problem = nil, &Problem{Line: 1, Column: 1, Text: "want YAML, got something on which the YAML parser fails"}
		}
	}()
	if len(data) > MaxFile {
		return nil, &Problem{Line: 1, Column: 1, Text: fmt.Sprintf("want at most %d bytes, got %d", MaxFile, len(data))}
	}
	if !utf8.Valid(data) {
		return nil, &Problem{Line: 1, Column: 1, Text: "want UTF-8, got other bytes"}
	}
	tokens := lexer.Tokenize(string(data))
	if problem := checkTokens(tokens); problem != nil {
		return nil, problem
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntaxProblem(err)
	}
	return onlyMapping(file)
}

// checkTokens bounds what the parser is given.
func checkTokens(tokens token.Tokens) *Problem {
	if len(tokens) > MaxTokens {
		return problemAt(tokens[MaxTokens], "want at most %d YAML tokens, got %d", MaxTokens, len(tokens))
	}
	flow, dashes, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++ // each opens a level of its own on the same line
		}
		if flow > MaxNest || dashes > MaxNest {
			return problemAt(t, "want at most %d levels, got more", MaxNest)
		}
	}
	return nil
}

func problemAt(t *token.Token, format string, args ...any) *Problem {
	p := &Problem{Line: 1, Column: 1, Text: fmt.Sprintf(format, args...)}
	if t != nil && t.Position != nil {
		p.Line, p.Column = t.Position.Line, t.Position.Column
	}
	return p
}

func syntaxProblem(err error) *Problem {
	var at yaml.Error
	if errors.As(err, &at) {
		return problemAt(at.GetToken(), "want YAML: %.200s", at.GetMessage())
	}
	return &Problem{Line: 1, Column: 1, Text: fmt.Sprintf("want YAML: %.200v", err)}
}

func onlyMapping(file *ast.File) (*ast.MappingNode, *Problem) {
	var found *ast.MappingNode
	for _, document := range file.Docs {
		if document.Body == nil {
			continue
		}
		mapping, ok := document.Body.(*ast.MappingNode)
		if !ok {
			return nil, problemAt(document.Body.GetToken(), "want a mapping with version, tools and grants, got %s", kindOf(document.Body))
		}
		if found != nil {
			return nil, problemAt(mapping.GetToken(), "want one YAML document, got several")
		}
		found = mapping
	}
	if found == nil {
		return nil, &Problem{Line: 1, Column: 1, Text: "want a mapping with version, tools and grants, got nothing"}
	}
	return found, nil
}

// kindOf names what a node is, for messages.
func kindOf(node ast.Node) string {
	switch n := node.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return fmt.Sprintf("%.60q", n.Value)
	case *ast.LiteralNode:
		return "a text"
	case *ast.BoolNode:
		return fmt.Sprint(n.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return fmt.Sprintf("the number %.60s", n.GetToken().Value)
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return "an anchor, alias or tag"
	}
	return "something else"
}

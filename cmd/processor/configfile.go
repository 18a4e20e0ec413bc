package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/knadh/koanf/providers/confmap"
)

// file reads a configuration file, strictly: what is no setting, or no value of
// one, is refused with its line. The source itself is never shown, since it may
// hold a password.
func (l *loader) file(name string) error {
	if name == "" {
		return nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return usage(fmt.Errorf("configuration file: %w", err))
	}
	parsed, err := parser.ParseBytes(content, 0)
	if err != nil {
		return usage(errors.New(syntaxError(name, err)))
	}
	f := &configFile{loader: l, name: name, values: map[string]any{}}
	for _, document := range parsed.Docs {
		if document.Body != nil {
			f.read(document.Body, "")
		}
	}
	return l.merged.Load(confmap.Provider(f.values, "."), nil)
}

func syntaxError(name string, err error) string {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		p := at.GetToken().Position
		return fmt.Sprintf("%s:%d:%d: want YAML: %.200s", name, p.Line, p.Column, at.GetMessage())
	}
	return name + ": want YAML, got something else"
}

// configFile is one file on its way into the configuration.
type configFile struct {
	*loader
	name   string
	values map[string]any
}

// place says where a node stands, and what it is about.
func (f *configFile) place(node ast.Node, path string) string {
	p := node.GetToken().Position
	place := fmt.Sprintf("%s:%d:%d", f.name, p.Line, p.Column)
	if path == "" {
		return place
	}
	return place + ": " + path
}

// read takes the settings below path.
func (f *configFile) read(node ast.Node, path string) {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		f.refuse(f.place(node, path), "want settings such as %s, got %s", strings.Join(keysBelow(path), ", "), kindOf(node))
		return
	}
	for _, entry := range mapping.Values {
		key := entry.Key.GetToken().Value
		if path != "" {
			key = path + "." + key
		}
		if s, ok := settingOf(key); ok {
			f.setting(s, entry)
			continue
		}
		if len(keysBelow(key)) > 0 {
			f.read(entry.Value, key)
			continue
		}
		f.refuse(f.place(entry.Key, key), "there is no such setting; want one of %s", strings.Join(keysBelow(path), ", "))
	}
}

func (f *configFile) setting(s setting, entry *ast.MappingValueNode) {
	nodes := []ast.Node{entry.Value}
	if list, ok := entry.Value.(*ast.SequenceNode); ok && s.list {
		nodes = list.Values
	}
	texts := make([]string, 0, len(nodes))
	for _, node := range nodes {
		text, ok := scalar(node)
		if !ok {
			hint := ""
			if _, mapping := node.(*ast.MappingNode); mapping {
				hint = "; a text with a colon stands in quotes"
			}
			f.refuse(f.place(entry.Key, s.key), "want %s, got %s%s", s.want, kindOf(node), hint)
			return
		}
		texts = append(texts, text)
	}
	if s.list && len(nodes) == 1 {
		texts = s.texts(texts[0])
	}
	if value, ok := f.judge(s, f.place(entry.Key, s.key), texts); ok {
		f.values[s.key] = value
	}
}

// keysBelow lists the next words of the settings below a path.
func keysBelow(path string) []string {
	var keys []string
	for _, s := range settings() {
		rest := s.key
		if path != "" {
			var below bool
			if rest, below = strings.CutPrefix(s.key, path+"."); !below {
				continue
			}
		}
		word, _, _ := strings.Cut(rest, ".")
		if len(keys) == 0 || keys[len(keys)-1] != word {
			keys = append(keys, word)
		}
	}
	return keys
}

// scalar gives the text of a plain value, as it is written.
func scalar(node ast.Node) (text string, ok bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func kindOf(node ast.Node) string {
	switch node.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	if _, ok := scalar(node); ok {
		return "one value"
	}
	return "an anchor, alias or tag"
}

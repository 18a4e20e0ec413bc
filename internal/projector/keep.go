package projector

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Keep is one path whose values the agent may see. In a policy it is written as
// the path alone, or as {path: items[].id, as: item}.
type Keep struct {
	Path string `yaml:"path,short"`
	// As is the name that the member at the end of the path gets in the result;
	// empty leaves its own.
	As string `yaml:"as"`
}

// KeepPaths keeps paths under their own names.
func KeepPaths(paths ...string) []Keep {
	kept := make([]Keep, len(paths))
	for i, p := range paths {
		kept[i].Path = p
	}
	return kept
}

// parseKeep reads the option keep and reports what is wrong in it.
func parseKeep(kept []Keep, wrong *FieldErrors) []path {
	if kept != nil && len(kept) == 0 {
		wrong.add("keep", "want at least one path, or no keep at all to keep everything, got an empty list")
	}
	if len(kept) > MaxPaths {
		wrong.add("keep", "want at most %d paths, got %d", MaxPaths, len(kept))
		return nil
	}
	paths := make([]path, 0, len(kept))
	results := map[string]bool{} // by place and name: whether the name was given with as
	for i, k := range kept {
		field := fmt.Sprintf("keep[%d]", i)
		p, err := parsePath(k.Path)
		if err != nil {
			wrong.add(field, "%v", err)
			continue
		}
		last := &p[len(p)-1]
		name := last.name
		if k.As != "" {
			if err := checkAs(k.As, last); err != nil {
				wrong.add(field+".as", "%v", err)
				continue
			}
			last.as, name = k.As, k.As
		}
		// Of two kept members that would get one name only one could stand.
		key := fmt.Sprintf("%v %d %q", []step(p[:len(p)-1]), last.kind, name)
		if renamed, taken := results[key]; taken && (renamed || k.As != "") {
			wrong.add(field, "want a name of its own in the result, got a second %.80q in the same place", name)
		}
		results[key] = results[key] || k.As != ""
		paths = append(paths, p)
	}
	return paths
}

func checkAs(as string, last *step) error {
	switch {
	case last.kind != stepMember:
		return fmt.Errorf("want a path that ends in a member's name, which can be another, got one that ends in [] or *")
	case len(as) > MaxPathBytes:
		return fmt.Errorf("want a name of 1 to %d bytes, got %d", MaxPathBytes, len(as))
	case !utf8.ValidString(as) || strings.ContainsFunc(as, unicode.IsControl):
		return fmt.Errorf("want a name without control characters, got %.80q", as)
	}
	return nil
}

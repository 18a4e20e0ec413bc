package projector

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// walk copies one JSON value token by token into a result, without what may
// not be in it. The value has been read once as strict JSON.
type walk struct {
	m   *meter
	dec *jsontext.Decoder

	maxItems, maxText, maxDepth, maxBytes int

	out    []byte
	left   leftOut
	kept   bool   // something of the value is in out
	bytes  int    // of the value, which each pass reads
	active []path // stack of what is left of the paths, one stretch a level
}

func newWalk(b *bounds, m *meter, value jsontext.Value, items, bytes int) *walk {
	return &walk{
		m: m, dec: again(value), bytes: len(value),
		maxItems: items, maxText: b.text, maxDepth: b.depth, maxBytes: bytes,
		out: make([]byte, 0, min(len(value)+64, bytes+256)),
	}
}

// root copies the whole value, or what the paths keep of it.
func (w *walk) root(keep []path) error {
	if err := w.m.pass(w.bytes); err != nil {
		return err
	}
	all := len(keep) == 0
	if !all && !leads(keep, w.dec.PeekKind()) {
		return errNothingKept
	}
	if err := w.value(keep, all); err != nil {
		return err
	}
	if !w.kept {
		return errNothingKept
	}
	return nil
}

// leads reports whether one of the paths goes on into a value of that kind.
func leads(paths []path, kind jsontext.Kind) bool {
	for _, p := range paths {
		if (p[0].kind == stepItems && kind == '[') || (p[0].kind != stepItems && kind == '{') {
			return true
		}
	}
	return false
}

// value copies the next value. With all it keeps everything in it; otherwise it
// is an object or list into which one of the paths leads.
func (w *walk) value(paths []path, all bool) error {
	if len(w.out) > w.maxBytes {
		return errOver
	}
	if err := w.m.spend(1); err != nil {
		return err
	}
	switch w.dec.PeekKind() {
	case '{':
		return w.object(paths, all)
	case '[':
		return w.list(paths, all)
	case '"':
		w.kept = true
		token, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		w.out = w.left.appendText(w.out, token.String(), w.maxText)
		return nil
	}
	literal, err := w.dec.ReadValue()
	if err != nil {
		return err
	}
	w.kept = true
	w.out = append(w.out, literal...)
	return checkNumber(literal)
}

func (w *walk) object(paths []path, all bool) error {
	if err := w.open('{'); err != nil {
		return err
	}
	w.kept = w.kept || w.dec.PeekKind() == '}' // that it is empty is something
	var taken map[string]bool                  // names in the result; kept where one of them is not its own
	if renames(paths) {
		taken = map[string]bool{}
	}
	for first := true; w.dec.PeekKind() != '}'; {
		token, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		base := len(w.active)
		end, as := w.follow(paths, step{kind: stepMember, name: name})
		if as != "" {
			name = as
		}
		if err := w.member(name, w.active[base:], all || end, &first, taken); err != nil {
			return err
		}
		w.active = w.active[:base]
	}
	return w.close('}')
}

// renames reports whether one of the paths ends in the next step under another
// name.
func renames(paths []path) bool {
	for _, p := range paths {
		if len(p) == 1 && p[0].as != "" {
			return true
		}
	}
	return false
}

// member copies one member whose name has been read, or leaves it out.
func (w *walk) member(name string, paths []path, all bool, first *bool, taken map[string]bool) error {
	if !all && !leads(paths, w.dec.PeekKind()) {
		return w.skip()
	}
	if len(name) > w.maxText {
		return fmt.Errorf("raw response: want member names of at most max_string %d bytes, got one of %d", w.maxText, len(name))
	}
	if taken != nil {
		if taken[name] {
			return fmt.Errorf("raw response: want no member that has the name which keep gives another one in the same object")
		}
		taken[name] = true
	}
	w.comma(first)
	var err error
	if w.out, err = jsontext.AppendQuote(w.out, name); err != nil {
		return err
	}
	w.out = append(w.out, ':')
	return w.value(paths, all)
}

func (w *walk) list(paths []path, all bool) error {
	if err := w.open('['); err != nil {
		return err
	}
	w.kept = w.kept || w.dec.PeekKind() == ']'
	base := len(w.active)
	end, _ := w.follow(paths, step{kind: stepItems})
	into := w.active[base:]
	all = all || end
	for n, first := 0, true; w.dec.PeekKind() != ']'; n++ {
		var err error
		switch {
		case n >= w.maxItems:
			w.left[leftItems]++
			err = w.dec.SkipValue()
		case !all && !leads(into, w.dec.PeekKind()):
			err = w.skip()
		default:
			w.comma(&first)
			err = w.value(into, all)
		}
		if err != nil {
			return err
		}
	}
	w.active = w.active[:base]
	return w.close(']')
}

// pathsPerStep is how many paths are compared in the time of one step.
const pathsPerStep = 8

// follow pushes what is left of the paths after that step, and reports whether
// one of them ends there and which name it gives.
func (w *walk) follow(paths []path, to step) (end bool, as string) {
	w.m.left -= int64(len(paths) / pathsPerStep) // the next value finds it spent
	for _, p := range paths {
		head := p[0]
		if (head.kind != to.kind || head.name != to.name) && (head.kind != stepAnyMember || to.kind != stepMember) {
			continue
		}
		if len(p) > 1 {
			w.active = append(w.active, p[1:])
			continue
		}
		end = true
		if as == "" {
			as = head.as
		}
	}
	return end, as
}

func (w *walk) open(bracket byte) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	if w.dec.StackDepth() > w.maxDepth {
		return fmt.Errorf("raw response: want at most max_depth %d levels, got more", w.maxDepth)
	}
	w.out = append(w.out, bracket)
	return nil
}

func (w *walk) close(bracket byte) error {
	w.out = append(w.out, bracket)
	_, err := w.dec.ReadToken()
	return err
}

func (w *walk) comma(first *bool) {
	if !*first {
		w.out = append(w.out, ',')
	}
	*first = false
}

// skip leaves out a value that no path keeps.
func (w *walk) skip() error {
	w.left[leftPaths]++
	if err := w.m.spend(1); err != nil {
		return err
	}
	return w.dec.SkipValue()
}

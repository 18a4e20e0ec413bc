package projector

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// walk copies one JSON value token by token into a result, without what may
// not be in it. The value has been read once as strict JSON.
type walk struct {
	*jsonProjector
	dec      *jsontext.Decoder
	maxItems int
	out      []byte
	left     leftOut
	kept     bool   // something of the value is in out
	active   []path // stack of what is left of the paths, one stretch a level
}

func newWalk(p *jsonProjector, value []byte, items int) *walk {
	return &walk{
		jsonProjector: p,
		dec:           jsontext.NewDecoder(bytes.NewBuffer(value), jsontext.AllowDuplicateNames(true)),
		maxItems:      items,
		out:           make([]byte, 0, min(len(value)+64, p.bytes+256)),
	}
}

// root copies the whole value, or what the paths keep of it.
func (w *walk) root(keep []path) error {
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
	if len(w.out) > w.bytes {
		return errOver
	}
	switch w.dec.PeekKind() {
	case '{':
		return w.object(paths, all)
	case '[':
		return w.list(paths, all)
	case '"':
		w.kept = true
		return w.text()
	}
	literal, err := w.dec.ReadValue()
	if err != nil {
		return err
	}
	if len(literal) > maxNumber {
		return fmt.Errorf("raw response: want numbers of at most %d bytes, got one of %d", maxNumber, len(literal))
	}
	w.kept = true
	w.out = append(w.out, literal...)
	return nil
}

func (w *walk) object(paths []path, all bool) error {
	if err := w.open('{'); err != nil {
		return err
	}
	w.kept = w.kept || w.dec.PeekKind() == '}' // that it is empty is something
	for first := true; w.dec.PeekKind() != '}'; {
		token, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		base := len(w.active)
		end := w.follow(paths, step{kind: stepMember, name: name})
		if err := w.member(name, w.active[base:], all || end, &first); err != nil {
			return err
		}
		w.active = w.active[:base]
	}
	return w.close('}')
}

// member copies one member whose name has been read, or leaves it out.
func (w *walk) member(name string, paths []path, all bool, first *bool) error {
	if !all && !leads(paths, w.dec.PeekKind()) {
		return w.skip()
	}
	if len(name) > w.jsonProjector.text {
		return fmt.Errorf("raw response: want member names of at most max_string %d bytes, got one of %d", w.jsonProjector.text, len(name))
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
	end := w.follow(paths, step{kind: stepItems})
	into := w.active[base:]
	all = all || end
	for n, first := 0, true; w.dec.PeekKind() != ']'; n++ {
		var err error
		switch {
		case n >= w.maxItems:
			w.left.items++
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

// follow pushes what is left of the paths after that step, and reports whether
// one of them ends there.
func (w *walk) follow(paths []path, to step) (end bool) {
	for _, p := range paths {
		head := p[0]
		if head != to && (head.kind != stepAnyMember || to.kind != stepMember) {
			continue
		}
		if len(p) == 1 {
			end = true
		} else {
			w.active = append(w.active, p[1:])
		}
	}
	return end
}

func (w *walk) open(bracket byte) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	if w.dec.StackDepth() > w.depth {
		return fmt.Errorf("raw response: want at most max_depth %d levels, got more", w.depth)
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
	w.left.paths++
	return w.dec.SkipValue()
}

// text copies a string, cut where it is too long.
func (w *walk) text() error {
	token, err := w.dec.ReadToken()
	if err != nil {
		return err
	}
	s := token.String()
	if limit := w.jsonProjector.text; len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
		w.left.strings++
	}
	w.out, err = jsontext.AppendQuote(w.out, s)
	return err
}

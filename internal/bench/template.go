package bench

import (
	"bytes"
	"strconv"

	"github.com/nats-io/nats.go"
)

// slot is a place in a recorded text where something else is put in.
type slot uint8

const (
	slotNone     slot = iota
	slotRun           // the run
	slotCall          // the tool call id
	slotSequence      // run, dot and sequence of the call's tool.reserved
)

// piece is a literal text and the slot that follows it.
type piece struct {
	text string
	then slot
}

// template is a recorded text with its slots.
type template []piece

// values is what is put into the slots.
type values struct{ run, call, dispatch string }

// newTemplate finds the run, the call and the dispatch of the recipe in a text.
func (r recipe) newTemplate(text []byte) template {
	marks := []struct {
		mark string
		slot slot
	}{
		{r.Run + "." + strconv.FormatUint(r.Sequence, 10), slotSequence}, // before the run alone
		{r.Run, slotRun}, {r.Call, slotCall},
	}
	var t template
	for {
		at, found, length := len(text), slotNone, 0
		for _, m := range marks {
			if i := bytes.Index(text, []byte(m.mark)); i >= 0 && i < at {
				at, found, length = i, m.slot, len(m.mark)
			}
		}
		if at > 0 || found != slotNone || len(t) == 0 {
			t = append(t, piece{string(text[:at]), found})
		}
		if found == slotNone {
			return t
		}
		text = text[at+length:]
	}
}

// plain tells that nothing is to be put in.
func (t template) plain() bool { return len(t) == 1 && t[0].then == slotNone }

func (t template) append(b []byte, v values) []byte {
	for _, p := range t {
		b = append(b, p.text...)
		switch p.then {
		case slotRun:
			b = append(b, v.run...)
		case slotCall:
			b = append(b, v.call...)
		case slotSequence:
			b = append(b, v.dispatch...)
		case slotNone:
		}
	}
	return b
}

// messageTemplate makes a recorded message again and again in the same place.
type messageTemplate struct {
	subject template
	data    template
	headers []headerTemplate
	msg     *nats.Msg
	buffer  []byte
	expect  []string // the value of the header that fences it
}

type headerTemplate struct {
	value    []string // within the header
	template template
}

// headerExpectLast fences a message; its value is put in anew each time.
const headerExpectLast = "Nats-Expected-Last-Subject-Sequence"

func (r recipe) newMessage(m message) *messageTemplate {
	t := &messageTemplate{
		subject: r.newTemplate([]byte(m.Subject)), data: r.newTemplate(m.Data),
		msg: &nats.Msg{Header: nats.Header{}},
	}
	for name, recorded := range m.Header {
		value := []string{recorded[0]}
		t.msg.Header[name] = value
		if name == headerExpectLast {
			t.expect = value
			continue
		}
		if text := r.newTemplate([]byte(recorded[0])); !text.plain() {
			t.headers = append(t.headers, headerTemplate{value, text})
		}
	}
	return t
}

// with gives the message for a call. It stands until it is made again.
func (t *messageTemplate) with(v values, reply string, expect uint64) *nats.Msg {
	t.msg.Subject = string(t.subject.append(t.buffer[:0], v))
	t.msg.Reply = reply
	for _, h := range t.headers {
		t.buffer = h.template.append(t.buffer[:0], v)
		h.value[0] = string(t.buffer)
	}
	if t.expect != nil {
		t.expect[0] = strconv.FormatUint(expect, 10)
	}
	t.buffer = t.data.append(t.buffer[:0], v)
	t.msg.Data = t.buffer
	return t.msg
}

// commandTemplate makes the arguments of a recorded command again.
type commandTemplate struct {
	args  []any // what is plain stands in it
	slots []argument
}

type argument struct {
	at       int
	template template
}

func (r recipe) newCommands(commands []command) []commandTemplate {
	out := make([]commandTemplate, len(commands))
	for i, c := range commands {
		for at, arg := range c {
			t := r.newTemplate(arg)
			if t.plain() {
				out[i].args = append(out[i].args, arg)
				continue
			}
			out[i].args = append(out[i].args, nil)
			out[i].slots = append(out[i].slots, argument{at, t})
		}
	}
	return out
}

func (t commandTemplate) with(v values) []any {
	args := make([]any, len(t.args))
	copy(args, t.args)
	for _, s := range t.slots {
		args[s.at] = s.template.append(nil, v)
	}
	return args
}

package golden

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"runledger/internal/events"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// TestWhatANewerVersionWroteIsHeldAndLeftAsItIs has a part of a recording say
// that a newer version wrote it: the run's events wait, and nothing is decided,
// kept as dead or written.
func TestWhatANewerVersionWroteIsHeldAndLeftAsItIs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *recording)
		want   string

		inStore bool // the store holds what was recorded, or nothing
	}{
		{"a fact by newer rules", func(r *recording) {
			lastOfRun(r.streams[stream.StreamRuns], "open").Header.Set("ce-rulesversion", "2")
		}, `rules version: want "1", got "2"`, false},
		{"a fact of a newer kind", func(r *recording) {
			m := lastOfRun(r.streams[stream.StreamRuns], "open")
			m.Subject = strings.Replace(m.Subject, ".tool.reserved", ".tool.postponed", 1)
		}, `kind "tool.postponed"`, false},
		{"a policy of a newer form", func(r *recording) {
			m := &r.streams[streamPolicies][0]
			m.Data = bytes.Replace(m.Data, []byte("version: 1"), []byte("version: 2"), 1)
		}, "version: want 1, got 2", false},
		{"a run of a newer layout", func(r *recording) { r.field("runledger.run:{open}", "v", "2") }, "layout of the store: want version 1, got 2", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := readRecording(t, "v1")
			c.change(&r)
			w := openRecording(t, r, c.inStore)
			w.streams.add(stream.StreamIn, &nats.Msg{
				Subject: "harness.v1.part.0.in.agent.alice.open.run.finish", Data: []byte(`{"run_id":"open","outcome":"SUCCESS"}`),
				Header: nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"later"}, "ce-source": {"/golden"}, "ce-type": {"harness.run.finish.v1"}},
			})
			in := w.streams.messages[stream.StreamIn]
			facts, dead := len(w.streams.messages[stream.StreamRuns]), len(w.streams.messages[stream.StreamInvalid])
			err := w.worker.Step(context.Background(), in[len(in)-1:])
			if !errors.Is(err, events.ErrNewer) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to be held, and to say %q", err, c.want)
			}
			if len(w.streams.messages[stream.StreamRuns]) != facts || len(w.streams.messages[stream.StreamInvalid]) != dead {
				t.Error("want nothing published")
			}
		})
	}
}

func lastOfRun(messages []stream.Message, run string) *stream.Message {
	return last(messages, "harness.v1.fact.*."+run+".>")
}

// field changes one field of a recorded key.
func (r *recording) field(key, field, value string) {
	for _, k := range r.keys {
		if k.Key == key {
			k.Hash[field] = []byte(value)
		}
	}
}

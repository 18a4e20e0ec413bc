package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// hand publishes events as a person would, with a plain client and headers
// written by hand, and follows what is republished.
type hand struct {
	nc    *nats.Conn
	facts *nats.Subscription
	next  int
}

func newHand(t *testing.T, w *world) *hand {
	t.Helper()
	nc := w.nats.Conn(t)
	facts, err := nc.SubscribeSync("harness.v1.run.me.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return &hand{nc: nc, facts: facts}
}

func (h *hand) publish(t *testing.T, subject, eventType, data string) {
	t.Helper()
	h.next++
	msg := &nats.Msg{Subject: "harness.v1.in." + subject, Data: []byte(data), Header: nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"h" + strconv.Itoa(h.next)}, "ce-source": {"/hand"}, "ce-type": {eventType},
	}}
	if _, err := h.nc.RequestMsg(msg, 5*time.Second); err != nil {
		t.Fatalf("publish %s: %v", subject, err)
	}
}

// start starts a run that has this long.
func (h *hand) start(t *testing.T, run string, lasts time.Duration) (deadline time.Time) {
	t.Helper()
	deadline = time.Now().Add(lasts).UTC().Truncate(time.Millisecond)
	h.publish(t, "agent.me."+run+".run.start", "harness.run.start.v1", fmt.Sprintf(
		`{"run_id":%q,"session_id":"s","deadline":%q,"limits":{"model_calls":9,"tool_calls":9,"calls_per_tool":9,"input_tokens":9,"output_tokens":9,"total_tokens":9,"run_bytes":99999}}`,
		run, deadline.Format(time.RFC3339Nano)))
	h.await(t, "run.started")
	return deadline
}

// seen is a fact as a follower sees it.
type seen struct {
	at       time.Time // of the decision
	arrived  time.Time
	sequence string
	data     map[string]any
	raw      []byte
}

// await takes facts until one of the kind comes.
func (h *hand) await(t *testing.T, kind string) seen {
	t.Helper()
	for {
		msg, err := h.facts.NextMsg(15 * time.Second)
		if err != nil {
			t.Fatalf("wait for %s: %v", kind, err)
		}
		if msg.Header.Get("ce-type") != "harness."+kind+".v1" {
			continue
		}
		f := seen{arrived: time.Now(), sequence: msg.Header.Get("ce-sequence"), raw: msg.Data}
		if f.at, err = time.Parse(time.RFC3339Nano, msg.Header.Get("ce-time")); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(msg.Data, &f.data); err != nil {
			t.Fatal(err)
		}
		return f
	}
}

package e2e

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"runledger/internal/policy"

	"github.com/nats-io/nats.go"
)

// TestWhatIsHostileToOneRunDoesNotHoldItsPartition does one hostile thing to a
// run at a time, and then requires that this very run still ends as asked: what
// follows in its partition is decided.
func TestWhatIsHostileToOneRunDoesNotHoldItsPartition(t *testing.T) {
	w := newWorld(t, policy.Airline())
	w.serve(t, "one")
	h := newHand(t, w)
	limit := int(h.nc.MaxPayload())
	raw := func(subject string, header nats.Header, body []byte) {
		if err := h.nc.PublishMsg(&nats.Msg{Subject: "harness.v1.in." + subject, Header: header, Data: body}); err != nil {
			t.Fatal(err)
		}
	}
	for name, act := range map[string]func(run string){
		"a body of the largest size": func(run string) {
			raw("agent.me."+run+".tool.call", nil, bytes.Repeat([]byte("x"), limit))
		},
		"headers of almost the largest size": func(run string) {
			header := nats.Header{}
			for i := range 60 {
				header.Set(fmt.Sprintf("X-%d", i), strings.Repeat("h", 1070))
			}
			raw("agent.me."+run+".tool.call", header, []byte("{}"))
		},
		"a status header": func(run string) {
			raw("agent.me."+run+".tool.call", nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}, nil)
		},
		"a colon in a tool call id": func(run string) {
			h.publish(t, "agent.me."+run+".tool.call", "harness.tool.call.v1",
				fmt.Sprintf(`{"run_id":%q,"tool_call_id":"toolu:1","tool":"calculate","arguments":{"expression":"1"}}`, run))
			if got := h.await(t, "tool.rejected"); got.data["code"] != "INVALID_TOOL_CALL_ID" {
				t.Errorf("a colon: got %v, want INVALID_TOOL_CALL_ID", got.data)
			}
		},
		"headers that are none": func(run string) {
			malformed(t, w, run)
			h.await(t, "tool.reserved")
		},
	} {
		run := strings.ReplaceAll(name, " ", "-")
		h.start(t, run, time.Minute)
		act(run)
		h.publish(t, "agent.me."+run+".run.finish", "harness.run.finish.v1", fmt.Sprintf(`{"run_id":%q,"outcome":"SUCCESS"}`, run))
		if ended := h.await(t, "run.terminated"); ended.data["outcome"] != "SUCCESS" {
			t.Errorf("%s: got %v, want SUCCESS", name, ended.data)
		}
	}
	if err := redisClient(t, w).FlushAll(t.Context()).Err(); err != nil { // every run must be read again, malformed events too
		t.Fatal(err)
	}
	h.publish(t, "agent.me.headers-that-are-none.run.cancel", "harness.run.cancel.v1", `{"run_id":"headers-that-are-none","reason":"USER_REQUESTED"}`)
	if got := h.await(t, "run.rejected"); got.data["code"] != "RUN_NOT_ACTIVE" {
		t.Errorf("after a flush: got %v, want RUN_NOT_ACTIVE", got.data)
	}
}

// malformed publishes a structured tool.call with a header block that no client
// reads, as only somebody can who speaks the protocol by hand.
func malformed(t *testing.T, w *world, run string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.nats.URL, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	header := "NATS/1.0\r\nno colon here\r\n\r\n"
	body := fmt.Sprintf(`{"specversion":"1.0","id":"m","source":"/me","type":"harness.tool.call.v1","data":{"run_id":%q,"tool_call_id":"c","tool":"calculate","arguments":{"expression":"1"}}}`, run)
	_, err = fmt.Fprintf(conn, "CONNECT {\"headers\":true,\"verbose\":false}\r\nHPUB harness.v1.in.agent.me.%s.tool.call %d %d\r\n%s%s\r\nPING\r\n",
		run, len(header), len(header)+len(body), header, body)
	if err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for got := ""; !strings.Contains(got, "PONG"); {
		n, err := conn.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		got += string(answer[:n])
	}
}

func TestARunWhoseListHoldsSomethingElseIsGivenUpAndItsCallTimesOut(t *testing.T) {
	w := newWorld(t, []byte(tellingPolicy))
	w.serve(t, "one")
	h := newHand(t, w)
	client := redisClient(t, w)
	h.start(t, "v", time.Minute)
	if err := client.Set(t.Context(), "runledger.done:{v}", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	h.publish(t, "agent.me.v.tool.call", "harness.tool.call.v1", `{"run_id":"v","tool_call_id":"c","tool":"slow","arguments":{}}`)
	if settled := h.await(t, "tool.settled"); settled.data["code"] != "TOOL_TIMEOUT" {
		t.Errorf("got %v, want TOOL_TIMEOUT: it was never dispatched", settled.data)
	}
	h.publish(t, "agent.me.v.run.finish", "harness.run.finish.v1", `{"run_id":"v","outcome":"SUCCESS"}`)
	h.await(t, "run.ending")
	h.publish(t, "agent.me.v.tool.call", "harness.tool.call.v1", `{"run_id":"v","tool_call_id":"d","tool":"slow","arguments":{}}`)
	if got := h.await(t, "tool.rejected"); got.data["code"] != "INTERNAL_ERROR" {
		t.Errorf("got %v, want INTERNAL_ERROR", got.data)
	}
	if err := client.Del(t.Context(), "runledger.done:{v}").Err(); err != nil {
		t.Fatal(err)
	}
	h.publish(t, "agent.me.v.tool.call", "harness.tool.call.v1", `{"run_id":"v","tool_call_id":"e","tool":"slow","arguments":{}}`)
	if ended := h.await(t, "run.terminated"); ended.data["outcome"] != "SUCCESS" {
		t.Errorf("after the key was mended: got %v, want SUCCESS", ended.data)
	}
}

func TestARunThatIsNoticedAfterItsRecordsExpiredEnds(t *testing.T) {
	short := strings.Replace(tellingPolicy, "ttl: 10m", "ttl: 1s", 1)
	w := newWorld(t, []byte(short))
	one := w.serve(t, "one")
	h := newHand(t, w)
	h.start(t, "late", 1500*time.Millisecond)
	if err := one.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	client := redisClient(t, w)
	eventually(t, "the run to expire", func() bool { return client.Exists(t.Context(), "runledger.run:{late}").Val() == 0 })
	w.serve(t, "one")
	if ended := h.await(t, "run.terminated"); ended.data["outcome"] != "TIMED_OUT" {
		t.Errorf("got %v, want TIMED_OUT", ended.data)
	}
}

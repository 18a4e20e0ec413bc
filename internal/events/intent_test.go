package events_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
)

// The HTTP binding of the CloudEvents SDK has the same header names as the NATS
// binding, and stands here for what other people's programs read and write.

func TestAnIntentIsEncodedExactlyLikeThis(t *testing.T) {
	intent := events.NewIntent(events.VerbToolCall, "e 1", "/agents/alice?x=\"1\"", time.Date(2026, 1, 1, 13, 0, 0, 120_000_000, time.FixedZone("", 3600)), []byte(callData))
	intent.SetExtension("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	intent.SetExtension("attempt", 2)
	intent.SetSubject("é%")
	header, data, err := events.EncodeBinary(intent)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"ce-attempt":         {"2"},
		"ce-datacontenttype": {"application/json"},
		"ce-id":              {"e%201"},
		"ce-source":          {"/agents/alice?x=%221%22"},
		"ce-specversion":     {"1.0"},
		"ce-subject":         {"%C3%A9%25"},
		"ce-time":            {"2026-01-01T12:00:00.12Z"},
		"ce-traceparent":     {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"ce-type":            {"harness.tool.call.v1"},
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if string(data) != callData {
		t.Errorf("data became %s", data)
	}
	in, err := decodeCall(t, header, string(data))
	if err != nil || in.Problem != nil {
		t.Fatalf("%v, %+v", err, in)
	}
	if in.ID != "e 1" || in.Source != "/agents/alice?x=\"1\"" {
		t.Errorf("came back as id %q, source %q", in.ID, in.Source)
	}
}

func TestAnEventThatLacksSomethingIsNotEncoded(t *testing.T) {
	for name, change := range map[string]func(*cloudevents.Event){
		"id":     func(e *cloudevents.Event) { e.SetID("") },
		"source": func(e *cloudevents.Event) { e.SetSource("") },
		"type":   func(e *cloudevents.Event) { e.SetType("") },
		"schema": func(e *cloudevents.Event) { e.SetDataSchema("::") },
	} {
		intent := events.NewIntent(events.VerbToolCall, "e1", "/agents/alice", takenAt, []byte("{}"))
		change(&intent)
		if header, _, err := events.EncodeBinary(intent); err == nil {
			t.Errorf("without %s: encoded as %v", name, header)
		}
	}
}

func TestTheSDKReadsWhatWeEncode(t *testing.T) {
	intent := events.NewIntent(events.VerbToolCall, "e1", "/agents/alice", takenAt, []byte(callData))
	intent.SetExtension("team", "red")
	intent.SetDataSchema("urn:runledger:schema:harness.tool.call.v1")
	header, data, err := events.EncodeBinary(intent)
	if err != nil {
		t.Fatal(err)
	}
	sdkHeader := http.Header{}
	for key, values := range header {
		if key == "ce-datacontenttype" {
			key = "content-type" // HTTP has a header of its own for it
		}
		sdkHeader.Set(key, values[0])
	}
	got, err := binding.ToEvent(context.Background(), cehttp.NewMessage(sdkHeader, io.NopCloser(bytes.NewReader(data))))
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]string{
		"id":          {got.ID(), "e1"},
		"source":      {got.Source(), "/agents/alice"},
		"type":        {got.Type(), "harness.tool.call.v1"},
		"time":        {got.Time().Format(time.RFC3339), "2026-01-01T12:00:00Z"},
		"contenttype": {got.DataContentType(), "application/json"},
		"schema":      {got.DataSchema(), "urn:runledger:schema:harness.tool.call.v1"},
		"team":        {got.Extensions()["team"].(string), "red"},
		"data":        {string(got.Data()), callData},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %q, want %q", what, pair[0], pair[1])
		}
	}
}

func TestTheSDKReadsAFactAndADispatch(t *testing.T) {
	fact := factOf(&events.RunEnding{Outcome: events.OutcomeSuccess, Reason: "R"})
	fact.Cause.ID = "e1" // the SDK does not undo percent-encoding
	encoded, err := fact.Encode()
	if err != nil {
		t.Fatal(err)
	}
	dispatchHeader, dispatchData := events.EncodeDispatch("alice", someDispatch(`{}`), decidedAt, fact.Cause)
	for _, m := range []struct {
		header map[string][]string
		data   []byte
		id     string
	}{{encoded.Header, encoded.Data, "r1.3"}, {dispatchHeader, dispatchData, "r1.2"}} {
		sdkHeader := http.Header{}
		for key, values := range m.header {
			if key == "ce-datacontenttype" {
				key = "content-type"
			}
			sdkHeader.Set(key, values[0])
		}
		got, err := binding.ToEvent(context.Background(), cehttp.NewMessage(sdkHeader, io.NopCloser(bytes.NewReader(m.data))))
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Validate(); err != nil || got.ID() != m.id || !bytes.Equal(got.Data(), m.data) {
			t.Errorf("%s: %v, read as %s", m.id, err, got)
		}
	}
}

func TestWeReadWhatTheSDKWritesInBothModes(t *testing.T) {
	intent := events.NewIntent(events.VerbToolCall, "e1", "/agents/alice", takenAt, []byte(callData))
	intent.SetExtension("attempt", 2)
	intent.SetExtension("last", true)

	for name, with := range map[string]func(context.Context) context.Context{
		"binary": binding.WithForceBinary, "structured": binding.WithForceStructured,
	} {
		request, err := http.NewRequest(http.MethodPost, "http://nowhere.invalid", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := cehttp.WriteRequest(with(context.Background()), binding.ToMessage(&intent), request); err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Fatal(err)
		}
		in, err := decodeCall(t, request.Header, string(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(wantCall(), in); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

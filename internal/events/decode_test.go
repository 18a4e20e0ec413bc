package events_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
)

const (
	callSubject = "harness.v1.part.5.in.agent.alice.r1.tool.call"
	callData    = `{"run_id":"r1","tool_call_id":"c1","tool":"search","arguments":{"q":"x"}}`
)

var takenAt = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// header is a well-formed binary mode header of a tool.call; change mends it
// into what a test needs.
func header(change map[string][]string) map[string][]string {
	h := map[string][]string{
		"ce-specversion":     {"1.0"},
		"ce-id":              {"e1"},
		"ce-source":          {"/agents/alice"},
		"ce-type":            {"harness.tool.call.v1"},
		"ce-datacontenttype": {"application/json"},
	}
	for key, values := range change {
		if values == nil {
			delete(h, key)
		} else {
			h[key] = values
		}
	}
	return h
}

func decodeCall(tb testing.TB, h map[string][]string, data string) (*events.Inbound, error) {
	tb.Helper()
	return events.Decode(wire(tb), events.Message{Subject: callSubject, Header: h, Data: []byte(data), Sequence: 7, Time: takenAt})
}

// structured is a structured mode body with these members after the mandatory
// ones.
func structured(members string) string {
	return `{"specversion":"1.0","id":"e1","source":"/agents/alice","type":"harness.tool.call.v1"` + members + `}`
}

// wantCall is what every lenient form of the same event must decode to.
func wantCall() *events.Inbound {
	return &events.Inbound{
		Address:  events.Address{Role: "agent", Principal: "alice", Run: "r1", Verb: "tool.call"},
		Sequence: 7, Time: takenAt, ID: "e1", Source: "/agents/alice", Data: []byte(callData),
		Payload: &events.ToolCall{RunID: "r1", ToolCallID: "c1", Tool: "search", Arguments: []byte(`{"q":"x"}`)},
	}
}

func TestOneEventDecodesAlikeInEveryFormThatClientsSend(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(callData))
	body := structured(`,"data":` + callData)
	for name, m := range map[string]struct {
		header map[string][]string
		data   string
	}{
		"binary":                              {header(nil), callData},
		"binary, canonical MIME names":        {map[string][]string{"Ce-Specversion": {"1.0"}, "Ce-Id": {"e1"}, "Ce-Source": {"/agents/alice"}, "Ce-Type": {"harness.tool.call.v1"}, "Content-Type": {"application/json"}}, callData},
		"binary, upper case names":            {map[string][]string{"CE-SPECVERSION": {"1.0"}, "CE-ID": {"e1"}, "CE-SOURCE": {"/agents/alice"}, "CE-TYPE": {"harness.tool.call.v1"}}, callData},
		"binary, content-type instead":        {header(map[string][]string{"ce-datacontenttype": nil, "content-type": {"application/json"}}), callData},
		"binary, content-type with a charset": {header(map[string][]string{"ce-datacontenttype": {"Application/JSON ; charset=utf-8"}}), callData},
		"binary, a +json content type":        {header(map[string][]string{"ce-datacontenttype": {"application/vnd.acme+json"}}), callData},
		"binary, no content type at all":      {header(map[string][]string{"ce-datacontenttype": nil}), callData},
		"binary, with foreign headers":        {header(map[string][]string{"Nats-Msg-Id": {"a", "b"}, "X-Trace": {"%zz"}}), callData},
		"binary, an extension":                {header(map[string][]string{"ce-team": {"red"}}), callData},
		"binary, a time":                      {header(map[string][]string{"ce-time": {"2026-01-01T12:00:00.123456789+01:00"}}), callData},
		"binary, percent-encoded values":      {header(map[string][]string{"ce-id": {"%651"}, "ce-source": {"%2Fagents%2falice"}}), callData},
		"structured":                          {map[string][]string{"content-type": {"application/cloudevents+json"}}, body},
		"structured, with a charset":          {map[string][]string{"Content-Type": {" Application/CloudEvents+JSON; charset=UTF-8"}}, body},
		"structured, beside ce headers":       {map[string][]string{"content-type": {"application/cloudevents+json"}, "ce-id": {"other"}}, body},
		"structured, no content type":         {nil, body},
		"structured, foreign headers only":    {map[string][]string{"Nats-Msg-Id": {"a"}}, body},
		"structured, white space":             {nil, " \n" + strings.ReplaceAll(body, `,"id"`, "\t,\r\n \"id\"") + "\n"},
		"structured, data first":              {nil, `{"data":` + callData + `,"specversion":"1.0","id":"e1","source":"/agents/alice","type":"harness.tool.call.v1"}`},
		"structured, data_base64":             {nil, structured(`,"data_base64":"` + encoded + `"`)},
		"structured, null attributes":         {nil, structured(`,"subject":null,"time":null,"datacontenttype":null,"data":` + callData)},
		"structured, escaped names":           {nil, structured(`,"\u0064ata":` + callData)},
		"structured, other kinds of value":    {nil, structured(`,"flag":true,"number":-2147483648,"data":` + callData)},
	} {
		in, err := decodeCall(t, m.header, m.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(wantCall(), in); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestTraceContextIsPassedOnUnchanged(t *testing.T) {
	in, err := decodeCall(t, header(map[string][]string{
		"ce-traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"ce-tracestate":  {"vendor=a%20b"},
	}), callData)
	if err != nil {
		t.Fatal(err)
	}
	want := events.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "vendor=a b"}
	if in.Trace != want {
		t.Errorf("got %+v, want %+v", in.Trace, want)
	}
}

func TestATickNeedsNoEnvelope(t *testing.T) {
	in, err := events.Decode(wire(t), events.Message{Subject: "harness.v1.part.0.tick.r1", Data: []byte("anything"), Sequence: 9, Time: takenAt})
	if err != nil {
		t.Fatal(err)
	}
	want := &events.Inbound{
		Address:  events.Address{Role: "timer", Principal: "r1", Run: "r1", Verb: "tick"},
		Sequence: 9, Time: takenAt, ID: "tick",
	}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Error(diff)
	}
}

func TestDataKeepTheBytesThatWereSent(t *testing.T) {
	// What an encoder would write otherwise: order, spaces, escapes, numbers.
	arguments := "{ \"z\" : 1.0 ,\n\"a\":\t\"\\u00e9\\/é\" , \"n\": 1e400, \"m\":-0 }"
	data := "{\"tool\" :\"search\", \"arguments\" : " + arguments + " ,\"run_id\":\"r1\",\"tool_call_id\":\"c1\"}"
	encoded := base64.StdEncoding.EncodeToString([]byte(data))
	for name, m := range map[string]struct {
		header map[string][]string
		data   string
	}{
		"binary":      {header(nil), data},
		"structured":  {nil, structured(`, "data" : ` + data + " \n")},
		"data_base64": {nil, structured(`,"data_base64":"` + encoded + `"`)},
	} {
		in, err := decodeCall(t, m.header, m.data)
		if err != nil || in.Problem != nil {
			t.Errorf("%s: %v, %v", name, err, in)
			continue
		}
		if string(in.Data) != data {
			t.Errorf("%s: data became %q", name, in.Data)
		}
		if got := string(in.Payload.(*events.ToolCall).Arguments); got != arguments {
			t.Errorf("%s: arguments became %q", name, got)
		}
	}
}

func TestWhatIsNoCloudEventIsAnErrorThatSaysWhatWasWanted(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString([]byte(callData))
	for name, m := range map[string]struct {
		header map[string][]string
		data   string
		want   string // part of the error
	}{
		"no id":                     {header(map[string][]string{"ce-id": nil}), callData, "want id, source and type"},
		"empty id":                  {header(map[string][]string{"ce-id": {""}}), callData, "want id, source and type"},
		"no source":                 {header(map[string][]string{"ce-source": nil}), callData, "want id, source and type"},
		"no type":                   {header(map[string][]string{"ce-type": nil}), callData, "want id, source and type"},
		"no specversion":            {header(map[string][]string{"ce-specversion": nil}), callData, `specversion: want "1.0", got ""`},
		"specversion 0.3":           {header(map[string][]string{"ce-specversion": {"0.3"}}), callData, `specversion: want "1.0", got "0.3"`},
		"specversion 1":             {header(map[string][]string{"ce-specversion": {"1"}}), callData, "specversion"},
		"two values":                {header(map[string][]string{"ce-id": {"e1", "e2"}}), callData, `header "ce-id": want one value, got 2`},
		"no value":                  {header(map[string][]string{"ce-id": {}}), callData, `header "ce-id": want one value, got 0`},
		"name twice, other case":    {header(map[string][]string{"Ce-Id": {"e2"}}), callData, `attribute "id": want it once`},
		"name twice, same value":    {header(map[string][]string{"CE-ID": {"e1"}}), callData, `attribute "id": want it once`},
		"content-type twice":        {header(map[string][]string{"content-type": {"application/json"}, "Content-Type": {"application/json"}}), callData, "content-type: want it once"},
		"content-type, two modes":   {map[string][]string{"content-type": {"application/json"}, "Content-Type": {"application/cloudevents+json"}}, structured(""), "content-type: want it once"},
		"content-type, two values":  {header(map[string][]string{"content-type": {"application/json", "text/plain"}}), callData, "want one value, got 2"},
		"time":                      {header(map[string][]string{"ce-time": {"yesterday"}}), callData, "attribute time: want RFC 3339"},
		"time without a zone":       {header(map[string][]string{"ce-time": {"2026-01-01T12:00:00"}}), callData, "attribute time: want RFC 3339"},
		"percent, cut":              {header(map[string][]string{"ce-id": {"a%4"}}), callData, "two hexadecimal digits"},
		"percent, bare":             {header(map[string][]string{"ce-id": {"100%"}}), callData, "two hexadecimal digits"},
		"percent, no hex, first":    {header(map[string][]string{"ce-id": {"a%z4"}}), callData, "two hexadecimal digits"},
		"percent, no hex, second":   {header(map[string][]string{"ce-id": {"a%4z"}}), callData, "two hexadecimal digits"},
		"percent, no hex":           {header(map[string][]string{"ce-id": {"a%zz"}}), callData, "two hexadecimal digits"},
		"percent, overlong UTF-8":   {header(map[string][]string{"ce-id": {"%C0%AF"}}), callData, "want UTF-8"},
		"percent, half a character": {header(map[string][]string{"ce-id": {"%C3"}}), callData, "want UTF-8"},
		"percent, surrogate":        {header(map[string][]string{"ce-id": {"%ED%A0%80"}}), callData, "want UTF-8"},
		"invalid UTF-8":             {header(map[string][]string{"ce-id": {"a\xff"}}), callData, "want UTF-8"},
		"control, line feed":        {header(map[string][]string{"ce-id": {"a%0Ab"}}), callData, "control characters, got U+000A"},
		"control, NUL":              {header(map[string][]string{"ce-source": {"a%00"}}), callData, "control characters, got U+0000"},
		"control, DEL":              {header(map[string][]string{"ce-id": {"a\x7f"}}), callData, "control characters, got U+007F"},
		"control, C1":               {header(map[string][]string{"ce-id": {"a%C2%85"}}), callData, "control characters, got U+0085"},
		"name with a dash":          {header(map[string][]string{"ce-my-name": {"x"}}), callData, "attribute name: want a-z and 0-9"},
		"name with an underscore":   {header(map[string][]string{"ce-a_b": {"x"}}), callData, "attribute name: want a-z and 0-9"},
		"name empty":                {header(map[string][]string{"ce-": {"x"}}), callData, "attribute name: want 1 to 64 characters, got 0"},
		"text":                      {header(map[string][]string{"ce-datacontenttype": {"text/plain"}}), callData, "datacontenttype: want application/json"},
		"protobuf":                  {header(map[string][]string{"ce-datacontenttype": nil, "content-type": {"application/protobuf"}}), callData, "datacontenttype: want application/json"},
		"json by prefix only":       {header(map[string][]string{"ce-datacontenttype": {"application/jsonlines"}}), callData, "datacontenttype: want application/json"},
		"plain JSON":                {map[string][]string{"content-type": {"application/json"}}, callData, "and neither"},
		"a batch":                   {map[string][]string{"content-type": {"application/cloudevents-batch+json"}}, "[" + structured("") + "]", "and neither"},
		"no header, no envelope":    {nil, callData, "attribute"},
		"structured, empty":         {nil, "", "want a JSON object"},
		"structured, no JSON":       {nil, "hello", "want a JSON object"},
		"structured, a list":        {nil, "[" + structured("") + "]", "want a JSON object"},
		"structured, null":          {nil, "null", "specversion"},
		"structured, cut":           {nil, structured("")[:40], "want a JSON object"},
		"structured, twice":         {nil, structured("") + structured(""), "want a JSON object"},
		"structured, member twice":  {nil, structured(`,"id":"e2"`), "want a JSON object"},
		"structured, case":          {nil, structured(`,"ID":"e2"`), `want a-z and 0-9, got "ID"`},
		"structured, invalid UTF-8": {nil, structured(",\"x\":\"\xff\""), "want a JSON object"},
		"structured, surrogate":     {nil, structured(`,"x":"\ud800"`), "want a JSON object"},
		"structured, control":       {nil, structured(`,"x":"a\nb"`), "control characters, got U+000A"},
		"structured, number":        {nil, strings.Replace(structured(""), `"1.0"`, `1.0`, 1), "specversion"},
		"structured, float":         {nil, structured(`,"x":1.5`), "want a 32-bit integer"},
		"structured, exponent":      {nil, structured(`,"x":1e2`), "want a 32-bit integer"},
		"structured, 2^31":          {nil, structured(`,"x":2147483648`), "want a 32-bit integer"},
		"structured, -2^31-1":       {nil, structured(`,"x":-2147483649`), "want a 32-bit integer"},
		"structured, huge":          {nil, structured(`,"x":` + strings.Repeat("9", 400)), "want a 32-bit integer"},
		"structured, object":        {nil, structured(`,"x":{}`), "want a string, boolean or integer"},
		"structured, list":          {nil, structured(`,"x":[]`), "want a string, boolean or integer"},
		"structured, null id":       {nil, strings.Replace(structured(""), `"e1"`, `null`, 1), "want id, source and type"},
		"structured, no type":       {nil, `{"specversion":"1.0","id":"e1","source":"s"}`, "want id, source and type"},
		"structured, 0.3":           {nil, `{"specversion":"0.3","id":"e1","source":"s","type":"t","datacontentencoding":""}`, "specversion"},
		"structured, XML data":      {nil, structured(`,"datacontenttype":"application/xml","data":"<a/>"`), "datacontenttype"},
		"base64, a number":          {nil, structured(`,"data_base64":1`), "data_base64: want a JSON string"},
		"base64, not":               {nil, structured(`,"data_base64":"*"`), "data_base64: want standard base64"},
		"base64, URL alphabet":      {nil, structured(`,"data_base64":"-_-_"`), "data_base64: want standard base64"},
		"base64, no padding":        {nil, structured(`,"data_base64":"` + strings.TrimRight(b64+"YQ", "=") + `"`), "data_base64: want standard base64"},
		"data and data_base64":      {nil, structured(`,"data":` + callData + `,"data_base64":"` + b64 + `"`), "got both"},
	} {
		in, err := decodeCall(t, m.header, m.data)
		if err == nil {
			t.Errorf("%s: decoded as %+v", name, in)
		} else if !strings.Contains(err.Error(), m.want) {
			t.Errorf("%s: the error is %q, want it to say %q", name, err, m.want)
		}
	}
}

func TestEnvelopeLimitsAreExact(t *testing.T) {
	withHeaders := func(n int) map[string][]string {
		h := header(nil)
		for i := len(h); i < n; i++ {
			h[fmt.Sprintf("x-%d", i)] = []string{"v"}
		}
		return h
	}
	withMembers := func(n int) string {
		extra := `,"data":` + callData
		for i := 5; i < n; i++ {
			extra += fmt.Sprintf(`,"x%d":1`, i)
		}
		return structured(extra)
	}
	named := func(n int) map[string][]string {
		return header(map[string][]string{"ce-" + strings.Repeat("x", n): {"v"}})
	}
	valued := func(value string) map[string][]string { return header(map[string][]string{"ce-x": {value}}) }
	for name, m := range map[string]struct {
		header map[string][]string
		data   string
		fits   bool
	}{
		"64 headers":                          {withHeaders(64), callData, true},
		"65 headers":                          {withHeaders(65), callData, false},
		"64 members":                          {nil, withMembers(64), true},
		"65 members":                          {nil, withMembers(65), false},
		"name of 64":                          {named(64), callData, true},
		"name of 65":                          {named(65), callData, false},
		"value of 4096":                       {valued(strings.Repeat("v", 4096)), callData, true},
		"value of 4097":                       {valued(strings.Repeat("v", 4097)), callData, false},
		"value of 4096 in two-byte letters":   {valued(strings.Repeat("é", 2048)), callData, true},
		"value of 4098 in two-byte letters":   {valued(strings.Repeat("é", 2049)), callData, false},
		"value of 4096, percent-encoded":      {valued(strings.Repeat("%C3%A9", 2048)), callData, true},
		"value of 4098, percent-encoded":      {valued(strings.Repeat("%C3%A9", 2049)), callData, false},
		"structured value of 4096":            {nil, structured(`,"x":"` + strings.Repeat("v", 4096) + `","data":` + callData), true},
		"structured value of 4097":            {nil, structured(`,"x":"` + strings.Repeat("v", 4097) + `","data":` + callData), false},
		"integer 2147483647":                  {nil, structured(`,"x":2147483647,"data":` + callData), true},
		"structured, 129 levels":              {nil, structured(`,"data":` + nested(127)), false}, // the envelope is a level too
		"structured, base64 envelope is flat": {nil, structured(`,"data_base64":"` + base64.StdEncoding.EncodeToString([]byte(nested(126))) + `"`), true},
	} {
		in, err := decodeCall(t, m.header, m.data)
		if fits := err == nil; fits != m.fits {
			t.Errorf("%s: fits %v, want %v (%v)", name, fits, m.fits, err)
		} else if fits && in.Problem != nil {
			t.Errorf("%s: problem %v", name, in.Problem)
		}
	}
}

// nested is a tool.call whose arguments nest n levels below its own two.
func nested(n int) string {
	return `{"run_id":"r1","tool_call_id":"c1","tool":"search","arguments":{"a":` +
		strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
}

func TestDepthOfDataIsLimitedExactly(t *testing.T) {
	for levels, fits := range map[int]bool{1: true, 126: true, 127: false, 10_000: false, 1_000_000: false} {
		in, err := decodeCall(t, header(nil), nested(levels))
		if err != nil {
			t.Fatal(err)
		}
		if got := in.Problem == nil; got != fits {
			t.Errorf("%d levels: fits %v, want %v (%v)", levels+2, got, fits, in.Problem)
		}
	}
	brackets := `{"run_id":"r1","tool_call_id":"c1","tool":"search","arguments":{"a":"` + strings.Repeat(`[{\"`, 500) + `"}}`
	if in, err := decodeCall(t, header(nil), brackets); err != nil || in.Problem != nil {
		t.Errorf("brackets within a string are no levels: %v, %v", err, in.Problem)
	}
	after := `{"run_id":"r1","tool_call_id":"c1","tool":"search","arguments":{"b":"\\\\","a":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}}`
	if in, err := decodeCall(t, header(nil), after); err != nil || in.Problem == nil {
		t.Errorf("levels after a string that ends in an escaped backslash count: %v", err)
	}
}

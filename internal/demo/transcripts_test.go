package demo

import (
	"slices"
	"strings"
	"testing"
)

func TestOneIDForTwoCallsPairsResultsInOrder(t *testing.T) {
	line := strings.ReplaceAll(`{"run":"r","messages":[{"role":"user","content":"hi"},
{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"one","arguments":"{\"a\": 1}"}},{"id":"y","function":{"name":"two","arguments":"{"}}]},
{"role":"tool","tool_call_id":"y","content":null},{"role":"tool","tool_call_id":"x","content":"first"},
{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"three","arguments":""}},{"id":"z","function":{"name":"four","arguments":"{}"}}]},
{"role":"tool","tool_call_id":"x","content":[{"type":"text","text":"sec"},{"type":"text","text":"ond"}]}]}`, "\n", "")
	all, err := ReadTranscripts(strings.NewReader("\n" + line + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []RecordedCall{
		{ID: "x", Tool: "one", Arguments: []byte(`{"a": 1}`), Answered: true, Content: "first"},
		{ID: "y", Tool: "two", Arguments: []byte(`"{"`), Answered: true, Content: ""},
		{ID: "x", Tool: "three", Arguments: []byte(`""`), Answered: true, Content: "second"},
		{ID: "z", Tool: "four", Arguments: []byte(`{}`)},
	}
	if len(all) != 1 || all[0].Name != "r" || len(all[0].Calls) != len(want) {
		t.Fatalf("got %+v", all)
	}
	for i, call := range all[0].Calls {
		w := want[i]
		if call.ID != w.ID || call.Tool != w.Tool || string(call.Arguments) != string(w.Arguments) || call.Answered != w.Answered || call.Content != w.Content {
			t.Errorf("call %d is %+v, want %+v", i, call, w)
		}
	}
}

func TestTurnsSayWhichCallsTheyMakeAndHowMuchWasSaid(t *testing.T) {
	line := `{"run":"r","messages":[{"role":"user","content":"hi"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"x","function":{"name":"one","arguments":"{\"a\":1}"}},{"id":"y","function":{"name":"two","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"x","content":"0123456789"},{"role":"tool","tool_call_id":"y"},` +
		`{"role":"assistant","content":"done"}]}`
	all, err := ReadTranscripts(strings.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	// "hi" are 4 bytes with their quotes; the calls 3+7 and 3+2; the result 12; "done" 6.
	want := []Turn{{Calls: 2, Input: 4, Output: 15}, {Calls: 0, Input: 31, Output: 6}}
	if got := all[0].Turns; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBadTranscriptsNameTheirLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":               {"\n", "want one run a line, got none"},
		"no JSON":               {`{"run":"a","messages":[]}` + "\n{", "line 2: "},
		"a result for no call":  {`{"run":"a","messages":[{"role":"tool","tool_call_id":"q","content":"x"}]}`, `run a, message 1: a result for tool call "q"`},
		"content of other kind": {`{"run":"a","messages":[{"tool_calls":[{"id":"q"}]},{"role":"tool","tool_call_id":"q","content":5}]}`, "run a, message 2: content"},
	} {
		if _, err := ReadTranscripts(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that says %q", name, err, c.want)
		}
	}
}

func TestContentThatIsJSONIsSentAsItIsAndOtherTextAsAString(t *testing.T) {
	for content, want := range map[string]string{
		"":                 `""`,
		"null":             `null`,
		"[]":               `[]`,
		"255.0":            `255.0`,
		`{ "a" : 1e2 }`:    `{ "a" : 1e2 }`,
		"Transfer done.":   `"Transfer done."`,
		`{"a":1,"a":2}`:    `"{\"a\":1,\"a\":2}"`,
		"two\nlines \"q\"": `"two\nlines \"q\""`,
	} {
		if got := string(asJSON(content)); got != want {
			t.Errorf("%q became %s, want %s", content, got, want)
		}
	}
}

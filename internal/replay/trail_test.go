package replay_test

import (
	"encoding/base64"
	"testing"
	"unicode"

	"runledger/internal/replay"
	"runledger/internal/stream"
)

func TestAFactIsWrittenWithItsDataAsTheyAreStored(t *testing.T) {
	for data, want := range map[string]string{
		`{"b":1.0, "a":"\u0041<"}`: `"data":{"b":1.0, "a":"\u0041<"}}`,
		` {"a":1}`:                 `"data": {"a":1}}`,
		"{\"a\":\n1}":              `"data_base64":"eyJhIjoKMX0="}`,
		`{"a":`:                    `"data_base64":"eyJhIjo="}`,
		"":                         `"data_base64":""}`,
	} {
		line, err := replay.CloudEvent(&stream.Message{
			Sequence: 7, Data: []byte(data), Header: map[string][]string{"ce-id": {"r%221"}, "Nats-Msg-Id": {"x"}},
		})
		if whole := `{"id":"r\"1","streamsequence":7,` + want; err != nil || string(line) != whole {
			t.Errorf("%q: got %s, %v, want %s", data, line, err, whole)
		}
	}
}

// TestWhatATerminalMayTakeForACommandIsNotWrittenRaw has an agent that chose such
// characters: CSI in 8 bits, DEL, and one that turns the direction of text.
func TestWhatATerminalMayTakeForACommandIsNotWrittenRaw(t *testing.T) {
	data := "{\"tool\":\"x\u009b41m\u007f\u202ey\"}"
	m := &stream.Message{Sequence: 7, Data: []byte(data), Header: map[string][]string{"ce-id": {"r%C2%9B1"}, "ce-x\u009b": {"1"}}}
	line, err := replay.CloudEvent(m)
	want := `{"id":"r\u009b1","x\u009b":"1","streamsequence":7,"data_base64":"` + base64.StdEncoding.EncodeToString(m.Data) + `"}`
	if err != nil || string(line) != want {
		t.Errorf("got %q, %v, want %q", line, err, want)
	}
	line, err = replay.ReadableCloudEvent(m)
	want = `{"id":"r\u009b1","x\u009b":"1","streamsequence":7,"data":{"tool":"x\u009b41m\u007f\u202ey"}}`
	if err != nil || string(line) != want {
		t.Errorf("got %q, %v, want %q", line, err, want)
	}
}

func TestADifferenceIsPrintedWithoutCommandsForATerminal(t *testing.T) {
	d := replay.Difference{
		What: replay.Changed, Run: "r\x1b[31m", Sequence: 1, Kind: "\x1b[31m.x", Verb: "\u202e", Event: 1, Why: "a\x1bb\u009bc",
		Fields: []replay.Field{{Name: "\x1b[31mx", Expected: "1", Got: "2"}},
	}
	for _, r := range d.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("it prints %q in %q", r, d.String())
		}
	}
}

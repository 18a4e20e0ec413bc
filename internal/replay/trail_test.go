package replay_test

import (
	"testing"

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

package golden

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"runledger/internal/stream"

	"github.com/nats-io/nats.go"
)

// streamPolicies is the stream that the bucket POLICIES is.
const streamPolicies = "KV_POLICIES"

// recorded is one line of a recording: a message of a stream or a key of the
// store.
type recorded struct {
	Stream   string      `json:"stream,omitempty"`
	Subject  string      `json:"subject,omitempty"`
	Header   nats.Header `json:"header,omitempty"`
	Data     []byte      `json:"data,omitempty"`
	Sequence uint64      `json:"sequence,omitempty"`
	Time     time.Time   `json:"time,omitzero"`

	Key     string            `json:"key,omitempty"`
	Hash    map[string][]byte `json:"hash,omitempty"`
	List    [][]byte          `json:"list,omitempty"`
	Expires int64             `json:"expires,omitempty"` // Unix ms
}

// recording is what a version wrote.
type recording struct {
	streams map[string][]stream.Message
	keys    []recorded
	last    time.Time // of the last message
}

func readRecording(t *testing.T, version string) recording {
	t.Helper()
	file, err := os.Open("testdata/" + version + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	r := recording{streams: make(map[string][]stream.Message)}
	for decoder := json.NewDecoder(unzipped); ; {
		var line recorded
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		if line.Key != "" {
			r.keys = append(r.keys, line)
			continue
		}
		r.streams[line.Stream] = append(r.streams[line.Stream], stream.Message{
			Subject: line.Subject, Header: line.Header, Data: line.Data, Sequence: line.Sequence, Time: line.Time,
		})
		if line.Time.After(r.last) {
			r.last = line.Time
		}
	}
}

func writeRecording(t *testing.T, version string, lines []recorded) {
	t.Helper()
	file, err := os.OpenFile("testdata/"+version+".jsonl.gz", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	encoder := json.NewEncoder(zipped)
	for i := range lines {
		if err := encoder.Encode(&lines[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(zipped.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

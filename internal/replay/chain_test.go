package replay_test

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"sort"
	"strings"
	"testing"

	"runledger/internal/stream"
)

// digestByTheBook is written from the text of docs/protocol.md alone.
func digestByTheBook(t *testing.T, m *stream.Message) string {
	t.Helper()
	var lines []string
	for header, values := range m.Header {
		if !strings.HasPrefix(header, "ce-") {
			continue // what NATS adds is no attribute
		}
		value, err := url.PathUnescape(values[0])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s=%d:%s\n", strings.TrimPrefix(header, "ce-"), len(value), value))
	}
	sort.Strings(lines) // by name: no name begins with another and "="
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(strings.Join(lines, "")+"\n"+string(m.Data))))
}

// TestTheChainHoldsByTheProtocolsOwnWords checks what docs/protocol.md says of
// the chain, with nothing of the program.
func TestTheChainHoldsByTheProtocolsOwnWords(t *testing.T) {
	m := recorded(t)
	links := 0
	for _, run := range m.runsIn() {
		facts := m.history(run)
		for i, f := range facts {
			if want := fmt.Sprintf("%020d", i+1); f.Header.Get("ce-sequence") != want {
				t.Errorf("run %s: got sequence %s, want %s", run, f.Header.Get("ce-sequence"), want)
			}
			previous := f.Header.Get("ce-previousdigest")
			if i == 0 {
				if previous != "" {
					t.Errorf("run %s: the first fact names a digest", run)
				}
				continue
			}
			if want := digestByTheBook(t, facts[i-1]); previous != want {
				t.Errorf("run %s, fact %d: names %s, want %s", run, i+1, previous, want)
			}
			links++
		}
		if last := facts[len(facts)-1]; run != "open" && last.Header.Get("ce-type") != "harness.run.terminated.v1" {
			t.Errorf("run %s ends with %s, want run.terminated", run, last.Header.Get("ce-type"))
		}
	}
	if links < 90 {
		t.Errorf("%d links of chains, want more", links)
	}
}

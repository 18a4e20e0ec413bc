package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"runledger/internal/policy"
	"runledger/internal/testenv"
)

// TestEventsWrittenByHandAsTheProtocolShowsThemAreDecided runs the commands of
// docs/protocol.md, as they stand there, with the nats command line.
func TestEventsWrittenByHandAsTheProtocolShowsThemAreDecided(t *testing.T) {
	w := newWorld(t, policy.Airline())
	w.serve(t, "one")
	h := newHand(t, w)
	answers := []struct{ verb, fact string }{ // in the order in which they come
		{"run.start", "run.started"}, {"tool.call", "tool.reserved"}, {"tool.result", "tool.settled"}, {"run.finish", "run.terminated"},
	}
	tried := 0
	for _, block := range shellBlocks(t, "../../docs/protocol.md") {
		if !strings.Contains(block, "nats pub") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", block)
		cmd.Env = append(os.Environ(), "NATS_URL="+w.nats.URL, "HOME="+w.dir,
			"PATH="+filepath.Dir(testenv.NATSCommand(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s\n%v\n%s", block, err, out)
		}
		for _, answer := range answers {
			if strings.Contains(block, "run-1."+answer.verb) {
				got := h.await(t, answer.fact)
				tried++
				if answer.fact == "tool.settled" && got.data["status"] != "READY" {
					t.Errorf("the result: got %v, want READY", got.data)
				}
			}
		}
	}
	if tried != len(answers) {
		t.Errorf("tried %d commands, want one for each of %v", tried, answers)
	}
}

// shellBlocks gives the shell blocks of a document.
func shellBlocks(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "```sh\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

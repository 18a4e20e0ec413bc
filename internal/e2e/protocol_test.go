package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// TestDigestsAreComputedAsTheProtocolShows runs the program of docs/protocol.md on
// the facts of a run, and on one that was changed.
func TestDigestsAreComputedAsTheProtocolShows(t *testing.T) {
	w := newWorld(t, policy.Airline())
	w.serve(t, "one")
	w.play(t, 1, "")
	run := demoRun(t, w)
	facts := w.run(t, "replay", "facts", "--run", run, "--json", "--nats-url", w.nats.URL)
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, source, _ := strings.Cut(string(text), "```go\n")
	source, _, _ = strings.Cut(source, "```")
	file, digester := filepath.Join(w.dir, "digest.go"), filepath.Join(w.dir, "digest")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", digester, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	digest := func(facts string) (string, error) {
		cmd := exec.CommandContext(t.Context(), digester)
		cmd.Stdin = strings.NewReader(facts)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := digest(facts)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	client := redisClient(t, w)
	eventually(t, "the run's end in Redis", func() bool {
		return client.HGet(t.Context(), "runledger.run:{"+run+"}", "sequence").Val() == strconv.Itoa(len(lines))
	})
	want := client.HGet(t.Context(), "runledger.run:{"+run+"}", "digest").Val() + " " + run + "." + strconv.Itoa(len(lines))
	if len(lines) < 5 || lines[len(lines)-1] != want {
		t.Errorf("got %d facts, the last %q, want %q as Redis has it", len(lines), lines[len(lines)-1], want)
	}
	changed := strings.Replace(facts, `"tool_calls":200`, `"tool_calls":201`, 1)
	if out, err := digest(changed); changed == facts || err == nil || !strings.Contains(out, run+".2 names another digest") {
		t.Errorf("a limit was changed: got %v and\n%s\nwant the fact after it named", err, out)
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

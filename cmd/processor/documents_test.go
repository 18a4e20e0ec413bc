package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"runledger/internal/events"
	"runledger/internal/policy"
	"runledger/internal/projector"
)

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestProtocolNamesEveryCode(t *testing.T) {
	text := document(t, "protocol.md")
	for _, code := range events.Codes() {
		if !strings.Contains(text, "`"+string(code)+"`") {
			t.Errorf("docs/protocol.md does not name the code %s", code)
		}
	}
}

func TestOperationsShowsAConfigurationThatIsTaken(t *testing.T) {
	_, example, found := strings.Cut(document(t, "operations.md"), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	dir := t.TempDir()
	for _, name := range []string{"nats.creds", "redis-password"} {
		if err := os.WriteFile(dir+"/"+name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	example = strings.ReplaceAll(example, "/etc/runledger/", dir+"/")
	if c, _, err := load(t, "--config", file(t, "c.yaml", example)); !found || err != nil || c.Process != "processor-1" {
		t.Errorf("got %v, %+v, want the example taken", err, c)
	}
}

// TestPolicyDocumentHasAGoodExampleAndNamesEveryKey takes the keys from what the
// reader says of one that it does not know.
func TestPolicyDocumentHasAGoodExampleAndNamesEveryKey(t *testing.T) {
	text := document(t, "policy.md")
	_, example, found := strings.Cut(text, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := policy.Parse("docs/policy.md", []byte(example)); !found || err != nil {
		t.Errorf("the example is refused: %v", err)
	}
	wrong := `version: 1
nope: 1
tools:
  - {name: a, executor: b, timeout: 1s, nope: 1}
`
	for _, name := range projector.Names() {
		wrong += "  - {name: t-" + name + ", executor: b, timeout: 1s, projector: {name: " + name + ", nope: 1}}\n"
	}
	wrong += `grants: [{agent: "*", tools: ["*"], nope: 1}]
ceilings: {nope: 1}
bytes: {nope: 1}
progress: {nope: 1}
`
	_, err := policy.Parse("wrong", []byte(wrong))
	lists := regexp.MustCompile(`unknown key; want one of (.*)`).FindAllStringSubmatch(err.Error(), -1)
	if want := 6 + len(projector.Names()); len(lists) != want {
		t.Fatalf("got %v, want %d unknown keys", err, want)
	}
	for _, list := range lists {
		for key := range strings.SplitSeq(list[1], ", ") {
			if !strings.Contains(text, "`"+key+"`") {
				t.Errorf("docs/policy.md does not describe the key %s", key)
			}
		}
	}
}

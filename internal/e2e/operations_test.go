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

// TestStreamsMadeByHandAsOperationsShowsThemAreAsTheyShouldBe runs the commands
// of docs/operations.md, as they stand there, with the nats command line.
func TestStreamsMadeByHandAsOperationsShowsThemAreAsTheyShouldBe(t *testing.T) {
	w := &world{nats: testenv.StartNATSProcess(t), dir: t.TempDir()}
	w.rules = filepath.Join(w.dir, "policy.yaml")
	if err := os.WriteFile(w.rules, policy.Airline(), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// What the commands write shall not land in the project.
	if err := os.Symlink(filepath.Join(root, "deploy"), filepath.Join(w.dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	blocks := shellBlocks(t, "../../docs/operations.md")
	if len(blocks) != 1 || !strings.Contains(blocks[0], "nats kv add") {
		t.Fatalf("got %d shell blocks, want the one that makes the streams", len(blocks))
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", blocks[0])
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "NATS_URL="+w.nats.URL, "HOME="+w.dir,
		"PATH="+filepath.Dir(testenv.NATSCommand(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := w.run(t, "streams", "check", "--nats-url", w.nats.URL, "--policy", w.rules); out != "all as it should be\n" {
		t.Errorf("got %q, want no difference", out)
	}
}

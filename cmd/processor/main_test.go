package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// asProgram makes the test binary the program itself, so that tests can see
// its exit status, its two outputs and its signals.
const asProgram = "PROCESSOR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// program prepares a run of the program as a process, which may also outlive
// the test's context until its cleanup.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// ran is what a command line came to.
type ran struct {
	status   int
	out, err string
}

// try runs a command line within the test.
func try(t *testing.T, args ...string) ran {
	t.Helper()
	var out, errOut bytes.Buffer
	status := execute(t.Context(), args, &out, &errOut)
	return ran{status: status, out: out.String(), err: errOut.String()}
}

// want requires a status, and texts on standard error.
func (r ran) want(t *testing.T, status int, says ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status: got %d, want %d", r.status, status)
	}
	for _, text := range says {
		if !strings.Contains(r.err, text) {
			t.Errorf("it says\n%s\nwant %q in it", r.err, text)
		}
	}
}

// file writes a file and gives its name.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := t.TempDir() + "/" + name
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

//go:build unix

package devserver

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, path string, args ...string) *Process {
	t.Helper()
	p, err := StartProcess(ProcessConfig{Path: path, Args: args, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func waitEnded(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the process has not ended within 10 s")
	}
}

func TestProcessTellsHowItEndedAndWhatItWrote(t *testing.T) {
	p := start(t, "sh", "-c", "for i in 1 2 3; do echo line $i; done; echo last >&2; exit 7")
	waitEnded(t, p)
	if got := p.Err(); got == nil || got.Error() != "exit status 7" {
		t.Errorf("Err is %v, want exit status 7", got)
	}
	if got := p.LogTail(2); got != "line 3\nlast" {
		t.Errorf("LogTail(2) is %q, want the last two lines", got)
	}
}

func TestProcessLogStartsWhereTheOneBeforeEnded(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, text := range []string{"first", "second"} {
		p, err := StartProcess(ProcessConfig{Path: "echo", Args: []string{text}, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		waitEnded(t, p)
		if got := p.LogTail(10); got != text {
			t.Errorf("LogTail is %q, want %q", got, text)
		}
	}
}

func TestProcessThatIsPausedIsStoppedInOrder(t *testing.T) {
	p := start(t, "sleep", "600")
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if p.Running() {
		t.Fatal("still running after Stop")
	}
}

func TestProcessThatIgnoresTheRequestToEndIsKilledAndSaysSo(t *testing.T) {
	p := start(t, "sh", "-c", `trap "" TERM; echo ready; while true; do read x; done < /dev/zero`)
	for deadline := time.Now().Add(10 * time.Second); p.LogTail(1) != "ready"; {
		if time.Now().After(deadline) {
			t.Fatal("the program did not get ready")
		}
	}
	err := p.Stop(50 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("Stop: got %v, want an error that says it was killed", err)
	}
	if p.Running() {
		t.Fatal("still running after Stop")
	}
}

func TestSignalsToAProcessThatHasEndedDoNothing(t *testing.T) {
	p := start(t, "true")
	waitEnded(t, p)
	for name, call := range map[string]func() error{"Kill": p.Kill, "Pause": p.Pause, "Resume": p.Resume} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStartOfAProgramThatDoesNotExistFails(t *testing.T) {
	_, err := StartProcess(ProcessConfig{Path: "/does/not/exist", Log: filepath.Join(t.TempDir(), "log")})
	if err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Fatalf("got %v, want an error that names the program", err)
	}
}

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// The nats command line of its own makers, so that the protocol is tried with a
// client that is not ours. It is no dependency of the project.
const (
	commandModule  = "github.com/nats-io/natscli/nats"
	commandVersion = "v0.5.0"
)

// NATSCommand returns the path of the nats command line, and builds it if this
// machine does not have it yet; that takes a minute.
func NATSCommand(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("testenv: no folder to keep the nats program in: %v", err)
	}
	key := fmt.Sprintf("natscli-%s-%s-%s-%s", commandVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	path := filepath.Join(cache, "runledger", key, "nats")
	if err := buildOnce(path, installCommand); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return path
}

func installCommand(out string) error {
	bin, err := os.MkdirTemp(filepath.Dir(out), "install-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(bin) }()
	install := exec.Command("go", "install", "-buildvcs=false", commandModule+"@"+commandVersion)
	install.Env = append(os.Environ(), "GOBIN="+bin)
	if output, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("install %s@%s: %w\n%s", commandModule, commandVersion, err, output)
	}
	return os.Rename(filepath.Join(bin, "nats"), out)
}

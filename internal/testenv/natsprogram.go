package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

const natsModule = "github.com/nats-io/nats-server/v2"

// natsProgram returns the path of a nats-server program of the version that
// go.mod names, and builds it if this machine does not have it yet.
func natsProgram(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("testenv: no folder to keep the nats-server program in: %v", err)
	}
	key := fmt.Sprintf("nats-server-%s-%s-%s-%s", server.VERSION, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	path := filepath.Join(cache, "runledger", key, "nats-server")
	if err := buildOnce(path, buildNATS); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return path
}

func buildNATS(out string) error {
	// A test runs in the folder of its package, so that go finds our go.mod.
	build := exec.Command("go", "build", "-buildvcs=false", "-o", out, natsModule)
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", natsModule, err, output)
	}
	return nil
}

// buildOnce makes sure that the program is at path. Test binaries of several
// packages come here at once: a lock file lets one build while the others
// wait, and a rename makes the program appear whole.
func buildOnce(path string, build func(out string) error) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return nil // somebody else built it while we waited
	}
	fresh := path + ".new"
	if err := build(fresh); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

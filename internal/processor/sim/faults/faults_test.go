package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fault is one deliberate fault: a text of a file that is replaced.
type fault struct {
	name  string
	wrong string // what is wrong then
	file  string // from the root of the module
	old   string // occurs once in the file
	new   string
	also  []edit // what must change with it
	seeds int    // the simulation finds it within so many, from 1 on
}

// edit is a further replacement; in the same file where it names none.
type edit struct{ file, old, new string }

func all() []fault {
	var faults []fault
	for _, list := range [][]fault{workerFaults(), handoverFaults(), ruleFaults()} {
		faults = append(faults, list...)
	}
	return faults
}

func (f fault) edits() []edit {
	edits := []edit{{f.file, f.old, f.new}}
	for _, e := range f.also {
		if e.file == "" {
			e.file = f.file
		}
		edits = append(edits, e)
	}
	return edits
}

// files gives the changed files by their path from the root of the module.
func (f fault) files(root string) (map[string]string, error) {
	changed := make(map[string]string)
	for _, e := range f.edits() {
		content, ok := changed[e.file]
		if !ok {
			read, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			content = string(read)
		}
		if n := strings.Count(content, e.old); n != 1 {
			return nil, fmt.Errorf("the fault %q no longer fits: want its text once in %s, found it %d times; make it fit what stands there now:\n%s", f.name, e.file, n, e.old)
		}
		changed[e.file] = strings.Replace(content, e.old, e.new, 1)
	}
	return changed, nil
}

// overlay writes the changed files into a folder, and what tells the build of
// them.
func (f fault) overlay(root, folder string) (path string, err error) {
	changed, err := f.files(root)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for file, content := range changed {
		mutated := filepath.Join(folder, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(mutated, []byte(content), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = mutated
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, data, 0o600)
}

// moduleRoot gives the folder of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("want the root of the module: %v", err)
	}
	return root
}

// build builds the simulation, with an overlay unless that is empty.
func build(t *testing.T, root, overlay string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "sim")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay="+overlay, "-ldflags=-s -w", "-o", program, "./scripts/sim")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the simulation: %v\n%s", err, out)
	}
	return program
}

// play plays seeds from 1 on, and gives what was told.
func play(t *testing.T, program string, seeds int) (out string, violated bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	told, err := exec.CommandContext(ctx, program, "-seeds", strconv.Itoa(seeds), "-parallel", "1").CombinedOutput()
	if err == nil {
		return string(told), false
	}
	if !strings.Contains(string(told), "an invariant was broken") {
		t.Fatalf("play %d seeds: %v\n%s", seeds, err, told)
	}
	return string(told), true
}

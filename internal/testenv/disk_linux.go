package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Disk is a file system of its own with little room.
type Disk struct {
	Dir string // where it is mounted

	t testing.TB
}

// ballastFile takes up what is free on a Disk.
const ballastFile = "ballast"

// SmallDisk mounts one of that many bytes (a tmpfs) until the test ends. It
// must be called before whatever writes there is started, so that it outlives
// it. Only root may mount; for anybody else the test fails.
func SmallDisk(t testing.TB, bytes int) *Disk {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes))
	if errors.Is(err, syscall.EPERM) {
		t.Fatalf("testenv: a small disk is a tmpfs, which may not be mounted here (%v); run this test as root, or in a user namespace of its own: unshare -rm make chaos", err)
	}
	if err != nil {
		t.Fatalf("testenv: mount a tmpfs on %s: %v", dir, err)
	}
	t.Cleanup(func() { check(t, "unmount "+dir, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return &Disk{Dir: dir, t: t}
}

// Fill takes up all room that is left.
func (d *Disk) Fill() {
	d.t.Helper()
	check(d.t, "fill the disk", d.fill())
}

func (d *Disk) fill() error {
	f, err := os.OpenFile(filepath.Join(d.Dir, ballastFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		switch _, err := f.Write(make([]byte, size)); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			return err
		}
	}
	return nil
}

// Free gives the room back that Fill took.
func (d *Disk) Free() {
	d.t.Helper()
	check(d.t, "free the disk", os.Remove(filepath.Join(d.Dir, ballastFile)))
}

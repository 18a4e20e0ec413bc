package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"runledger/internal/audit"

	"github.com/redis/go-redis/v9"
)

// unpacked gives the recorded runs as a file that the demonstration takes.
func unpacked(t *testing.T) string {
	t.Helper()
	packed, err := os.Open("testdata/tau-airline-runs.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unzipped, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDemonstrationComesOutTheSameWhileItsRedisIsFlushedFiveTimes runs the
// demonstration over the recorded runs as anybody would, and flushes the Redis
// that it tells of while it plays.
func TestDemonstrationComesOutTheSameWhileItsRedisIsFlushedFiveTimes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	demo := exec.CommandContext(ctx, program, "demo", "--json", "--transcripts", unpacked(t))
	var summary bytes.Buffer
	demo.Stdout = &summary
	told, err := demo.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(told)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`redis-server [0-9.]+ at ([0-9.]+:[0-9]+)`).FindStringSubmatch(first)
	if at == nil {
		t.Fatalf("got %q, want the address of a redis-server", first)
	}
	client := redis.NewClient(&redis.Options{Addr: at[1]})
	defer client.Close()
	flushed := 0
	for flushed < 5 {
		eventually(t, "keys to flush", func() bool { return client.DBSize(ctx).Val() > 10 })
		if err := client.FlushAll(ctx).Err(); err != nil {
			t.Fatalf("flush %d: %v", flushed+1, err)
		}
		flushed++
	}
	rest, _ := io.ReadAll(lines)
	if err := demo.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, first, rest)
	}
	var report audit.Report
	if err := json.Unmarshal(summary.Bytes(), &report); err != nil {
		t.Fatalf("%v: %s", err, summary.Bytes())
	}
	wantRecorded(t, &report, 1)
	t.Logf("%d flushes: %s", flushed, summary.Bytes())
}

package bench

import (
	"bufio"
	"io"
	"net"
	"testing"

	"runledger/internal/store"
	"runledger/internal/testenv"
)

func TestADispatchWithoutARecordIsToldFromAStoreThatDoesNotAnswer(t *testing.T) {
	records, err := store.Open(store.Config{Addrs: []string{testenv.StartRedis(t).Addr}})
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{records: records}
	_, err = p.sequence(t.Context(), "run-0000001", "call-0000000002")
	wantText(t, err, "call call-0000000002 of run run-0000001 was dispatched, and the store has no record of it")
	if err := records.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = p.sequence(t.Context(), "run-0000001", "call-0000000002")
	wantText(t, err, "read the record of the dispatched call call-0000000002: ", "closed")
}

func TestAServerThatDoesNotLetItselfBeMonitoredIsTold(t *testing.T) {
	for answer, want := range map[string]string{
		"-NOPERM this user has no permissions\r\n": `want +OK, got "-NOPERM this user has no permissions\r\n"`,
		"":        "read its answer: EOF",
		"+OK\r\n": "",
	} {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			asked, err := bufio.NewReader(theirs).ReadString('\n')
			if err != nil || asked != "MONITOR\r\n" {
				t.Errorf("it asks %q, %v", asked, err)
			}
			_, _ = io.WriteString(theirs, answer)
		}()
		err := (&monitor{conn: ours}).begin()
		_ = ours.Close()
		if want == "" {
			if err != nil {
				t.Errorf("+OK: %v", err)
			}
			continue
		}
		wantText(t, err, "monitor Redis: ", want)
	}
}

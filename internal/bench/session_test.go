package bench

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"runledger/internal/testenv"

	"github.com/nats-io/nats.go"
)

func wantText(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %q, want %q in it", err, text)
		}
	}
	if strings.Contains(err.Error(), "%!") {
		t.Errorf("got %q", err)
	}
}

// metricsOf answers /metrics with a number of partitions.
func metricsOf(t *testing.T, text string) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestProcessorsThatDoNotShareArePointedOut(t *testing.T) {
	all, some := metricsOf(t, "runledger_partitions_owned 8\n"), metricsOf(t, "runledger_partitions_owned 7\n")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, c := range map[string]struct {
		listens []string
		want    string
	}{
		"one has too few":      {[]string{all, some}, "the one at " + some + " has 7, want 8 at least"},
		"one does not answer":  {[]string{all, strings.TrimPrefix(gone.URL, "http://")}, "connection refused"},
		"one tells of no such": {[]string{all, metricsOf(t, "other 1\n")}, "runledger_partitions_owned: it is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			wantText(t, (&session{listens: c.listens}).waitShared(ctx), "have not taken their partitions", c.want)
		})
	}
	if err := (&session{listens: []string{all, all}}).waitShared(t.Context()); err != nil {
		t.Errorf("two that share: %v", err)
	}
}

func TestProcessorsOfWhichNoneAnswersInTimeAreToldSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantText(t, (&session{listens: []string{"127.0.0.1:1"}}).waitShared(ctx), "have not taken their partitions", "none has answered")
}

func TestALoadThatBeginsIsAskedNowAndThen(t *testing.T) {
	nc := testenv.StartNATS(t).Conn(t)
	s := &session{nc: nc}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	before := nc.Stats().OutMsgs
	err := s.waitLoad(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the time is over", err)
	}
	// Every 20 ms, and once at the beginning.
	if asked := nc.Stats().OutMsgs - before; asked < 1 || asked > 17 {
		t.Errorf("it was asked %d times in 300 ms, want 16 at most", asked)
	}
	if _, err := nc.Subscribe(controlSubject, func(m *nats.Msg) { _ = m.Respond([]byte("{}")) }); err != nil {
		t.Fatal(err)
	}
	if err := s.waitLoad(t.Context()); err != nil {
		t.Errorf("one that listens: %v", err)
	}
}

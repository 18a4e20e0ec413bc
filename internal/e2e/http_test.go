package e2e

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// get reads a page once it is there.
func get(t *testing.T, url string) string {
	t.Helper()
	var page string
	eventually(t, url, func() bool {
		response, err := http.Get(url) //nolint:noctx // a test of our own
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		page = string(body)
		return err == nil && response.StatusCode == http.StatusOK
	})
	return page
}

// eventually waits for a condition that something else brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20s", what)
		}
	}
}

// Package testenv starts the real servers that tests run against, on free
// loopback ports and temporary folders, and ends them with the test.
//
// Nothing here skips a test: where a server cannot be had, the test fails and
// says what to install.
//
// The methods that disturb a server (Kill, Pause, Restart, …) may be called
// from any goroutine of the running test, but from one at a time for each
// server; what goes wrong in them fails the test without ending it. Functions
// that start a server, and Conn, end the test when they fail, so they belong
// on its own goroutine.
package testenv

import "testing"

// only returns the one configuration that a caller may give, or the zero value.
func only[C any](t testing.TB, config []C) C {
	t.Helper()
	var cfg C
	if len(config) > 1 {
		t.Fatalf("testenv: got %d configurations, want at most one", len(config))
	}
	if len(config) == 1 {
		cfg = config[0]
	}
	return cfg
}

// check fails the test, and lets it go on, if a server could not be disturbed
// as asked.
func check(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("testenv: %s: %v", what, err)
	}
}

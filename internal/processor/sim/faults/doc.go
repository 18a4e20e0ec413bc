// Package faults holds the simulation to finding deliberate faults: each is an
// edit of one file, which is made by an overlay of the build and never in the
// tree, so that the code under test has no switches for it. Everything is in the
// tests; see the tables in worker_test.go, handover_test.go and rules_test.go.
package faults

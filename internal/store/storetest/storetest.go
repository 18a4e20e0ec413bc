// Package storetest says how a store behaves, as tests that every store passes:
// each file holds one kind of behaviour. What only a Redis has (keys, types,
// expiries, scripts) is tested in package store.
package storetest

import (
	"context"
	"testing"

	"runledger/internal/harness"
	"runledger/internal/store"
)

// Store is what is tested.
type Store interface {
	Project(ctx context.Context, projections []store.Projection) []error
	LoadRuns(ctx context.Context, runIDs []string) ([]*harness.Run, []error)
	Load(ctx context.Context, refs []store.Ref) ([]store.Loaded, error)
	Completed(ctx context.Context, runID string) ([]harness.Record, error)
	Record(ctx context.Context, runID, toolCallID string) (*harness.Record, error)
}

// Subject is an empty store of its own for one test, and what can befall it.
// Its clock is the machine's.
type Subject struct {
	Store Store

	Flush      func(t testing.TB)                           // everything is lost
	LoseRecord func(t testing.TB, runID, toolCallID string) // one record is lost
	LoseRun    func(t testing.TB, runID string)             // a run is lost, and its records stay
	LoseList   func(t testing.TB, runID string)             // which calls of a run completed is lost

	LoseOperations func(t testing.TB, runID string) // the model operations of a run are lost
}

type test func(t *testing.T, s Subject)

// Run tests the stores that open gives.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	run := func(behaviour string, tests map[string]test) {
		t.Run(behaviour, func(t *testing.T) {
			for name, test := range tests {
				t.Run(name, func(t *testing.T) { test(t, open(t)) })
			}
		})
	}
	run("RoundTrip", roundTrip())
	run("Advance", advance())
	run("Lifecycle", lifecycle())
	run("Completed", completed())
	run("Operations", operations())
	run("Recent", recent())
	run("Expiry", expiry())
	run("Loss", loss())
	run("Identifiers", identifiers())
	run("Size", size())
	run("Concurrency", concurrency())
}

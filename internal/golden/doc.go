// Package golden keeps what each version of this program wrote, streams and
// store, as test data: whoever comes later must read it, make the store again
// from it, verify it and continue it. It has tests alone.
//
// A recording is never changed. A version that writes another layout or decides
// by other rules adds one of its own:
//
//	go test ./internal/golden -run TestRecord -record v2
package golden

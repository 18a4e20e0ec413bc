package store_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The client's pool tries once a second whether a server that went is back, and
// notices only then that it has been closed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

package harness

import (
	"fmt"
	"sync/atomic"
)

// Capacity counts the bytes of one run up to a limit. A reservation is taken
// whole or not at all. It is safe for use by several goroutines and knows no
// store.
type Capacity struct {
	limit int64
	used  atomic.Int64
}

// NewCapacity returns an empty counter with a limit in bytes.
func NewCapacity(limit int64) *Capacity { return &Capacity{limit: limit} }

// Reserve takes that many bytes, which must be positive. The error is an
// *ExceededError where they would pass the limit; the usage is then unchanged.
func (c *Capacity) Reserve(bytes int64) error {
	if bytes <= 0 {
		return fmt.Errorf("capacity: want a positive number of bytes, got %d", bytes)
	}
	for {
		used := c.used.Load()
		if err := exceeds(LimitRunBytes, c.limit, used, bytes); err != nil {
			return err
		}
		if c.used.CompareAndSwap(used, used+bytes) {
			return nil
		}
	}
}

// Used gives the bytes taken so far.
func (c *Capacity) Used() int64 { return c.used.Load() }

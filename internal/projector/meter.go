package projector

import "fmt"

// stepBytes is how many bytes read in one pass count as one step.
const stepBytes = 16

// meter counts what a projection costs, in steps: a value that is looked at,
// 16 bytes that are read, a unit of the cost of an expression. The same response
// costs the same on every machine.
type meter struct{ most, left int64 }

func newMeter(most int64) *meter { return &meter{most: most, left: most} }

func (m *meter) spend(steps int) error {
	m.left -= int64(steps)
	if m.left < 0 {
		return fmt.Errorf("projection: want at most max_cost %d steps, got more", m.most)
	}
	return nil
}

// pass spends what reading so many bytes once costs.
func (m *meter) pass(bytes int) error { return m.spend(1 + bytes/stepBytes) }

package judge

import (
	"fmt"
	"time"
)

// Message is one stored message.
type Message struct {
	Subject  string
	Header   map[string][]string
	Data     []byte
	Sequence uint64 // in its stream
	Time     time.Time
}

// attribute gives a header, empty where it is not there.
func (m Message) attribute(name string) string {
	if values := m.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Batch is what a process has at hand.
type Batch struct {
	Process  string
	Earliest time.Time // instant that its clock showed since it last spoke to the store, or stored a fact
	Latest   time.Time // instant that it showed since the position moved
}

// Policy is what the judge must know of a policy.
type Policy struct {
	Tools      map[string]time.Duration // those that may be called, with their timeouts
	TTL        time.Duration
	MaxRepairs int
	MaxRepeats int
	Grace      time.Duration
	Observed   int // at most, in run.progress
}

// Judge holds what has happened so far. It is used by one goroutine.
type Judge struct {
	policies   map[string]Policy // by digest
	events     []*event          // of IN, by sequence - 1
	partitions map[string]*partition
	effects    map[string]uint64 // by name of an event: the first that had an effect
	runs       map[string]*run
	outside    map[string]bool // subjects of facts outside every history
	dispatches map[string]bool // subjects
	ran        map[string]int  // how often a dispatch was run, by its id
	violations []string
}

// New returns a judge of a world in which nothing has happened; it knows the
// policies by their digests.
func New(policies map[string]Policy) *Judge {
	return &Judge{
		policies: policies, partitions: make(map[string]*partition), effects: make(map[string]uint64),
		runs: make(map[string]*run), outside: make(map[string]bool), dispatches: make(map[string]bool),
		ran: make(map[string]int),
	}
}

// Violations gives what was found, in order.
func (j *Judge) Violations() []string { return j.violations }

func (j *Judge) violation(format string, args ...any) {
	j.violations = append(j.violations, fmt.Sprintf(format, args...))
}

// run gives what is known of a run.
func (j *Judge) run(id string) *run {
	r := j.runs[id]
	if r == nil {
		r = &run{id: id, schedules: make(map[int64]bool)}
		r.violation = func(format string, args ...any) {
			j.violation("run %s: %s", id, fmt.Sprintf(format, args...))
		}
		j.runs[id] = r
	}
	return r
}

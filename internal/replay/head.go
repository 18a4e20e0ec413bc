package replay

import (
	"fmt"
	"strconv"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"
)

// head is what must be known of a fact before it is judged: where it stands, and
// what it says of its cause. Nothing of it is believed; the rules make the same
// fact again, and the two are compared.
type head struct {
	outside  bool
	agent    string
	run      string
	kind     events.Kind
	sequence uint64 // 0 outside a history
	cause    uint64 // sequence in IN
	time     time.Time
}

// readHead takes a message of RUNS apart.
func readHead(s events.Subjects, m *stream.Message) (head, error) {
	address, err := s.ParseFact(m.Subject)
	if err != nil {
		return head{}, err
	}
	h := head{outside: address.OutsideKey != "", agent: address.Agent, run: address.Run, kind: address.Kind}
	attribute := func(name string) string {
		if values := m.Header["ce-"+name]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
	if h.cause, err = strconv.ParseUint(attribute("causationsequence"), 10, 64); err != nil || h.cause == 0 {
		return h, fmt.Errorf("attribute causationsequence: want a sequence of IN, got %.40q", attribute("causationsequence"))
	}
	if h.time, err = time.Parse(events.TimeFormat, attribute("time")); err != nil {
		return h, fmt.Errorf("attribute time: want an instant such as %s, got %.40q", events.TimeFormat, attribute("time"))
	}
	if err := events.CheckRules(attribute("rulesversion")); err != nil || h.outside {
		return h, err
	}
	if h.sequence, err = strconv.ParseUint(attribute("sequence"), 10, 64); err != nil || h.sequence == 0 {
		return h, fmt.Errorf("attribute sequence: want 20 digits from 1 on, got %.40q", attribute("sequence"))
	}
	return h, nil
}

package replay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// readHead takes a message of RUNS apart. prefix is that of all subjects.
func readHead(prefix string, m *stream.Message) (head, error) {
	h, err := readSubject(prefix, m.Subject)
	if err != nil {
		return h, err
	}
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
	if err := checkRules(attribute("rulesversion")); err != nil || h.outside {
		return h, err
	}
	if h.sequence, err = strconv.ParseUint(attribute("sequence"), 10, 64); err != nil || h.sequence == 0 {
		return h, fmt.Errorf("attribute sequence: want 20 digits from 1 on, got %.40q", attribute("sequence"))
	}
	return h, nil
}

// checkRules tells a newer version of the rules from what is none.
func checkRules(version string) error {
	if version == events.RulesVersion {
		return nil
	}
	if _, err := strconv.ParseUint(version, 10, 32); err == nil {
		return fmt.Errorf("rules version: want %q, got %q: %w", events.RulesVersion, version, events.ErrNewer)
	}
	return fmt.Errorf("attribute rulesversion: want %q, got %.40q", events.RulesVersion, version)
}

var errSubject = errors.New("subject: want fact.<agent>.<run>.<fact> or outside.<agent>.<run>.<fact>.<key>")

func readSubject(prefix, subject string) (head, error) {
	rest, below := strings.CutPrefix(subject, prefix+".")
	tokens := strings.Split(rest, ".")
	inside := below && len(tokens) == 5 && tokens[0] == "fact"
	outside := below && len(tokens) == 6 && tokens[0] == "outside"
	if !inside && !outside || !events.ValidName(tokens[1]) || !events.ValidName(tokens[2]) {
		return head{}, errSubject
	}
	return head{
		outside: outside, agent: tokens[1], run: tokens[2], kind: events.Kind(tokens[3] + "." + tokens[4]),
	}, nil
}

// partitionOf gives the partition of a stored subject of IN, -1 if it has none.
func partitionOf(prefix, subject string) int {
	rest, below := strings.CutPrefix(subject, prefix+".part.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if !below || err != nil {
		return -1
	}
	return n
}

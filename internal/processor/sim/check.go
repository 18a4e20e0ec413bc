package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"runledger/internal/stream"
)

// check judges what the streams and the store hold at the end. It reads bytes
// and headers by itself and uses nothing of the core, so that it can be right
// where the core is wrong.
func check(w *world) []string {
	c := &checker{
		runs: make(map[string]*seenRun), decided: make(map[string]int), outside: make(map[string]int),
		dead: make(map[string]int),
	}
	for _, m := range w.runs.messages {
		c.fact(m)
	}
	c.deadLetters(w.invalid.messages)
	for _, id := range slices.Sorted(maps.Keys(c.runs)) {
		c.run(id, c.runs[id])
	}
	c.dispatches(w.dispatch.messages)
	c.answers(w.in.messages)
	c.store(w)
	if !w.quiet() {
		c.violation("something is pending for ever: position %d of %d, %d timers, %d dispatches unanswered",
			w.position, len(w.in.messages), len(w.timers), len(w.executors.queue))
	}
	for id, n := range w.executors.claims {
		if n > 1 {
			c.violation("dispatch %s ran %d times", id, n)
		}
	}
	return c.violations
}

type checker struct {
	runs       map[string]*seenRun
	decided    map[string]int // decisions by inbound sequence
	outside    map[string]int
	dead       map[string]int
	violations []string
}

type seenRun struct {
	agent                       string
	facts                       int
	last                        string // kind
	digest, time                string
	started, ending, terminated int
	reserved                    map[string]string // tool call id by fact sequence
	calls                       map[string]int    // reservations by tool call id
	byTool                      map[string]int
	settled                     map[string]int // settlements by fact sequence of the reservation
	status                      map[string]string
	bytes                       int64
}

type payload struct {
	ToolCallID   string          `json:"tool_call_id"`
	Tool         string          `json:"tool"`
	Call         uint64          `json:"call"`
	Status       string          `json:"status"`
	Code         string          `json:"code"`
	Result       json.RawMessage `json:"result"`
	RawBytes     int64           `json:"raw_bytes"`
	RawStored    bool            `json:"raw_stored"`
	RequestBytes int64           `json:"request_bytes"`
}

func (c *checker) violation(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

func (c *checker) fact(m stream.Message) {
	tokens := strings.Split(m.Subject, ".")
	if len(tokens) < 6 {
		c.violation("fact subject %s", m.Subject)
		return
	}
	kind := tokens[4] + "." + tokens[5]
	cause := m.Header["ce-causationsequence"][0]
	if m.Header["ce-decision"][0] == "true" {
		if c.decided[cause]++; c.decided[cause] > 1 {
			c.violation("event %s was decided twice, the second time by %s", cause, m.Subject)
		}
	}
	if tokens[1] == "outside" {
		if c.outside[m.Subject]++; c.outside[m.Subject] > 1 {
			c.violation("%s was told twice", m.Subject)
		}
		return
	}
	c.inHistory(m, tokens[2], tokens[3], kind)
}

func (c *checker) inHistory(m stream.Message, agent, id, kind string) {
	r := c.runs[id]
	if r == nil {
		r = &seenRun{agent: agent, reserved: map[string]string{}, calls: map[string]int{}, byTool: map[string]int{},
			settled: map[string]int{}, status: map[string]string{}}
		c.runs[id] = r
	}
	r.facts++
	sequence := m.Header["ce-sequence"][0]
	if want := fmt.Sprintf("%020d", r.facts); sequence != want {
		c.violation("run %s: want sequence %s, got %s (%s)", id, want, sequence, kind)
	}
	if agent != r.agent {
		c.violation("run %s belongs to %s and to %s", id, r.agent, agent)
	}
	if got := strings.Join(m.Header["ce-previousdigest"], ""); got != r.digest {
		c.violation("run %s: the chain breaks at %s", id, sequence)
	}
	if at := m.Header["ce-time"][0]; at < r.time {
		c.violation("run %s: time goes back at %s", id, sequence)
	} else {
		r.time = at
	}
	if r.last == "run.terminated" {
		c.violation("run %s: %s after its end", id, kind)
	}
	r.digest, r.last = digest(m), kind
	var p payload
	if err := json.Unmarshal(m.Data, &p); err != nil {
		c.violation("run %s: fact %s: %v", id, sequence, err)
	}
	c.count(id, r, kind, strings.TrimLeft(sequence, "0"), p)
}

func (c *checker) count(id string, r *seenRun, kind, sequence string, p payload) {
	switch kind {
	case "run.started":
		r.started++
	case "run.ending":
		r.ending++
	case "run.terminated":
		r.terminated++
	case "tool.reserved":
		if r.ending > 0 {
			c.violation("run %s: reserved %s after its ending", id, p.ToolCallID)
		}
		r.reserved[sequence] = p.ToolCallID
		r.calls[p.ToolCallID]++
		r.byTool[p.Tool]++
		r.bytes += p.RequestBytes
	case "tool.settled":
		call := strconv.FormatUint(p.Call, 10)
		if r.reserved[call] != p.ToolCallID {
			c.violation("run %s: settled %s, which was not reserved", id, p.ToolCallID)
		}
		r.settled[call]++
		r.status[p.ToolCallID] = p.Status
		r.bytes += int64(len(p.Result))
		if p.RawStored {
			r.bytes += p.RawBytes
		}
	}
}

// run checks the whole of one run.
func (c *checker) run(id string, r *seenRun) {
	if r.started != 1 || r.ending != 1 || r.terminated != 1 {
		c.violation("run %s: want one start, ending and termination, got %d, %d, %d", id, r.started, r.ending, r.terminated)
	}
	for call, n := range r.calls {
		if n != 1 {
			c.violation("run %s: %s was reserved %d times", id, call, n)
		}
	}
	for call := range r.reserved {
		if r.settled[call] != 1 {
			c.violation("run %s: call %s was settled %d times", id, call, r.settled[call])
		}
	}
	for tool, n := range r.byTool {
		if n > callsPerTool || (tool != "read" && tool != "look") {
			c.violation("run %s: %d calls of %s", id, n, tool)
		}
	}
	if len(r.reserved) > toolCalls {
		c.violation("run %s: %d calls, and the limit is %d", id, len(r.reserved), toolCalls)
	}
	if r.bytes > runBytes {
		c.violation("run %s: %d bytes, and the limit is %d", id, r.bytes, runBytes)
	}
}

func (c *checker) deadLetters(messages []stream.Message) {
	for _, m := range messages {
		sequence := m.Header["Runledger-Sequence"][0]
		if c.dead[sequence]++; c.dead[sequence] > 1 {
			c.violation("event %s is kept twice", sequence)
		}
		if reason := m.Header["Runledger-Reason"][0]; reason == "BROKEN_INVARIANT" || reason == "STORE_CONFLICT" {
			c.violation("event %s: %s: %s", sequence, reason, m.Header["Runledger-Detail"][0])
		}
	}
}

func (c *checker) dispatches(messages []stream.Message) {
	seen := make(map[string]bool)
	for _, m := range messages {
		tokens := strings.Split(m.Subject, ".")
		if seen[m.Subject] {
			c.violation("%s was dispatched twice", m.Subject)
		}
		seen[m.Subject] = true
		if r := c.runs[tokens[3]]; r == nil || r.reserved[tokens[4]] == "" {
			c.violation("%s was dispatched without a reservation", m.Subject)
		}
	}
}

// answers requires that every event has its answer: a decision or a dead
// letter, or, where the same event came more than once, one of them.
func (c *checker) answers(messages []stream.Message) {
	answered := make(map[string]bool)
	for _, m := range messages {
		sequence := strconv.FormatUint(m.Sequence, 10)
		if c.decided[sequence] > 0 || c.dead[sequence] > 0 {
			answered[eventName(m)] = true
		}
		if c.decided[sequence] > 0 && c.dead[sequence] > 0 {
			c.violation("event %s was decided and kept as dead", sequence)
		}
	}
	for _, m := range messages {
		if name := eventName(m); name != "" && !answered[name] {
			c.violation("event %d (%s on %s) has no answer", m.Sequence, name, m.Subject)
		}
	}
}

// eventName tells events apart; a tick has none, since it needs no answer.
func eventName(m stream.Message) string {
	if id := m.Header["ce-id"]; len(id) > 0 {
		return m.Header["ce-source"][0] + " " + id[0]
	}
	if strings.Contains(m.Subject, ".tick.") {
		return ""
	}
	return "sequence " + strconv.FormatUint(m.Sequence, 10)
}

// store requires that what the store holds is what the facts say, as far as it
// stands: it may have been flushed after a run's last event.
func (c *checker) store(w *world) {
	for id, s := range w.records.runs {
		r := c.runs[id]
		if r == nil {
			c.violation("the store has run %s, the stream has not", id)
			continue
		}
		if s.run.Sequence > uint64(r.facts) {
			c.violation("run %s: the store stands at %d, the stream at %d", id, s.run.Sequence, r.facts)
		}
		for call, record := range s.calls {
			if string(record.Status) != r.status[call] && s.run.Sequence == uint64(r.facts) {
				c.violation("run %s: the record of %s says %s, the facts say %s", id, call, record.Status, r.status[call])
			}
		}
		if s.run.Sequence == uint64(r.facts) && len(s.used) != len(r.reserved) {
			c.violation("run %s: the store knows %d ids, the facts %d", id, len(s.used), len(r.reserved))
		}
		if s.run.Sequence == uint64(r.facts) && len(s.done) != len(r.reserved) {
			c.violation("run %s: the store has %d completed calls, the facts %d", id, len(s.done), len(r.reserved))
		}
	}
}

// digest follows docs/protocol.md.
func digest(m stream.Message) string {
	var names []string
	for key := range m.Header {
		if strings.HasPrefix(key, "ce-") {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		value, err := url.PathUnescape(m.Header[name][0])
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(h, "%s=%d:%s\n", strings.TrimPrefix(name, "ce-"), len(value), value)
	}
	fmt.Fprint(h, "\n")
	h.Write(m.Data)
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

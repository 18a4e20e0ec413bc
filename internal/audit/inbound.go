package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// inbound is one event of IN that wants an answer. Events of the same maker,
// source and id are one event, published more than once.
type inbound struct {
	name    string
	subject string
}

// inbound notes one message of IN, on part.<n>.in.<role>.<principal>.<run>.<verb>.
// A tick, on part.<n>.tick.<run>, wants no answer.
func (c *counter) inbound(m message) {
	tokens := strings.Split(strings.TrimPrefix(m.subject, c.prefix), ".")
	if len(tokens) == 4 && tokens[0] == "part" && tokens[2] == "tick" {
		return
	}
	c.report.Events++
	name := strconv.FormatUint(m.sequence, 10)
	if source, id := eventName(m); id != "" && len(tokens) > 6 {
		name = strings.Join(tokens[3:6], "\n") + "\n" + source + "\n" + id
	}
	c.events[m.sequence] = inbound{name: name, subject: m.subject}
}

// eventName finds source and id in either content mode; both are empty where
// there is no event to be found.
func eventName(m message) (source, id string) {
	found, err := attributes(m.header)
	if err == nil && found["id"] != "" {
		return found["source"], found["id"]
	}
	var structured struct {
		Source string `json:"source"`
		ID     string `json:"id"`
	}
	if json.Unmarshal(m.data, &structured) != nil {
		return "", ""
	}
	return structured.Source, structured.ID
}

// deadLetter notes one message of INVALID, on invalid.<role>.<principal>.<sequence>.
func (c *counter) deadLetter(m message) {
	tokens := strings.Split(m.subject, ".")
	sequence, err := strconv.ParseUint(tokens[len(tokens)-1], 10, 64)
	if err != nil {
		c.violation("message %d of %s on %.200q cannot be read: %v", m.sequence, streamInvalid, m.subject, err)
		return
	}
	if first, twice := c.kept[sequence]; twice {
		c.violation("event %d of %s was kept as dead twice, at %d and %d of %s", sequence, streamIn, first, m.sequence, streamInvalid)
		return
	}
	c.kept[sequence] = m.sequence
	reason := ""
	if values := m.header["Runledger-Reason"]; len(values) == 1 {
		reason = values[0]
	}
	c.report.DeadLetters[reason]++
}

// unanswered gives the events that were neither decided nor kept, nor are the
// same as one that was; in order.
func (c *counter) unanswered() []uint64 {
	answered := make(map[string]bool, len(c.events))
	for sequence, e := range c.events {
		if c.decided[sequence] > 0 || c.kept[sequence] > 0 {
			answered[e.name] = true
		}
	}
	var open []uint64
	for _, sequence := range slices.Sorted(maps.Keys(c.events)) {
		if !answered[c.events[sequence].name] {
			open = append(open, sequence)
		}
	}
	return open
}

// checkAnswers holds that every event has exactly one answer. One whose run was
// given up has two: it is kept, and its agent is told that.
func (c *counter) checkAnswers() {
	for _, sequence := range c.unanswered() {
		c.violation("event %d of %s on %.200q has no answer", sequence, streamIn, c.events[sequence].subject)
	}
	for _, sequence := range slices.Sorted(maps.Keys(c.kept)) {
		if at := c.decided[sequence]; at > 0 && !c.internal[sequence] {
			c.violation("event %d of %s was decided, at %d of %s, and kept as dead", sequence, streamIn, at, streamRuns)
		}
	}
	for _, sequence := range slices.Sorted(maps.Keys(c.internal)) {
		if c.kept[sequence] == 0 {
			c.violation("event %d of %s was answered INTERNAL_ERROR and not kept", sequence, streamIn)
		}
	}
}

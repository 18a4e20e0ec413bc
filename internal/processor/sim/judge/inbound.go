package judge

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// event is one message of IN, and what came of it.
type event struct {
	sequence  uint64
	partition string
	run       string
	role      string // empty where the subject names nobody
	principal string
	verb      string // "tick" for a tick
	source    string
	id        string // empty where it is no CloudEvent
	at        time.Time
	data      []byte

	decided int
	dead    int
	late    bool     // it was decided as a late result
	expired bool     // it was kept as one of an expired call
	facts   []uint64 // sequences in the run's history of those that it caused
}

// partition is the events that are read together, in order.
type partition struct {
	events  []*event
	covered int // how many of them the position has passed
}

// name is what tells an event from another, within its run.
func (e *event) name() string { return e.run + " " + e.source + " " + e.id }

// Inbound takes a message of IN.
func (j *Judge) Inbound(m Message) {
	e := readEvent(m)
	j.events = append(j.events, e)
	if uint64(len(j.events)) != m.Sequence {
		j.violation("IN: want message %d, got %d", len(j.events), m.Sequence)
	}
	p := j.partitions[e.partition]
	if p == nil {
		p = &partition{}
		j.partitions[e.partition] = p
	}
	p.events = append(p.events, e)
	j.run(e.run).unread++
}

// readEvent reads <prefix>.part.<n>.in.<role>.<principal>.<run>.<verb>, or
// <prefix>.part.<n>.tick.<run>.
func readEvent(m Message) *event {
	e := &event{sequence: m.Sequence, at: m.Time, data: m.Data, source: m.attribute("ce-source"), id: m.attribute("ce-id")}
	tokens := strings.Split(m.Subject, ".")
	e.partition = tokens[2]
	if tokens[3] == "tick" {
		e.run, e.verb, e.id = tokens[4], "tick", "tick"
		return e
	}
	e.role, e.principal, e.run = tokens[4], tokens[5], tokens[6]
	e.verb = strings.Join(tokens[7:], ".")
	return e
}

// cause finds the event that a message says it answers.
func (j *Judge) cause(sequence string) *event {
	n, err := strconv.ParseUint(sequence, 10, 64)
	if err != nil || n == 0 || n > uint64(len(j.events)) {
		return nil
	}
	return j.events[n-1]
}

// answered holds that an event has one answer at most, and is not given to the
// operator as well.
func (j *Judge) answered(e *event) {
	switch {
	case e.decided > 1:
		j.violation("event %d (%s of run %s) was decided %d times", e.sequence, e.verb, e.run, e.decided)
	case e.dead > 1:
		j.violation("event %d (%s of run %s) was kept %d times", e.sequence, e.verb, e.run, e.dead)
	case e.late && e.expired:
		// An owner that was overtaken woke up when the records had expired, so that
		// nothing says any more that the result was told as late.
	case e.dead > 0 && e.decided > 0:
		j.violation("event %d (%s of run %s) was decided, and kept as well", e.sequence, e.verb, e.run)
	}
}

// answeredBefore holds that an event which made something is not answered again.
func (j *Judge) answeredBefore(e *event, batch Batch) {
	first := j.effects[e.name()]
	if e.id == "" || first == 0 || first >= e.sequence || j.runs[e.run].state == nil {
		return
	}
	switch e.verb {
	case "run.start", "tool.call", "tool.result":
		s := j.runs[e.run].state
		if latest := max(batch.Latest.UnixMilli(), e.at.UnixMilli(), s.At); latest < s.ExpiresAt {
			j.violation("event %d (%s of run %s) is event %d once more, and is answered", e.sequence, e.verb, e.run, first)
		}
	}
}

// result is the data of a tool.result.
type result struct {
	ToolCallID string          `json:"tool_call_id"`
	DispatchID string          `json:"dispatch_id"`
	Outcome    string          `json:"outcome"`
	Result     json.RawMessage `json:"result"`
}

// Invalid takes a message of INVALID. batch is that of the process.
func (j *Judge) Invalid(m Message, batch Batch) {
	e, reason := j.cause(m.attribute("Runledger-Sequence")), m.attribute("Runledger-Reason")
	if e == nil {
		j.violation("%s keeps an event that is not there", m.Subject)
		return
	}
	e.dead++
	e.expired = e.expired || reason == "EXPIRED_CALL"
	j.answered(e)
	j.answeredBefore(e, batch)
	switch {
	case reason == "BROKEN_INVARIANT" || reason == "STORE_CONFLICT":
		j.violation("event %d of run %s: %s: %s", e.sequence, e.run, reason, m.attribute("Runledger-Detail"))
	case reason == "UNDECODABLE" && e.id != "":
		j.violation("event %d of run %s is a CloudEvent, and was kept as none", e.sequence, e.run)
	case e.verb == "tool.result" && e.id != "":
		j.keptResult(e, reason, batch)
	}
}

// keptResult holds that no result is kept from the call that it belongs to.
func (j *Judge) keptResult(e *event, reason string, batch Batch) {
	var told result
	r := j.runs[e.run]
	if json.Unmarshal(e.data, &told) != nil || r == nil || r.state == nil {
		return
	}
	if latest := max(batch.Latest.UnixMilli(), e.at.UnixMilli(), r.state.At); latest >= r.state.ExpiresAt {
		return // its records have expired, as far as the process knows
	}
	call := r.state.records[told.ToolCallID]
	if call == nil || call.Executor != e.principal || told.DispatchID != dispatchID(r.id, call.Call) {
		return
	}
	if call.Status == statusProjecting {
		r.violation("event %d answers the open call %d, and was kept as %s", e.sequence, call.Call, reason)
	}
	if reason != "LATE_AGAIN" {
		r.violation("event %d answers call %d, and was kept as %s", e.sequence, call.Call, reason)
	} else if !call.late {
		r.violation("event %d was kept as a further late result of call %d, of which none was told", e.sequence, call.Call)
	}
}

func dispatchID(run string, call uint64) string { return run + "." + strconv.FormatUint(call, 10) }

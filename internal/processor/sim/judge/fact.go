package judge

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fact is one message of RUNS, read by the names of docs/protocol.md.
type fact struct {
	agent, run, kind string
	sequence         uint64 // 0 outside every history
	stream           uint64
	digest           string
	previous         string
	at               time.Time
	cause            Cause
	decision         bool
	event            *event
	data             payload
	by               string // the process that published it
}

// payload has the members of all facts.
type payload struct {
	RunID           string           `json:"run_id"`
	SessionID       string           `json:"session_id"`
	Agent           string           `json:"agent"`
	Policy          string           `json:"policy"`
	Deadline        time.Time        `json:"deadline"`
	ExpiresAt       time.Time        `json:"expires_at"`
	Limits          map[string]int64 `json:"limits"`
	Code            string           `json:"code"`
	Limit           string           `json:"limit"`
	ToolCallID      string           `json:"tool_call_id"`
	Tool            string           `json:"tool"`
	Executor        string           `json:"executor"`
	RequestBytes    int64            `json:"request_bytes"`
	RequestDigest   string           `json:"request_digest"`
	ArgumentsDigest string           `json:"arguments_digest"`
	Call            uint64           `json:"call"`
	Status          string           `json:"status"`
	Evidence        string           `json:"evidence"`
	Result          json.RawMessage  `json:"result"`
	RawBytes        int64            `json:"raw_bytes"`
	RawDigest       string           `json:"raw_digest"`
	RawStored       bool             `json:"raw_stored"`
	Operation       string           `json:"operation"`
	OperationID     string           `json:"operation_id"`
	Attempt         int              `json:"attempt"`
	Outcome         string           `json:"outcome"`
	Failure         string           `json:"failure"`
	Usage           json.RawMessage  `json:"usage"` // of an attempt, or of the run
	Step            int              `json:"step"`
	Final           bool             `json:"final"`
	Violations      []any            `json:"violations"`
	Reason          string           `json:"reason"`
	GraceUntil      time.Time        `json:"grace_until"`
	EndedAt         time.Time        `json:"ended_at"`
	Observed        []observation    `json:"observed"`
	LeftOut         map[string]int64 `json:"left_out"`
	Calls           map[string]int64 `json:"calls"`
}

type observation struct {
	ToolCallID string `json:"tool_call_id"`
	Call       uint64 `json:"call"`
	Evidence   string `json:"evidence"`
}

func (f *fact) String() string { return fmt.Sprintf("fact %d (%s)", f.sequence, f.kind) }

// Fact takes a message of RUNS. batch is that of the process.
func (j *Judge) Fact(m Message, batch Batch) {
	f, err := j.readFact(m)
	if err != nil {
		j.violation("%s: %v", m.Subject, err)
		return
	}
	f.by = batch.Process
	e, r := f.event, j.run(f.run)
	if e.run != f.run {
		j.violation("%s of run %s answers event %d, which is of run %s", f.kind, f.run, e.sequence, e.run)
	}
	if f.at.Before(e.at.Truncate(time.Millisecond)) {
		r.violation("%v is of %v, before its cause, event %d of %v", f, f.at, e.sequence, e.at)
	}
	if f.decision {
		e.decided++
		e.late = e.late || f.kind == "tool.late"
		j.answered(e)
		j.answeredBefore(e, batch)
		if r.state != nil {
			if due := r.state.due(f.at.UnixMilli(), j.policies[r.state.Policy]); due != "" {
				r.violation("%v decides event %d at %v, while %s", f, e.sequence, f.at, due)
			}
		}
	}
	if f.sequence == 0 {
		j.outsideHistory(m, f, r)
		return
	}
	e.facts = append(e.facts, f.sequence)
	if f.decision && j.effects[e.name()] == 0 && hasEffect(f.kind) {
		j.effects[e.name()] = e.sequence
	}
	r.take(f, j.policies)
}

// hasEffect reports whether an event that led to that kind of fact is known
// when it comes again, and then not answered.
func hasEffect(kind string) bool {
	switch kind {
	case "run.started", "tool.reserved", "tool.settled", "model.granted", "model.recorded", "progress.accepted", "progress.invalid":
		return true
	}
	return false
}

// readFact reads <prefix>.fact.<agent>.<run>.<kind>, or
// <prefix>.outside.<agent>.<run>.<kind>.<key>.
func (j *Judge) readFact(m Message) (*fact, error) {
	tokens := strings.Split(m.Subject, ".")
	if len(tokens) < 6 || (tokens[1] == "fact") != (len(tokens) == 6) {
		return nil, fmt.Errorf("no subject of a fact")
	}
	f := &fact{
		agent: tokens[2], run: tokens[3], kind: tokens[4] + "." + tokens[5], stream: m.Sequence, digest: digestOf(m),
		previous: m.attribute("ce-previousdigest"), decision: m.attribute("ce-decision") == "true",
	}
	if tokens[1] == "fact" {
		text := m.attribute("ce-sequence")
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || len(text) != 20 {
			return nil, fmt.Errorf("want a sequence of 20 digits, got %q", text)
		}
		f.sequence = n
	}
	var err error
	if f.at, err = time.Parse(time.RFC3339Nano, m.attribute("ce-time")); err != nil {
		return nil, err
	}
	if f.event = j.cause(m.attribute("ce-causationsequence")); f.event == nil {
		return nil, fmt.Errorf("want an event of IN as its cause, got %q", m.attribute("ce-causationsequence"))
	}
	f.cause = Cause{Source: m.attribute("ce-causationsource"), ID: m.attribute("ce-causationid"), Sequence: f.event.sequence}
	if f.cause.ID != f.event.id || f.cause.Source != f.event.source {
		return nil, fmt.Errorf("want the id and source of event %d as its cause, got %q of %q", f.event.sequence, f.cause.ID, f.cause.Source)
	}
	return f, json.Unmarshal(m.Data, &f.data)
}

// outsideHistory takes a fact that belongs to no history.
func (j *Judge) outsideHistory(m Message, f *fact, r *run) {
	if j.outside[m.Subject] {
		j.violation("%s was told twice", m.Subject)
	}
	j.outside[m.Subject] = true
	if !f.decision {
		r.violation("%s stands outside its history, and answers nothing", f.kind)
	}
	switch f.kind {
	case "run.rejected", "tool.rejected", "model.rejected", "progress.invalid":
		if f.agent != f.event.principal {
			r.violation("%s answers %s, and %s asked", f.kind, f.agent, f.event.principal)
		}
		if f.event.verb == "run.start" && r.state == nil && hasEffect(f.kind) {
			r.violation("%s answers a start", f.kind)
		}
	case "tool.late":
		r.late(f)
	default:
		r.violation("%s stands outside its history", f.kind)
	}
}

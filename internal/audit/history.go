package audit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// run is what the facts of one run have told so far.
type run struct {
	agent      string
	last       uint64 // sequence of its last fact
	digest     string // of its last fact
	started    int
	released   uint64 // sequence of run.released; 0 if there is none
	ending     uint64 // sequence of run.ending
	outcome    string // that run.ending fixed
	progress   int    // how often it was told
	terminated int
	step       int64                 // of the last progress report that was accepted
	final      bool                  // whether that was a final one
	used       usage                 // by its model calls
	calls      map[uint64]*call      // by the sequence of the reservation
	ids        map[string]uint64     // tool call id to the sequence of its reservation
	operations map[string]*operation // by operation id
}

type call struct {
	toolCallID string
	executor   string
	settled    int
	status     string // as it was settled first
	evidence   string
}

// body is what the data of any fact or dispatch may hold of interest.
type body struct {
	ToolCallID string `json:"tool_call_id"`
	Executor   string `json:"executor"`
	DispatchID string `json:"dispatch_id"`
	RunID      string `json:"run_id"`
	Call       uint64 `json:"call"`
	Status     string `json:"status"`
	Evidence   string `json:"evidence"`
	Code       string `json:"code"`
	Outcome    string `json:"outcome"`

	Operation   string `json:"operation"`
	OperationID string `json:"operation_id"`
	Attempt     int64  `json:"attempt"`
	Failure     string `json:"failure"`
	Usage       *usage `json:"usage"`

	Step     int64            `json:"step"`
	Steps    int64            `json:"steps"`
	Final    bool             `json:"final"`
	Observed []observation    `json:"observed"`
	LeftOut  map[string]int64 `json:"left_out"`
}

// fact is one message of RUNS, taken apart.
type fact struct {
	message
	agent, run, kind string
	sequence         uint64 // 0 outside a history
	attributes       map[string]string
	body             body
}

func (f *fact) String() string {
	return fmt.Sprintf("fact %d (%s) of run %s", f.sequence, f.kind, f.run)
}

func (c *counter) fact(m message) {
	c.report.Facts++
	f, err := c.readFact(m)
	if err != nil {
		c.violation("message %d of %s on %.200q cannot be read: %v", m.sequence, streamRuns, m.subject, err)
		return
	}
	c.checkDecision(f)
	if f.sequence == 0 {
		c.outside(f)
		return
	}
	r := c.runs[f.run]
	if r == nil {
		r = &run{agent: f.agent, calls: map[uint64]*call{}, ids: map[string]uint64{}, operations: map[string]*operation{}}
		c.runs[f.run] = r
	}
	c.checkChain(r, f)
	c.checkPlace(r, f)
	c.tell(r, f)
	r.last, r.digest = f.sequence, digest(f.attributes, f.data)
}

// readFact takes apart fact.<agent>.<run>.<fact> and
// outside.<agent>.<run>.<fact>.<key>; the fact's name has two tokens.
func (c *counter) readFact(m message) (*fact, error) {
	tokens := strings.Split(strings.TrimPrefix(m.subject, c.prefix), ".")
	inside := len(tokens) == 5 && tokens[0] == "fact"
	if !inside && (len(tokens) != 6 || tokens[0] != "outside") {
		return nil, errSubject
	}
	f := &fact{message: m, agent: tokens[1], run: tokens[2], kind: tokens[3] + "." + tokens[4]}
	var err error
	if f.attributes, err = attributes(m.header); err != nil {
		return nil, err
	}
	text, has := f.attributes["sequence"]
	if has != inside {
		return nil, fmt.Errorf("want a sequence exactly where the fact belongs to a history, got %q", text)
	}
	if inside {
		if f.sequence, err = strconv.ParseUint(text, 10, 64); err != nil || f.sequence == 0 || len(text) != 20 {
			return nil, fmt.Errorf("sequence: want 20 digits from 1 on, got %.40q", text)
		}
	}
	if want := "harness." + f.kind + ".v1"; f.attributes["type"] != want {
		return nil, fmt.Errorf("type: want %s, got %.80q", want, f.attributes["type"])
	}
	if err := json.Unmarshal(m.data, &f.body); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return f, nil
}

// checkDecision holds that no event of IN is decided twice.
func (c *counter) checkDecision(f *fact) {
	if f.attributes["decision"] != "true" {
		return
	}
	cause, err := strconv.ParseUint(f.attributes["causationsequence"], 10, 64)
	if err != nil {
		c.violation("%s: causationsequence: want the sequence of an event of %s, got %.40q", f, streamIn, f.attributes["causationsequence"])
		return
	}
	if first, twice := c.decided[cause]; twice {
		c.violation("event %d of %s was decided twice, at %d and %d of %s", cause, streamIn, first, f.message.sequence, streamRuns)
		return
	}
	c.decided[cause] = f.message.sequence
	if f.body.Code == "INTERNAL_ERROR" {
		c.internal[cause] = true
	}
}

// checkChain holds that the fact follows the one before it in its run.
func (c *counter) checkChain(r *run, f *fact) {
	if f.agent != r.agent {
		c.violation("%s stands under agent %s, and the run began under %s", f, f.agent, r.agent)
	}
	if r.terminated > 0 && f.kind != "run.terminated" {
		c.violation("%s comes after run.terminated", f)
	}
	if f.sequence != r.last+1 {
		c.report.SequenceGaps++
		what := "a gap"
		if f.sequence <= r.last {
			what = "a repeat"
		}
		c.violation("%s follows %d: %s", f, r.last, what)
		return // its digest cannot be compared
	}
	if got := f.attributes["previousdigest"]; got != r.digest {
		c.violation("%s breaks the chain: it names %.80q as the digest of the fact before it, which is %.80q", f, got, r.digest)
	}
}

// tell counts a fact of a run's history.
func (c *counter) tell(r *run, f *fact) {
	switch f.kind {
	case "run.started":
		c.report.Runs++
		if r.started++; r.started > 1 {
			c.violation("%s: the run was started before", f)
		} else if f.sequence != 1 {
			c.violation("%s: want run.started as the first fact", f)
		}
	case "tool.reserved":
		c.reserve(r, f)
	case "tool.rejected":
		c.reject(f)
	case "tool.settled":
		c.settle(r, f)
	case "model.granted":
		c.grant(r, f)
	case "model.recorded":
		c.record(r, f)
	case "progress.accepted":
		c.accept(r, f)
	case "run.released":
		c.release(r, f)
	case "run.ending":
		c.end(r, f)
	case "run.progress":
		c.progress(r, f)
	case "run.terminated":
		c.terminate(r, f)
	}
}

func (c *counter) reserve(r *run, f *fact) {
	c.report.Calls++
	c.report.Reserved++
	if first, twice := r.ids[f.body.ToolCallID]; twice {
		c.violation("%s reserves %.80q, which was reserved by fact %d", f, f.body.ToolCallID, first)
	} else {
		r.ids[f.body.ToolCallID] = f.sequence
	}
	r.calls[f.sequence] = &call{toolCallID: f.body.ToolCallID, executor: f.body.Executor}
}

// reject counts a refused call. An event that was published twice is refused
// twice and is still one call.
func (c *counter) reject(f *fact) {
	event := f.agent + "\n" + f.attributes["causationsource"] + "\n" + f.attributes["causationid"]
	if c.refused[event] {
		return
	}
	c.refused[event] = true
	c.report.Calls++
	c.report.Rejected[f.body.Code]++
}

func (c *counter) settle(r *run, f *fact) {
	switch f.body.Status {
	case "READY":
		c.report.Ready++
	case "ERROR":
		c.report.Error++
	default:
		c.violation("%s: want status READY or ERROR, got %.40q", f, f.body.Status)
	}
	switch f.body.Evidence {
	case "EVIDENCE_FOUND":
		c.report.EvidenceFound++
	case "NO_EVIDENCE":
		c.report.NoEvidence++
	}
	if (f.body.Status == "ERROR") != (f.body.Evidence == "ERROR") {
		c.violation("%s: status %.40s with evidence %.40s", f, f.body.Status, f.body.Evidence)
	}
	reserved := r.calls[f.body.Call]
	if reserved == nil {
		c.violation("%s settles call %d, which has no reservation", f, f.body.Call)
		return
	}
	if reserved.toolCallID != f.body.ToolCallID {
		c.violation("%s settles call %d as %.80q, and it was reserved as %.80q", f, f.body.Call, f.body.ToolCallID, reserved.toolCallID)
	}
	if reserved.settled++; reserved.settled > 1 {
		c.violation("%s settles call %d, which was settled before", f, f.body.Call)
		return
	}
	reserved.status, reserved.evidence = f.body.Status, f.body.Evidence
}

// outside counts a fact that belongs to no history.
func (c *counter) outside(f *fact) {
	if f.kind == "tool.rejected" {
		c.reject(f)
	}
}

// dispatch notes one message of DISPATCH, on dispatch.<executor>.<run>.<sequence>.
func (c *counter) dispatch(m message) {
	tokens := strings.Split(strings.TrimPrefix(m.subject, c.prefix), ".")
	if len(tokens) != 4 || tokens[0] != "dispatch" {
		c.violation("message %d of %s on %.200q cannot be read: %v", m.sequence, streamDispatch, m.subject, errSubject)
		return
	}
	sequence, err := strconv.ParseUint(tokens[3], 10, 64)
	if err != nil {
		c.violation("message %d of %s on %.200q cannot be read: %v", m.sequence, streamDispatch, m.subject, err)
		return
	}
	var b body
	if err := json.Unmarshal(m.data, &b); err != nil {
		c.violation("message %d of %s cannot be read: %v", m.sequence, streamDispatch, err)
		return
	}
	if want := tokens[2] + "." + tokens[3]; b.DispatchID != want || b.RunID != tokens[2] {
		c.violation("message %d of %s: want dispatch %s of run %s, got %.80q of %.80q", m.sequence, streamDispatch, want, tokens[2], b.DispatchID, b.RunID)
	}
	id := callID{run: tokens[2], sequence: sequence}
	c.dispatched[id] = append(c.dispatched[id], dispatch{executor: tokens[1], toolCallID: b.ToolCallID, stream: m.sequence})
}

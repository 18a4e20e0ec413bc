package harness

import (
	"maps"
	"slices"
	"time"

	"runledger/internal/events"
)

// Phase is where a run stands in its lifecycle.
type Phase string

// The phases of a run, in order.
const (
	PhaseRunning    Phase = "RUNNING"
	PhaseEnding     Phase = "ENDING"
	PhaseTerminated Phase = "TERMINATED"
)

// Run is the state of one run after its last fact. [State.Apply] alone
// changes it, but for TimerAt, which is the worker's.
type Run struct {
	// Set by run.started, and fixed.
	ID         string
	SessionID  string
	Agent      string
	Policy     string // digest
	Limits     events.Limits
	StartedAt  time.Time
	Deadline   time.Time
	ExpiresAt  time.Time    // of every record of the run
	StartCause events.Cause // the event that started it

	// Changed by every fact.
	Sequence uint64 // of the last fact
	Stream   uint64 // its sequence in RUNS: the fence of the next fact
	Digest   string // of the last fact
	At       time.Time
	Inbound  uint64 // sequence in IN of the last event decided

	// Changed by some.
	Usage        events.Usage // but for UnknownUsage; see Run.Used
	KnownUsage   int64        // model calls whose usage was reported
	Open         []*Record    // in order of reservation
	Calls        map[events.Status]int64
	Exhausted    LimitName // set when a limit was reached; the ending follows
	Phase        Phase
	Termination  Termination // from run.ending on
	ProgressTold bool
	Released     events.ReleaseReason // empty while it is not
	GraceUntil   time.Time            // of a released run
	Step         int                  // progress reports accepted
	Final        bool                 // a final report was accepted
	Invalid      int                  // progress reports that were wrong
	ReportSource string               // of the progress.report that was answered last
	ReportID     string               // of the same
	Recent       []Repetition         // what calls came to, the latest last; at most maxRecent
	TimerAt      time.Time            // earliest schedule known to stand; zero if none
}

// Record is the canonical record of one call, without the bytes that only a
// full load brings.
type Record struct {
	RunID      string
	ToolCallID string
	Tool       string
	Executor   string
	Call       uint64 // sequence of its tool.reserved
	Status     events.Status
	Evidence   events.Evidence
	Code       events.Code

	ReservedAt time.Time
	Deadline   time.Time // of the call
	ExpiresAt  time.Time
	SettledAt  time.Time

	Cause           events.Cause // the intent that made it
	RequestBytes    int64
	RequestDigest   string
	ArgumentsDigest string
	ResultCause     events.Cause // the result that settled it; zero if none did
	RawBytes        int64
	RawDigest       string
	RawStored       bool

	Request     []byte // the complete request, as sent
	RawResponse []byte // never shown to an agent
	AgentResult []byte // only where READY
}

// Expired reports whether the record has expired, by its own instant and not by
// whether a store still has it.
func (r *Record) Expired(now time.Time) bool { return !now.Before(r.ExpiresAt) }

// openCall finds an open call by its id.
func (r *Run) openCall(toolCallID string) *Record {
	for _, c := range r.Open {
		if c.ToolCallID == toolCallID {
			return c
		}
	}
	return nil
}

// Used gives a snapshot of the usage. A model call whose usage nobody reported
// is unknown, never zero.
func (r *Run) Used() events.Usage {
	used := r.Usage
	used.CallsByTool = maps.Clone(r.Usage.CallsByTool)
	used.UnknownUsage = r.Usage.ModelCalls - r.KnownUsage
	return used
}

// Settled gives how many calls have settled.
func (r *Run) Settled() int {
	n := int64(0)
	for _, calls := range r.Calls {
		n += calls
	}
	return int(n)
}

// NextDue gives the earliest instant at which something follows by itself; ok
// is false for a terminated run.
func (r *Run) NextDue() (at time.Time, ok bool) {
	switch r.Phase {
	case PhaseRunning:
		at = r.Deadline
		for _, c := range r.Open {
			if c.Deadline.Before(at) {
				at = c.Deadline
			}
		}
		if r.Released != "" && r.GraceUntil.Before(at) {
			at = r.GraceUntil
		}
		return at, true
	case PhaseEnding:
		return r.At, true
	default:
		return time.Time{}, false
	}
}

// State is what a decision looks at: the run (nil if there is none), and the
// records that [Needs] named.
type State struct {
	Run        *Run
	Records    map[string]*Record         // by tool call id
	Operations map[string]*ModelOperation // by operation id
	Completed  []Record                   // all settled calls, when asked for
}

// record finds what is known of a call: open in the run, or loaded.
func (s *State) record(toolCallID string) *Record {
	if s.Run != nil {
		if c := s.Run.openCall(toolCallID); c != nil {
			return c
		}
	}
	return s.Records[toolCallID]
}

// Need says what must be loaded before the next step.
type Need struct {
	ToolCallIDs []string // the records of these calls
	OperationID string   // what is remembered of this model operation
	Completed   bool     // the records of all completed calls
}

// Empty reports whether nothing is needed.
func (n Need) Empty() bool {
	return len(n.ToolCallIDs) == 0 && n.OperationID == "" && !n.Completed
}

// Needs says which records the next step needs: of the event, or, where in is
// nil, of what is due. An open call is known to the run and needs no loading.
// Ids that no record can have are left out.
func Needs(run *Run, in *events.Inbound) Need {
	if run == nil {
		return Need{}
	}
	if in == nil {
		return Need{Completed: run.Phase == PhaseEnding && len(run.Open) == 0 && !run.ProgressTold}
	}
	switch p := in.Payload.(type) {
	case *events.ToolCall:
		return run.needCalls(p.ToolCallID)
	case *events.ToolResult:
		return run.needCalls(p.ToolCallID)
	case *events.ProgressReport:
		var ids []string
		for _, claim := range p.Claims {
			ids = append(ids, claim.Supports...)
		}
		return run.needCalls(ids...)
	case *events.ModelCall:
		return needOperation(p.OperationID)
	case *events.ModelReport:
		return needOperation(p.OperationID)
	}
	return Need{}
}

func (r *Run) needCalls(ids ...string) Need {
	var need Need
	for _, id := range ids {
		if CheckToolCallID(id, true) == nil && r.openCall(id) == nil && !slices.Contains(need.ToolCallIDs, id) {
			need.ToolCallIDs = append(need.ToolCallIDs, id)
		}
	}
	return need
}

func needOperation(id string) Need {
	if CheckToolCallID(id, true) != nil {
		return Need{}
	}
	return Need{OperationID: id}
}

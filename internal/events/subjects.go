package events

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// DefaultPrefix stands before every subject unless the operator configures
// another one.
const DefaultPrefix = "harness.v1"

// Role says which kind of principal a subject names.
type Role string

// The roles that may speak on inbound subjects. RoleTimer is the stream itself:
// a schedule that fires.
const (
	RoleAgent    Role = "agent"
	RoleExecutor Role = "executor"
	RoleOperator Role = "operator"
	RoleTimer    Role = "timer"
)

// Verb is what an inbound event asks for; it is the tail of its subject.
type Verb string

// The verbs of inbound subjects.
const (
	VerbRunStart       Verb = "run.start"
	VerbToolCall       Verb = "tool.call"
	VerbToolResult     Verb = "tool.result"
	VerbModelCall      Verb = "model.call"
	VerbModelReport    Verb = "model.report"
	VerbProgressReport Verb = "progress.report"
	VerbRunCancel      Verb = "run.cancel"
	VerbRunFinish      Verb = "run.finish"
	VerbTick           Verb = "tick"
)

// Type gives the CloudEvents type of the verb, for instance
// "harness.tool.call.v1".
func (v Verb) Type() string { return "harness." + string(v) + ".v1" }

var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// ValidName reports whether s may name a run, an agent, an executor or an
// operator: 1 to 128 of the characters A-Z a-z 0-9 _ and -. Such a name is one
// token of a subject, one segment of a key and a hash tag of Redis Cluster.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

const maxName = 128

// Subjects builds and reads every subject below one prefix. The zero value is
// not usable; see [NewSubjects].
type Subjects struct{ prefix string }

// NewSubjects returns the subjects below prefix, which is one or more subject
// tokens without wildcards, such as [DefaultPrefix].
func NewSubjects(prefix string) (Subjects, error) {
	if !prefixPattern.MatchString(prefix) {
		return Subjects{}, fmt.Errorf("subject prefix: want tokens of A-Z a-z 0-9 _ - joined by dots, such as %q, got %q", DefaultPrefix, prefix)
	}
	return Subjects{prefix: prefix + "."}, nil
}

// Agent is where that agent publishes an intent about a run.
func (s Subjects) Agent(agent, run string, verb Verb) string {
	return s.prefix + "in.agent." + agent + "." + run + "." + string(verb)
}

// Executor is where that executor publishes the result of a call.
func (s Subjects) Executor(executor, run string) string {
	return s.prefix + "in.executor." + executor + "." + run + "." + string(VerbToolResult)
}

// Operator is where an operator cancels a run.
func (s Subjects) Operator(name, run string) string {
	return s.prefix + "in.operator." + name + "." + run + "." + string(VerbRunCancel)
}

// Partition filters all stored inbound events of one partition.
func (s Subjects) Partition(partition int) string {
	return s.prefix + "part." + strconv.Itoa(partition) + ".>"
}

// Fact is where a fact of a run's history is stored.
func (s Subjects) Fact(agent, run string, kind Kind) string {
	return s.prefix + "fact." + agent + "." + run + "." + string(kind)
}

// History filters the facts of one run of that agent.
func (s Subjects) History(agent, run string) string {
	return s.prefix + "fact." + agent + "." + run + ".>"
}

// HistoryOfAny filters the facts of one run, whoever owns it.
func (s Subjects) HistoryOfAny(run string) string { return s.History("*", run) }

// AllOf filters everything that was ever said of one run, to whomever: its facts
// and the answers outside any history.
func (s Subjects) AllOf(run string) string { return s.prefix + "*.*." + run + ".>" }

// Everything filters all that is below the prefix.
func (s Subjects) Everything() string { return s.prefix + ">" }

// Stored filters all stored inbound events, those of every partition.
func (s Subjects) Stored() string { return s.prefix + "part.>" }

// StoredOf gives the filters of all stored inbound events about one run: what
// was said of it, and its ticks.
func (s Subjects) StoredOf(run string) []string {
	return []string{s.prefix + "part.*.in.*.*." + run + ".>", s.prefix + "part.*.tick." + run}
}

// Told filters everything that was ever told to one agent of one run; "*" stands
// for any agent, and for any run.
func (s Subjects) Told(agent, run string) string { return s.prefix + "*." + agent + "." + run + ".>" }

// Outside is where a fact that belongs to no run's history is stored, once:
// key makes the subject unique.
func (s Subjects) Outside(agent, run string, kind Kind, key string) string {
	return s.prefix + "outside." + agent + "." + run + "." + string(kind) + "." + key
}

// Republished filters what the stream republishes, once stored, of all runs of
// that agent; "*" stands for any agent.
func (s Subjects) Republished(agent string) string { return s.prefix + "run." + agent + ".>" }

// Dispatch is where a reserved call is handed to its executor, once. The
// sequence is that of the call's tool.reserved fact.
func (s Subjects) Dispatch(executor, run string, sequence uint64) string {
	return s.prefix + "dispatch." + executor + "." + run + "." + strconv.FormatUint(sequence, 10)
}

// Timer carries the schedule that ticks a run at the instant that its
// generation stands for (Unix milliseconds).
func (s Subjects) Timer(run string, generation int64) string {
	return s.prefix + "timer." + run + "." + strconv.FormatInt(generation, 10)
}

// Timers filters the schedules of a run.
func (s Subjects) Timers(run string) string { return s.prefix + "timer." + run + ".*" }

// Tick is where a schedule of the run delivers.
func (s Subjects) Tick(run string) string { return s.prefix + "tick." + run }

// Invalid is where an inbound event that could not be decided is kept. The
// sequence is the event's own in IN.
func (s Subjects) Invalid(role Role, principal string, sequence uint64) string {
	return s.prefix + "invalid." + string(role) + "." + principal + "." + strconv.FormatUint(sequence, 10)
}

// FactAddress is what the subject of a stored fact says.
type FactAddress struct {
	Agent, Run string
	Kind       Kind
	OutsideKey string // empty where the fact is one of a run's history
}

// ParseFact reads the subject of a stored fact. Whether there is a fact of that
// kind it does not judge.
func (s Subjects) ParseFact(subject string) (FactAddress, error) {
	rest, below := strings.CutPrefix(subject, s.prefix)
	tokens := strings.Split(rest, ".")
	inside := below && len(tokens) == 5 && tokens[0] == "fact"
	outside := below && len(tokens) == 6 && tokens[0] == "outside" && tokens[5] != ""
	if !inside && !outside || !ValidName(tokens[1]) || !ValidName(tokens[2]) {
		return FactAddress{}, fmt.Errorf("fact subject: want %sfact.<agent>.<run>.<fact> or %soutside.<agent>.<run>.<fact>.<key>, got %.200q", s.prefix, s.prefix, subject)
	}
	a := FactAddress{Agent: tokens[1], Run: tokens[2], Kind: Kind(tokens[3] + "." + tokens[4])}
	if outside {
		a.OutsideKey = tokens[5]
	}
	return a, nil
}

// PartitionOf gives the partition of a stored inbound subject, -1 if it has none.
func (s Subjects) PartitionOf(subject string) int {
	rest, below := strings.CutPrefix(subject, s.prefix+"part.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if !below || err != nil || n < 0 {
		return -1
	}
	return n
}

// Address is what the subject of an inbound event says: who speaks, about
// which run, with which verb.
type Address struct {
	Role      Role
	Principal string // agent, executor or operator; the run for a tick
	Run       string
	Verb      Verb
}

// ParseInbound reads the stored subject of an inbound event. Whoever may
// publish an inbound subject is decided by NATS permissions; this only takes it
// apart, and refuses names and verbs that the protocol does not have.
func (s Subjects) ParseInbound(subject string) (Address, error) {
	rest, ok := strings.CutPrefix(subject, s.prefix+"part.")
	if !ok {
		return Address{}, fmt.Errorf("inbound subject: want it below %spart, got %.200q", s.prefix, subject)
	}
	_, rest, _ = strings.Cut(rest, ".") // the partition
	if run, ok := strings.CutPrefix(rest, "tick."); ok {
		a := Address{Role: RoleTimer, Principal: run, Run: run, Verb: VerbTick}
		return a, a.check()
	}
	tokens := strings.SplitN(rest, ".", 5)
	if len(tokens) != 5 || tokens[0] != "in" || Role(tokens[1]) == RoleTimer { // a tick has a subject of its own
		return Address{}, fmt.Errorf("inbound subject: want in.<role>.<principal>.<run>.<verb>, got %.200q", rest)
	}
	a := Address{Role: Role(tokens[1]), Principal: tokens[2], Run: tokens[3], Verb: Verb(tokens[4])}
	return a, a.check()
}

func (a Address) check() error {
	if !ValidName(a.Run) {
		return fmt.Errorf("run in subject: want 1 to 128 of A-Z a-z 0-9 _ -, got %.200q", a.Run)
	}
	if !ValidName(a.Principal) {
		return fmt.Errorf("%s in subject: want 1 to 128 of A-Z a-z 0-9 _ -, got %.200q", a.Role, a.Principal)
	}
	if !mayPublish(a.Role, a.Verb) {
		return fmt.Errorf("verb in subject: a principal of role %.40q has no verb %.40q", a.Role, a.Verb)
	}
	return nil
}

func mayPublish(role Role, verb Verb) bool {
	switch role {
	case RoleAgent:
		switch verb {
		case VerbRunStart, VerbToolCall, VerbModelCall, VerbModelReport, VerbProgressReport, VerbRunCancel, VerbRunFinish:
			return true
		default:
			return false
		}
	case RoleExecutor:
		return verb == VerbToolResult
	case RoleOperator:
		return verb == VerbRunCancel
	case RoleTimer:
		return verb == VerbTick
	}
	return false
}

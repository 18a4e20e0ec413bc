package harness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
)

// attempt is a tool call that passes the preflight, until a test breaks it.
type attempt struct {
	agent, run                string // of the subject
	runID, id, tool, args     string // of the data
	more                      string // members after the usual ones
	usedID, usedBudget, ended bool   // what happened in the run before
}

func goodAttempt() *attempt {
	return &attempt{agent: "alice", run: "r1", runID: "r1", id: "c1", tool: "search", args: `{"q":"x"}`}
}

func (a *attempt) data() string {
	return strings.TrimSuffix(callData(a.runID, a.id, a.tool, a.args), "}") + a.more + "}"
}

// make starts alice's run, brings it to where the test wants it, and makes the
// attempt.
func (a *attempt) make(t *testing.T) (*driver, []step) {
	t.Helper()
	d := newDriver(t, testRules())
	d.start(`"tool_calls":2`)
	if a.usedID {
		d.call("c1", "search", `{"q":"x"}`)
	}
	for i := len(d.records["r1"]); a.usedBudget && i < 2; i++ {
		d.call(fmt.Sprintf("b%d", i), "search", `{"q":"x"}`)
	}
	if a.ended {
		d.finish("SUCCESS")
	}
	steps := d.agent(a.agent, a.run, events.VerbToolCall, a.data())
	return d, steps
}

// faults breaks an attempt at each stage of the preflight, in the order that the
// design gives. No fault hides another: any two can be in one attempt.
var faults = []struct {
	code   events.Code
	name   string
	damage func(*attempt)
}{
	{"INVALID_ENVELOPE", "unknown member", func(a *attempt) { a.more += `,"unknown":1` }},
	{"INVALID_TOOL_CALL_ID", "unsafe id", func(a *attempt) { a.id = "c{1}" }},
	{"RUN_MISMATCH", "data of another run", func(a *attempt) { a.runID = "r7" }},
	{"RUN_NOT_FOUND", "unknown run", func(a *attempt) {
		if a.runID == a.run {
			a.runID = "r9"
		}
		a.run = "r9"
	}},
	{"RUN_NOT_OWNED", "another agent", func(a *attempt) { a.agent = "bob" }},
	{"INVALID_INPUT", "no object", func(a *attempt) {
		a.args = `[` + strings.TrimSuffix(strings.TrimPrefix(a.args, "{"), "}") + `]`
		a.args = strings.ReplaceAll(a.args, `"q":`, "")
	}},
	{"REQUEST_TOO_LARGE", "too large", func(a *attempt) { a.args = strings.Replace(a.args, `"x"`, `"`+strings.Repeat("x", 1000)+`"`, 1) }},
	{"TOOL_NOT_FOUND", "unknown tool", func(a *attempt) { a.tool = "launch" }},
	{"UNAUTHORIZED", "authorized false", func(a *attempt) { a.more += `,"authorized":false` }},
	{"NOT_READ_ONLY", "read_only false", func(a *attempt) { a.more += `,"read_only":false` }},
	{"RUN_NOT_ACTIVE", "ended run", func(a *attempt) { a.ended = true }},
	{"DUPLICATE_TOOL_CALL", "used id", func(a *attempt) { a.usedID = true }},
	{"BUDGET_EXHAUSTED", "used budget", func(a *attempt) { a.usedBudget = true }},
}

func TestAGoodAttemptPassesThePreflight(t *testing.T) {
	_, steps := goodAttempt().make(t)
	expect(t, "good attempt", steps, "tool.reserved")
}

func TestOfTwoFaultsTheEarlierStageOfThePreflightAnswers(t *testing.T) {
	for i, first := range faults {
		for _, second := range faults[i:] {
			a := goodAttempt()
			first.damage(a)
			if first.name != second.name {
				second.damage(a)
			}
			name := first.name + " and " + second.name
			d, steps := a.make(t)
			if len(steps) == 0 || steps[0].fact == nil {
				t.Errorf("%s: got %q", name, brief(steps))
				continue
			}
			p, ok := steps[0].fact.Payload.(*events.ToolRejected)
			if !ok || p.Code != first.code {
				t.Errorf("%s: got %q, want tool.rejected %s", name, brief(steps), first.code)
				continue
			}
			if p.Message != first.code.Message() {
				t.Errorf("%s: the message is %q", name, p.Message)
			}
			if n := len(d.records["r1"]); n > 2 || d.records["r9"] != nil {
				t.Errorf("%s: a refused call left a record", name)
			}
		}
	}
}

func TestWhatAnAttemptMayAndMayNotHold(t *testing.T) {
	change := func(f func(*attempt)) *attempt { a := goodAttempt(); f(a); return a }
	args := func(s string) *attempt { return change(func(a *attempt) { a.args = s }) }
	more := func(s string) *attempt { return change(func(a *attempt) { a.more = s }) }
	tool := func(s string) *attempt { return change(func(a *attempt) { a.tool, a.args = s, `{}` }) }
	for name, c := range map[string]struct {
		attempt *attempt
		want    string
	}{
		"arguments null":                       {args(`null`), "INVALID_INPUT"},
		"arguments empty string":               {args(`""`), "INVALID_INPUT"},
		"arguments a JSON text":                {args(`"{\"q\":\"x\"}"`), "INVALID_INPUT"},
		"arguments a number":                   {args(`1`), "INVALID_INPUT"},
		"arguments that the schema refuses":    {args(`{"Q":"x"}`), "INVALID_INPUT"},
		"arguments with spaces":                {args(" { \"q\" : 1 } "), ""},
		"arguments cut":                        {args(`{"q":`), "INVALID_ENVELOPE"},
		"arguments with a key twice":           {args(`{"q":1,"q":2}`), "INVALID_ENVELOPE"},
		"arguments with half a surrogate pair": {args(`{"q":"\ud800"}`), "INVALID_ENVELOPE"},
		"a number of 400 digits":               {args(`{"q":` + strings.Repeat("9", 400) + `}`), ""},
		"no schema takes any object":           {tool("read_file"), ""},
		"a tool that nobody declared":          {tool("rm -rf"), "TOOL_NOT_FOUND"},
		"a tool without a grant":               {tool("salaries"), "UNAUTHORIZED"},
		"saying authorized grants nothing":     {change(func(a *attempt) { a.tool, a.more = "salaries", `,"authorized":true` }), "UNAUTHORIZED"},
		"a tool that writes":                   {tool("delete_file"), "NOT_READ_ONLY"},
		"saying read-only changes nothing":     {change(func(a *attempt) { a.tool, a.more = "delete_file", `,"read_only":true` }), "NOT_READ_ONLY"},
		"saying both of what is so":            {more(`,"authorized":true,"read_only":true`), ""},
		"an id with a colon":                   {change(func(a *attempt) { a.id = "functions.get:0" }), "INVALID_TOOL_CALL_ID"},
		"no id":                                {change(func(a *attempt) { a.id = "" }), "INVALID_TOOL_CALL_ID"},
	} {
		_, steps := c.attempt.make(t)
		want := "tool.reserved"
		if c.want != "" {
			want = "tool.rejected " + c.want
		}
		expect(t, name, steps, want)
	}
}

func TestTheInputSchemaDoesNoWorkForACallThatIsRefusedAnyway(t *testing.T) {
	rules := testRules()
	asked := 0
	tool := rules.Policy.Tools["search"]
	tool.Input = schemaFunc(func([]byte) error { asked++; return nil })
	rules.Policy.Tools["search"] = tool
	d := newDriver(t, rules)
	d.start()
	expect(t, "too large", d.call("c1", "search", `{"q":"`+strings.Repeat("x", 1000)+`"}`), "tool.rejected REQUEST_TOO_LARGE")
	expect(t, "no object", d.call("c1", "search", `[]`), "tool.rejected INVALID_INPUT")
	if asked != 0 {
		t.Errorf("the schema was asked %d times, want 0", asked)
	}
	expect(t, "small", d.call("c1", "search", `{}`), "tool.reserved")
	if asked != 1 {
		t.Errorf("the schema was asked %d times, want 1", asked)
	}
}

func TestARefusalStandsInTheHistoryOnlyWhereTheSpeakerOwnsARunningRun(t *testing.T) {
	for _, fault := range faults {
		a := goodAttempt()
		fault.damage(a)
		d, steps := a.make(t)
		outside := map[events.Code]bool{"RUN_NOT_FOUND": true, "RUN_NOT_OWNED": true, "RUN_NOT_ACTIVE": true}[fault.code]
		f := steps[0].fact
		if got := f.Sequence == 0; got != outside {
			t.Errorf("%s: outside %v, want %v", fault.code, got, outside)
		}
		if f.Agent != a.agent {
			t.Errorf("%s: told to %s, want %s", fault.code, f.Agent, a.agent)
		}
		if outside {
			if want := fmt.Sprintf("in-%d", d.inbound); f.OutsideKey != want || f.PreviousDigest != "" {
				t.Errorf("%s: outside under %q with previous digest %q, want %q and none", fault.code, f.OutsideKey, f.PreviousDigest, want)
			}
		}
	}
}

func TestAStrangerCannotLengthenAnothersHistory(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	length := len(d.history["r1"])
	for _, verb := range []events.Verb{events.VerbRunStart, events.VerbToolCall, events.VerbRunCancel, events.VerbRunFinish} {
		for _, data := range []string{
			``, `{}`, startData("r1", minute, limitsJSON()), callData("r1", "c1", "search", `{"q":"x"}`), callData("r1", "c{", "search", `{}`), callData("r2", "c1", "search", `{}`),
			`{"run_id":"r1","reason":"USER_REQUESTED"}`, `{"run_id":"r1","outcome":"SUCCESS"}`,
		} {
			for _, s := range d.agent("mallory", "r1", verb, data) {
				if s.fact == nil || s.fact.Sequence != 0 || s.fact.Agent != "mallory" {
					t.Errorf("%s %s: got %q", verb, data, s.brief())
				}
			}
		}
	}
	d.resultOf("mallory", "c1", "r1.2", succeeded(`1`))
	if got := len(d.history["r1"]); got != length {
		t.Errorf("the history grew from %d to %d facts", length, got)
	}
	if run := d.runs["r1"]; run.Phase != harness.PhaseRunning || run.Usage.ToolCalls != 0 {
		t.Errorf("the run changed: %+v", run)
	}
}

func TestARefusalRepeatsAnIdOnlyWhereItHasTheFormOfOne(t *testing.T) {
	for id, want := range map[string]string{"c 1": "", "c{1}": "", "functions.get:0": "functions.get:0", strings.Repeat("x", 2049): "", "c1": "c1"} {
		d := newDriver(t, testRules())
		d.start()
		p := payload[*events.ToolRejected](t, d.call(id, "nope", `{}`), 0)
		if p.ToolCallID != want || p.Tool != "nope" || p.RunID != "r1" {
			t.Errorf("%.20q: told as %+v, want id %q", id, p, want)
		}
	}
	d := newDriver(t, testRules())
	d.start()
	p := payload[*events.ToolRejected](t, d.agent("alice", "r1", events.VerbToolCall, `{"tool":"search","more":1}`), 0)
	if p.ToolCallID != "" || p.Tool != "" || p.Code != "INVALID_ENVELOPE" {
		t.Errorf("of data that do not fit: %+v", p)
	}
}

func TestARefusalTellsTheOperatorWhyAndTheAgentOnlyTheSentence(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	steps := d.call("c1", "search", `{"x":1}`)
	if got := steps[0].detail; got != "q is missing" {
		t.Errorf("the detail is %q", got)
	}
	steps = d.agent("bob", "r9", events.VerbToolCall, `{"more":1}`) // an answer outside every history
	if got := steps[0].detail; !strings.Contains(got, "unknown object member name") {
		t.Errorf("outside: the detail is %q", got)
	}
	steps = d.agent("alice", "r9", events.VerbRunStart, `{"more":1}`)
	if got := steps[0].detail; !strings.Contains(got, "unknown object member name") {
		t.Errorf("of a start: the detail is %q", got)
	}
	steps = d.resultOf("web", "c1", "r1.2", `"more":1`)
	if got := steps[0].detail; !strings.Contains(got, "unknown object member name") {
		t.Errorf("of a result: the detail is %q", got)
	}
	if got := string(d.history["r1"][1].encoded.Data); strings.Contains(got, "q is missing") {
		t.Errorf("the fact shows the detail: %s", got)
	}
}

func TestAReservationHoldsWhatTheCallIs(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	d.now = after(3 * time.Second)
	data := callData("r1", "c|1", "search", `{ "q":1.0}`)
	p := payload[*events.ToolReserved](t, d.agent("alice", "r1", events.VerbToolCall, data), 0)
	want := events.ToolReserved{
		ToolCallID: "c|1", Tool: "search", Executor: "web", Deadline: after(13 * time.Second),
		RequestBytes: int64(len(data)), RequestDigest: events.DigestBytes([]byte(data)), ArgumentsDigest: events.DigestBytes([]byte(`{ "q":1.0}`)),
	}
	if *p != want {
		t.Errorf("got  %+v\nwant %+v", *p, want)
	}
	r := d.records["r1"]["c|1"]
	wantCause := events.Cause{Source: "/agents/alice", ID: "e2", Sequence: 2, Decision: true}
	if r.Status != events.StatusProjecting || r.Evidence != "" || r.Code != "" || r.Call != 2 || r.Cause != wantCause ||
		!r.ReservedAt.Equal(after(3*time.Second)) || !r.ExpiresAt.Equal(after(24*time.Hour+time.Minute)) || r.AgentResult != nil {
		t.Errorf("the record is %+v", r)
	}
	d.now = after(4 * time.Second)
	p = payload[*events.ToolReserved](t, d.call("c2", "read_file", `{}`), 0)
	if !p.Deadline.Equal(after(time.Minute)) {
		t.Errorf("a tool with two minutes has until %s, want the end of the run", p.Deadline)
	}
}

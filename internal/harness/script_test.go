package harness_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
	"runledger/internal/harness"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.txt")

// TestScripts plays the scripts in testdata and compares the answers with those
// that are written there; testdata/README.md explains the format.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != 12 {
		t.Fatalf("want 12 scripts, got %d (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newScript(t).play(string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("(-written +got; if the new answers are right: go test ./internal/harness -run TestScripts -update)\n%s", diff)
			}
		})
	}
}

// script plays one file.
type script struct {
	t      *testing.T
	rules  *harness.Rules
	driver *driver
	named  map[string]events.Message
	line   int
}

func newScript(t *testing.T) *script {
	rules := testRules()
	rules.Policy.Tools, rules.Policy.Grants = map[string]harness.Tool{}, map[string][]string{}
	rules.Policy.Progress = harness.ProgressLimits{MaxRepairs: 3, MaxRepeats: 10, Grace: 30 * time.Second}
	return &script{t: t, rules: rules, driver: newDriver(t, rules), named: map[string]events.Message{}}
}

// play gives the script with the answers that it got in place of its own.
func (s *script) play(text string) string {
	s.t.Helper()
	var out []string
	for i, line := range strings.Split(text, "\n") {
		s.line = i + 1
		if strings.HasPrefix(line, " ") {
			continue // an answer
		}
		out = append(out, line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "given "):
			s.given(strings.TrimPrefix(line, "given "))
		default:
			out = append(out, s.event(line)...)
		}
	}
	return strings.Join(out, "\n")
}

func (s *script) check(ok bool, want string) {
	s.t.Helper()
	if !ok {
		s.t.Fatalf("line %d: want %s", s.line, want)
	}
}

func (s *script) duration(text string) time.Duration {
	s.t.Helper()
	d, err := time.ParseDuration(text)
	s.check(err == nil, fmt.Sprintf("a duration such as 10s, got %q", text))
	return d
}

func (s *script) number(text string) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	s.check(err == nil, fmt.Sprintf("a number, got %q", text))
	return n
}

// given sets up the policy.
func (s *script) given(line string) {
	s.t.Helper()
	what, rest, found := strings.Cut(line, ": ")
	s.check(found, "given <what>: <how>")
	words := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == ',' })
	name, isTool := strings.CutPrefix(what, "tool ")
	agent, isGrant := strings.CutPrefix(what, "grant ")
	switch {
	case isTool:
		s.tool(name, words)
	case isGrant:
		s.rules.Policy.Grants[agent] = words
	case what == "bytes":
		limits := &s.rules.Policy.Bytes
		fields := map[string]*int64{"request": &limits.Request, "raw": &limits.RawResponse, "record": &limits.Record, "result": &limits.AgentResult}
		for pair := range slices.Chunk(words, 2) {
			s.check(len(pair) == 2 && fields[pair[0]] != nil, "request, raw, record or result, each with its bytes")
			*fields[pair[0]] = s.number(pair[1])
		}
	case what == "progress":
		s.progress(words)
	default:
		s.check(false, "given tool, grant, bytes or progress")
	}
}

func (s *script) progress(words []string) {
	s.t.Helper()
	limits := &s.rules.Policy.Progress
	for pair := range slices.Chunk(words, 2) {
		s.check(len(pair) == 2, "repairs, repeats or grace, each with its value")
		switch pair[0] {
		case "repairs":
			limits.MaxRepairs = int(s.number(pair[1]))
		case "repeats":
			limits.MaxRepeats = int(s.number(pair[1]))
		case "grace":
			limits.Grace = s.duration(pair[1])
		default:
			s.check(false, "repairs, repeats or grace")
		}
	}
}

func (s *script) tool(name string, words []string) {
	s.t.Helper()
	tool := harness.Tool{Name: name, Projector: projectorFunc(echo)}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; word {
		case "executor":
			i++
			tool.Executor = words[i]
		case "read-only":
			tool.ReadOnly = true
		case "writes":
		case "needs-q":
			tool.Input = schemaFunc(wantsQ)
		case "panics":
			tool.Projector = projectorFunc(func([]byte) (harness.Projection, error) { panic("broken") })
		case "wrong-status":
			tool.Projector = projectorFunc(func(raw []byte) (harness.Projection, error) {
				return harness.Projection{Result: raw, Evidence: "SURE"}, nil
			})
		default:
			tool.Timeout = s.duration(word)
		}
	}
	s.rules.Policy.Tools[name] = tool
}

// event sends one event and gives the answers.
func (s *script) event(line string) []string {
	s.t.Helper()
	at, rest, _ := strings.Cut(line, " ")
	s.driver.now = after(s.duration(at))
	rest = strings.TrimSpace(rest)
	name := ""
	if i := strings.LastIndex(rest, " as "); i >= 0 {
		rest, name = rest[:i], rest[i+len(" as "):]
	}
	m := s.message(rest)
	if name != "" {
		s.named[name] = m
	}
	steps := s.driver.deliver(m)
	if len(steps) == 0 {
		return []string{"        nothing is due"}
	}
	var out []string
	for _, step := range steps {
		out = append(out, strings.TrimRight("        "+trace(step), " "))
	}
	return out
}

func (s *script) message(line string) events.Message {
	s.t.Helper()
	words := strings.SplitN(line, " ", 5)
	switch {
	case words[0] == "tick" && len(words) == 2:
		return s.driver.message(events.RoleTimer, "", words[1], events.VerbTick, "")
	case words[0] == "again" && len(words) == 2:
		m, ok := s.named[words[1]]
		s.check(ok, "the name of an event before")
		return s.driver.again(m)
	}
	s.check(len(words) >= 4, "<role> <name> <verb> <run> …")
	role, who, verb, run := events.Role(words[0]), words[1], words[2], words[3]
	rest := strings.Join(words[4:], " ")
	switch verb {
	case "start":
		return s.driver.message(role, who, run, events.VerbRunStart, s.start(run, rest))
	case "call":
		return s.driver.message(role, who, run, events.VerbToolCall, s.call(run, rest))
	case "result":
		return s.driver.message(role, who, run, events.VerbToolResult, s.result(run, rest))
	case "ask":
		id, operation, _ := strings.Cut(rest, " ")
		return s.driver.message(role, who, run, events.VerbModelCall, modelData(run, id, operation))
	case "tell":
		return s.driver.message(role, who, run, events.VerbModelReport, s.attempt(run, rest))
	case "report":
		return s.driver.message(role, who, run, events.VerbProgressReport, s.report(run, rest))
	case "finish":
		return s.driver.message(role, who, run, events.VerbRunFinish, fmt.Sprintf(`{"run_id":%q,"outcome":%q}`, run, rest))
	case "cancel":
		return s.driver.message(role, who, run, events.VerbRunCancel, fmt.Sprintf(`{"run_id":%q,"reason":%q}`, run, rest))
	}
	return s.driver.message(role, who, run, events.Verb(verb), rest) // the data as they stand
}

// start reads "for 60s" and then limits: "tool_calls 2, run_bytes 500".
func (s *script) start(run, rest string) string {
	s.t.Helper()
	words := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == ',' })
	s.check(len(words) >= 2 && len(words)%2 == 0 && words[0] == "for", "for <duration> <limit> <number>, …")
	deadline := s.driver.now.Add(s.duration(words[1])).Format(time.RFC3339Nano)
	var limits []string
	for pair := range slices.Chunk(words[2:], 2) {
		limits = append(limits, strconv.Quote(pair[0])+":"+pair[1])
	}
	return startData(run, strconv.Quote(deadline), limitsJSON(limits...))
}

// call reads "c1 search {…}", and "authorized=false" or "read_only=false" after it.
func (s *script) call(run, rest string) string {
	s.t.Helper()
	words := strings.SplitN(rest, " ", 3)
	s.check(len(words) == 3, "<id> <tool> <arguments>")
	more := ""
	for _, member := range []string{"authorized", "read_only"} {
		for _, value := range []string{"true", "false"} {
			if cut, found := strings.CutSuffix(words[2], " "+member+"="+value); found {
				words[2], more = cut, more+`,"`+member+`":`+value
			}
		}
	}
	return strings.TrimSuffix(callData(run, words[0], words[1], words[2]), "}") + more + "}"
}

// attempt reads "o1 INTENT_ROUTER 1 SUCCEEDED" or "… FAILED TRANSPORT", and the
// usage after it, such as "800+50 tokens", where it is known.
func (s *script) attempt(run, rest string) string {
	s.t.Helper()
	rest, known := strings.CutSuffix(rest, " tokens")
	words := strings.Fields(rest)
	usage := "null"
	if known {
		in, out, ok := strings.Cut(words[len(words)-1], "+")
		s.check(ok, "<input>+<output> tokens")
		usage = fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d}`, s.number(in), s.number(out))
		words = words[:len(words)-1]
	}
	s.check(len(words) == 4 || len(words) == 5, "<id> <operation> <attempt> SUCCEEDED or FAILED <class>, and <input>+<output> tokens")
	members := fmt.Sprintf(`"outcome":%q,"usage":%s`, words[3], usage)
	if len(words) == 5 {
		members += fmt.Sprintf(`,"failure":%q`, words[4])
	}
	return modelReportData(run, words[0], words[1], int(s.number(words[2])), members)
}

// report reads "1: some words by c1 c2; no other words by c3", or "1 final: …".
// A claim that begins with "no " is negative.
func (s *script) report(run, rest string) string {
	s.t.Helper()
	step, list, found := strings.Cut(rest, ":")
	s.check(found, "<step>: <claim> by <ids>; <claim> by <ids>")
	step, final := strings.CutSuffix(step, " final")
	var claims []string
	for _, text := range strings.Split(list, ";") {
		if text = strings.TrimSpace(text); text != "" {
			words, ids, _ := strings.Cut(text, " by ")
			claims = append(claims, claim(words, strings.Fields(ids)...))
		}
	}
	return reportData(run, int(s.number(step)), final, claims...)
}

// result reads "c1 SUCCEEDED [1]", "c1 FAILED" or "c1 TOO_LARGE 5000", and
// "dispatch=r1.9" before the outcome where it is not the true one.
func (s *script) result(run, rest string) string {
	s.t.Helper()
	id, rest, _ := strings.Cut(rest, " ")
	dispatch := events.DispatchID(run, s.driver.records[run][id].Call)
	if after, found := strings.CutPrefix(rest, "dispatch="); found {
		dispatch, rest, _ = strings.Cut(after, " ")
	}
	outcome, value, _ := strings.Cut(rest, " ")
	members := fmt.Sprintf(`"outcome":%q`, outcome)
	switch {
	case outcome == string(events.ResultTooLarge):
		members += `,"size":` + value
	case value != "":
		members += `,"result":` + value
	}
	return resultData(run, id, dispatch, members)
}

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"runledger/internal/demo"
	"runledger/internal/policy"
	"runledger/internal/replay"
	"runledger/internal/testenv"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/rs/zerolog"
)

func TestReplayRefusesWhatCannotBeMeantAndSaysWhatIsWanted(t *testing.T) {
	for args, says := range map[string]string{
		"verify --since yesterday":                `--since: want a duration such as 2h, or an instant such as 2026-03-01T08:00:00Z, got "yesterday"`,
		"verify --since -2h":                      `--since: want a duration`,
		"verify --run a.b":                        `--run: want 1 to 128 of A-Z a-z 0-9 _ -, got "a.b"`,
		"verify --since 2h --from-seq 7":          "--since and --from-seq: want one of them, got both",
		"verify --store perhaps":                  `--store: want auto, always or never, got "perhaps"`,
		"verify --clock-skew -1s":                 "--clock-skew: want a positive duration such as 1m, got -1s",
		"verify --max-differences 0":              "--max-differences: want 1 or more, got 0",
		"verify --policy none.yaml":               "policy: open none.yaml",
		"verify --policy x --store never":         "--policy and --store: want one of them, got both",
		"verify --policy x --max-differences 3":   "--policy and --max-differences: want one of them, got both",
		"verify --policy x --clock-skew 1m":       "--policy and --clock-skew: want one of them, got both",
		"verify --from-seq -1":                    "--from-seq: want a sequence of IN, 1 or more, got -1",
		"verify --policy x --strict":              "--policy and --strict: want one of them, got both",
		"verify --policy x --run a --run b":       "--policy: want at most one --run beside it, got 2",
		"verify --subjects-partitions 8":          "unknown flag: --subjects-partitions",
		"rebuild --since 2h --run a":              "--since and --run: want one of them, got both",
		"facts --agent a.b":                       `--agent: want 1 to 128 of A-Z a-z 0-9 _ -, got "a.b"`,
		"facts --run " + strings.Repeat("x", 129): "--run: want 1 to 128",
		"rebuild all":                             `rebuild takes no arguments, got "all"`,
		"verfy":                                   `unknown command "verfy"; did you mean "verify"?`,
	} {
		try(t, append([]string{"replay"}, strings.Fields(args)...)...).want(t, exitUsage, says)
	}
}

func TestReplaySaysWhichSettingLedToAServerThatDoesNotAnswer(t *testing.T) {
	for _, command := range []string{"verify", "rebuild", "facts"} {
		try(t, "replay", command, "--nats-url", "nats://127.0.0.1:1").want(t, exitFailed, "no NATS server answers at nats://127.0.0.1:1", "--nats-url")
	}
}

func TestReplayWithoutStreamsSaysHowTheyAreMade(t *testing.T) {
	url := testenv.StartNATS(t).URL
	for _, command := range []string{"verify", "facts", "rebuild", "rebuild --run a"} {
		try(t, append(append([]string{"replay"}, strings.Fields(command)...), "--nats-url", url)...).
			want(t, exitFailed, "these servers hold no streams of ours", "processor streams apply")
	}
}

func TestReplayOfAnotherPrefixSaysForWhichTheStreamsWereMade(t *testing.T) {
	nats, redis, rules := testenv.StartNATS(t), testenv.StartMiniredis(t), airline(t)
	try(t, "streams", "apply", "--policy", rules, "--nats-url", nats.URL, "--subjects-prefix", "mine.v1").want(t, 0)
	for _, command := range []string{"verify", "verify --run a", "verify --since 1h", "verify --policy " + rules, "facts", "facts --since 1h", "rebuild", "rebuild --run a", "rebuild --since 1h"} {
		args := append([]string{"replay"}, strings.Fields(command)...)
		if args[1] != "facts" {
			args = append(args, "--redis-addresses", redis.Addr())
		}
		got := try(t, append(args, "--nats-url", nats.URL)...)
		got.want(t, exitFailed, `was made for the prefix "mine.v1", asked for "harness.v1"; set subjects.prefix (--subjects-prefix)`)
		if got.out != "" {
			t.Errorf("%s: it prints %q, want nothing", command, got.out)
		}
	}
}

func TestVerifyOfNothingFailsUnlessOnlyAPartWasAskedFor(t *testing.T) {
	nats, rules := testenv.StartNATS(t), airline(t)
	on := func(args ...string) ran {
		return try(t, append(args, "--nats-url", nats.URL)...)
	}
	on("streams", "apply", "--policy", rules, "--subjects-partitions", "3").want(t, 0)
	verify := []string{"replay", "verify", "--store", "never"}
	on(verify...).want(t, exitFailed, `nothing was checked: the streams hold no events and no facts below "harness.v1"`)
	on("replay", "verify", "--policy", rules).want(t, exitFailed, "nothing was decided again")
	on(append(verify, "--since", "1h")...).want(t, 0)
	on(append(verify, "--run", "a", "--run", "b", "--run", "a")...).want(t, exitFailed, "processor: the streams have nothing of run a, b\n")
	if _, err := nats.Conn(t).Request("harness.v1.in.agent.me.a.run.finish", []byte("{}"), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	on(verify...).want(t, exitFailed, "nothing was checked: there are no facts, and 1 event not decided yet; is a processor serving?")
}

// TestVerifyThatLosesRedisTellsWhatItFoundUntilThen has a Redis that answers the
// first question and closes the connection at every other one.
func TestVerifyThatLosesRedisTellsWhatItFoundUntilThen(t *testing.T) {
	l, err := startLocal(t.Context(), policy.Airline(), "airline", localPorts{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	}()
	transcripts, err := demo.BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := demo.Play(t.Context(), demo.PlayConfig{Conn: l.js.Conn(), Transcripts: transcripts[:1]}); err != nil {
		t.Fatal(err)
	}
	redis := testenv.StartMiniredis(t)
	redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
		if command == "PING" || command == "HELLO" || command == "CLIENT" {
			return false
		}
		peer.Close()
		return true
	})
	verify := []string{"replay", "verify", "--nats-url", l.nats.URL(), "--redis-addresses", redis.Addr(), "--run", "a", "--run", transcripts[0].Name}
	got := try(t, verify...)
	got.want(t, exitFailed, "compare with the store")
	if !strings.HasPrefix(got.out, endedEarly) || !strings.Contains(got.out, "decided again and the same") || !strings.Contains(got.out, "no such run  a\n") {
		t.Errorf("it prints\n%s\nwant what was found until then", got.out)
	}
	got = try(t, append(verify, "--json")...)
	if got.want(t, exitFailed); !strings.Contains(got.out, `"no_such_runs":["a"],"ended_early":true`) {
		t.Errorf("it prints\n%s\nwant that it ended early", got.out)
	}
	got = try(t, append(verify, "--store", "never")...)
	got.want(t, exitFailed, "processor: the streams have nothing of run a\n")
	if !strings.Contains(got.out, "runs         1, 1 ended with run.terminated\n") {
		t.Errorf("it prints\n%s\nwant the run that is there verified all the same", got.out)
	}
}

func TestReportNamesWhatWasNotCheckedAndWhyRedisWasLeftOut(t *testing.T) {
	var out bytes.Buffer
	report := &replay.Report{
		Facts: 7, Checked: 5, Events: 4, Ignored: 1, Letters: 1, Runs: 2, Ended: 1, DifferenceCount: 3,
		Unchecked: map[replay.Unchecked]int64{replay.UncheckedEventAged: 2},
		Differences: []replay.Difference{{
			What: replay.Changed, Run: "r", Sequence: 2, Kind: "tool.reserved", Stream: 9, Event: 8, Verb: "tool.call", Why: "the rules give another fact",
			Fields: []replay.Field{{Name: "data.tool", Expected: `"a"`, Got: `"b"`}},
		}},
	}
	if err := writeReport(&out, report, "not compared: no answer", false); err != nil {
		t.Fatal(err)
	}
	want := `CHANGED  run r, fact 2 (tool.reserved), RUNS 9, cause IN 8 (tool.call): the rules give another fact
    data.tool
      expected "a"
      got      "b"
… and 2 more

facts        7 read, 5 decided again and the same
events       4, 1 rightly led to nothing, 1 kept for the operator
runs         2, 1 ended with run.terminated
Redis        not compared: no answer
not checked  2 EVENT_NOT_IN_IN
3 differences
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestReportLeavesOutWhatThereIsNotAndSaysThatItEndedEarly(t *testing.T) {
	var out bytes.Buffer
	report := &replay.Report{
		Facts: 2, Checked: 2, Events: 2, Runs: 1, EndedEarly: true, NoSuchRuns: []string{"x"},
		Store: &replay.StoreReport{Compared: 1, Missing: 2},
	}
	if err := writeReport(&out, report, "", false); err != nil {
		t.Fatal(err)
	}
	want := `ended early; until then:

facts        2 read, 2 decided again and the same
events       2
runs         1
Redis        1 last fact the same, 2 missing
no such run  x
no difference until then
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTheLastLineOfAReportSaysWhetherAllWasChecked(t *testing.T) {
	late := map[replay.Unchecked]int64{replay.UncheckedUndecided: 2, replay.UncheckedGivenUp: 1}
	for last, r := range map[string]*replay.Report{
		"all checked":   {Facts: 2, Checked: 2},
		"3 not checked": {Facts: 2, Checked: 2, Unchecked: late},
		"1 difference":  {Facts: 2, Checked: 1, FactsDiffer: 1, DifferenceCount: 1, Unchecked: late},
	} {
		var out bytes.Buffer
		if err := writeReport(&out, r, "left out", false); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), "\n"+last+"\n") {
			t.Errorf("got\n%s\nwant the last line %q", out.String(), last)
		}
	}
	var out bytes.Buffer
	report := &replay.Report{Facts: 9, Checked: 9, Dispatches: 4, LettersPurged: true, NoPosition: 2, StoredLate: 1}
	if err := writeReport(&out, report, "left out", false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"dispatches   4 as", "no position is known of 2 partitions that have events", "note         INVALID no longer has", "1 fact stored more than 5 minutes"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", out.String(), want)
		}
	}
}

func TestStrictFailsOnWhatIsNotCheckedAndIsDecided(t *testing.T) {
	r := &replay.Report{Facts: 1, Checked: 1, Unchecked: map[replay.Unchecked]int64{replay.UncheckedUndecided: 2}}
	if err := judgeReport(r, "p", replay.Since{}, true); err != nil {
		t.Errorf("got %v, want none: nothing has decided those", err)
	}
	r.Unchecked[replay.UncheckedGivenUp] = 1
	if err := judgeReport(r, "p", replay.Since{}, true); err == nil || !strings.Contains(err.Error(), "not checked: 1,") {
		t.Errorf("got %v, want that one is not checked", err)
	}
	if err := judgeReport(r, "p", replay.Since{}, false); err != nil {
		t.Errorf("got %v without --strict, want none", err)
	}
}

func TestComparisonIsATableThatAPersonReads(t *testing.T) {
	var out bytes.Buffer
	err := writeComparison(&out, &replay.Comparison{
		Events: 9, FellAway: 2, NoResult: 1,
		Codes:  []replay.Row{{What: "call", Code: "RESERVED", Recorded: 3, WouldBe: 1}, {What: "start", Code: "ACCEPTED", Recorded: 2, WouldBe: 2}},
		Limits: []replay.Row{{What: "limit", Code: "tool_calls", WouldBe: 1}},
		Agents: []replay.AgentRow{{Agent: "me", Reserved: replay.Pair{Recorded: 3, WouldBe: 1}, Starts: replay.Pair{Recorded: 2, WouldBe: 2}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"9 events decided again\n",
		"call      RESERVED                             3         1          -2\n",
		"start     ACCEPTED                             2         2           =\n",
		"limit     tool_calls                           0         1          +1\n",
		"me     2             3 → 1", "2 results fell away", "1 call would have been reserved",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", out.String(), want)
		}
	}
}

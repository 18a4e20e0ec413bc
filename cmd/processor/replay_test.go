package main

import (
	"bytes"
	"strings"
	"testing"

	"runledger/internal/replay"
	"runledger/internal/testenv"
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
	for _, command := range []string{"verify", "facts"} {
		try(t, "replay", command, "--nats-url", url).want(t, exitFailed, "these servers hold no streams of ours", "processor streams apply")
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
events       4, of which 1 rightly led to nothing and 1 are kept for the operator
runs         2, of which 1 end with run.terminated
Redis        not compared: no answer
not checked  2 EVENT_NOT_IN_IN
differences  3
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
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
		"me     2             3 → 1", "2 results fell away", "1 calls would have been reserved that were not",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", out.String(), want)
		}
	}
}

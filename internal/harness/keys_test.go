package harness_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"runledger/internal/harness"
)

// keys gives the factories that refuse and that allow a colon.
func keys(t *testing.T) (strict, colons harness.ToolCallKeyFactory) {
	t.Helper()
	strict, err := harness.NewToolCallKeyFactory("runledger", false)
	if err != nil {
		t.Fatal(err)
	}
	colons, err = harness.NewToolCallKeyFactory("runledger", true)
	if err != nil {
		t.Fatal(err)
	}
	return strict, colons
}

func TestRealToolCallIdsGetTheVerdictOfTheirList(t *testing.T) {
	strict, colons := keys(t)
	file, err := os.Open("testdata/tool-call-ids.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	counts := map[string]int{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var line struct {
			ID       string `json:"tool_call_id"`
			SeenFrom string `json:"seen_from"`
			Verdict  string `json:"verdict"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		counts[line.Verdict]++
		for _, c := range []struct {
			factory  harness.ToolCallKeyFactory
			accepted bool
		}{{strict, line.Verdict == "accept"}, {colons, line.Verdict != "reject"}} {
			want := ""
			if c.accepted {
				want = "runledger:{run-1}:" + line.ID
			}
			if key, err := c.factory.Key("run-1", line.ID); key != want || (err == nil) != c.accepted {
				t.Errorf("%.60q (%s): key %.80q, %v, want %.80q", line.ID, line.SeenFrom, key, err, want)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if counts["accept"] != 24 || counts["accept only where ids may hold a colon"] != 3 || counts["reject"] != 9 {
		t.Errorf("the list has %v", counts)
	}
}

func TestAToolCallIdIsTakenByteForByteOrRefused(t *testing.T) {
	for c := range 256 {
		id := "a" + string([]byte{byte(c)}) + "b"
		allowed := strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.|/+=~@", rune(c)) && c < 0x80
		if err := harness.CheckToolCallID(id, false); (err == nil) != allowed {
			t.Errorf("byte %#x: %v, want allowed %v", c, err, allowed)
		}
		if err := harness.CheckToolCallID(id, true); (err == nil) != (allowed || c == ':') {
			t.Errorf("byte %#x where colons may be: %v", c, err)
		}
	}
	for id, allowed := range map[string]bool{"": false, "a": true, strings.Repeat("a", 2048): true, strings.Repeat("a", 2049): false} {
		if err := harness.CheckToolCallID(id, false); (err == nil) != allowed {
			t.Errorf("%d bytes: %v, want allowed %v", len(id), err, allowed)
		}
	}
}

func TestAKeyIsMadeOfSafeSegmentsOnly(t *testing.T) {
	strict, colons := keys(t)
	for _, run := range []string{"", " ", "r:1", "r}1", "{r1}", "r.1", "r*", "é", strings.Repeat("r", 129)} {
		if key, err := strict.Key(run, "c1"); err == nil || key != "" {
			t.Errorf("run %.20q: key %q", run, key)
		}
	}
	for _, prefix := range []string{"", " ", "a:b", "a{", "a.b", strings.Repeat("p", 129)} {
		if _, err := harness.NewToolCallKeyFactory(prefix, false); err == nil {
			t.Errorf("prefix %.20q: accepted", prefix)
		}
	}
	// The id is the last segment, so that two calls never share a key.
	a, err := colons.Key("r1", "x:y")
	if err != nil || a != "runledger:{r1}:x:y" {
		t.Errorf("%q, %v", a, err)
	}
}

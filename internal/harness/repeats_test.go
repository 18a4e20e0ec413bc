package harness_test

import (
	"fmt"
	"testing"
	"time"

	"runledger/internal/harness"
)

// patient is r1 of alice, with limits for many calls.
func patient(t *testing.T, rules *harness.Rules) *driver {
	t.Helper()
	d := newDriver(t, rules)
	d.start(`"tool_calls":1000`, `"calls_per_tool":1000`)
	return d
}

// repeats makes calls of r1 one after the other, each settled at once, and tells
// after which of them the run was released; 0 if after none.
func repeats(t *testing.T, d *driver, calls ...[3]string) int {
	t.Helper()
	for i, c := range calls {
		tool, arguments, result := c[0], c[1], c[2]
		id := fmt.Sprintf("c%d", i)
		if got := brief(d.call(id, tool, arguments))[0]; got != "tool.reserved" {
			t.Fatalf("call %d: %s", i+1, got)
		}
		steps := d.result(d.records["r1"][id].Executor, id, result)
		if last := steps[len(steps)-1].brief(); last == "run.released PROGRESS_STALLED due" {
			return i + 1
		}
	}
	return 0
}

// A policy in tests allows three repeats.
func TestARunIsStalledWhenOneCallComesToOneResultTooOften(t *testing.T) {
	a := [3]string{"search", `{"q":1}`, succeeded(`[1]`)}
	b := [3]string{"search", `{"q":1}`, succeeded(`[2]`)}
	other := [3]string{"search", `{"q":2}`, succeeded(`[1]`)}
	spaced := [3]string{"search", `{"q": 1}`, succeeded(`[1]`)}
	file := [3]string{"read_file", `{"q":1}`, succeeded(`[1]`)}
	failed := [3]string{"search", `{"q":1}`, `"outcome":"FAILED","result":"down"`}
	failedElse := [3]string{"search", `{"q":1}`, `"outcome":"FAILED","result":"still down"`}
	large := [3]string{"search", `{"q":1}`, `"outcome":"TOO_LARGE","size":5000000`}
	larger := [3]string{"search", `{"q":1}`, `"outcome":"TOO_LARGE","size":6000000`}
	for name, c := range map[string]struct {
		calls [][3]string
		want  int
	}{
		"three times":                         {[][3]string{a, a, a}, 0},
		"a fourth time":                       {[][3]string{a, a, a, a}, 4},
		"another result":                      {[][3]string{a, b, a, b, a, b}, 0},
		"another result resets nothing":       {[][3]string{a, b, a, b, a, b, a}, 7},
		"other arguments count apart":         {[][3]string{a, other, a, other, a, other}, 0},
		"other arguments reset nothing":       {[][3]string{a, other, a, other, a, other, other}, 7},
		"arguments are compared as bytes":     {[][3]string{a, spaced, a, spaced, a, spaced}, 0},
		"another tool counts apart":           {[][3]string{a, file, a, file, a, file}, 0},
		"a failure is a result":               {[][3]string{failed, failed, failed, failed}, 4},
		"a failure that says something else":  {[][3]string{failed, failedElse, failed, failedElse, failed, failedElse}, 0},
		"a result that is too large":          {[][3]string{large, larger, large, larger}, 4}, // nobody has seen how they differ
		"a success and failures do not mix":   {[][3]string{a, failed, a, failed, a, failed}, 0},
		"a result that nobody can use, twice": {[][3]string{large, large}, 0},
	} {
		if got := repeats(t, patient(t, testRules()), c.calls...); got != c.want {
			t.Errorf("%s: released after call %d, want %d", name, got, c.want)
		}
	}
}

func TestTheRepeatsThatAPolicyAllowsAreExact(t *testing.T) {
	a := [3]string{"search", `{"q":1}`, succeeded(`[1]`)}
	for allowed := 1; allowed < 5; allowed++ {
		rules := testRules()
		rules.Policy.Progress.MaxRepeats = allowed
		if got := repeats(t, patient(t, rules), a, a, a, a, a, a, a); got != allowed+1 {
			t.Errorf("%d allowed: released after call %d, want %d", allowed, got, allowed+1)
		}
	}
}

func TestCallsThatTimeOutAgainAndAgainStallARun(t *testing.T) {
	d := newDriver(t, testRules())
	d.start()
	for i := range 4 {
		d.call(fmt.Sprintf("c%d", i), "search", `{"q":1}`)
		d.now = d.now.Add(10 * time.Second)
		want := []string{"tool.settled ERROR TOOL_TIMEOUT due"}
		if i == 3 {
			want = append(want, "run.released PROGRESS_STALLED due")
		}
		expect(t, fmt.Sprintf("call %d", i+1), d.tick(), want...)
	}
}

func TestTheMemoryOfRepeatsIsBoundedAndForgetsTheOldest(t *testing.T) {
	rules := testRules()
	rules.Policy.Progress.MaxRepeats = 1
	different := func(i int) [3]string { return [3]string{"search", fmt.Sprintf(`{"q":%d}`, i), succeeded(`[1]`)} }
	for apart, want := range map[int]int{
		63: 65, // 63 others between the two: the first is the oldest that is remembered
		64: 0,  // one more, and it is forgotten
	} {
		calls := [][3]string{different(-1)}
		for i := range apart {
			calls = append(calls, different(i))
		}
		d := patient(t, rules)
		if got := repeats(t, d, append(calls, different(-1))...); got != want {
			t.Errorf("%d others between: released after call %d, want %d", apart, got, want)
		}
		if got := len(d.runs["r1"].Recent); got != 64 {
			t.Errorf("%d others between: %d are remembered, want 64", apart, got)
		}
	}
}

func TestARepeatThatIsSeenAgainIsRememberedAnew(t *testing.T) {
	rules := testRules()
	rules.Policy.Progress.MaxRepeats = 2
	different := func(i int) [3]string { return [3]string{"search", fmt.Sprintf(`{"q":%d}`, i), succeeded(`[1]`)} }
	calls := [][3]string{different(-1)}
	for i := range 40 {
		calls = append(calls, different(i))
	}
	calls = append(calls, different(-1)) // seen twice, and now the youngest
	for i := 40; i < 103; i++ {
		calls = append(calls, different(i))
	}
	calls = append(calls, different(-1))
	if got := repeats(t, patient(t, rules), calls...); got != len(calls) {
		t.Errorf("released after call %d, want %d, the third time", got, len(calls))
	}
}

package storetest

import (
	"strings"
	"testing"

	"runledger/internal/store"
)

func identifiers() map[string]test {
	return map[string]test{
		"ToolCallIDsAreKeptByteForByte":             toolCallIDs,
		"AnIDThatNoKeyCanHoldHasNoRecord":           impossibleIDs,
		"AnIDThatIsALongerOneIsAnotherRecord":       prefixIDs,
		"ARunNamedLikeAKeyOfAnotherIsAnotherRun":    runNames,
		"ARunNameThatNoSubjectHasIsRefusedAndAlone": impossibleRuns,
		"TheSameIDInAnotherRunIsAnotherRecord":      sameIDElsewhere,
	}
}

func toolCallIDs(t *testing.T, s Subject) {
	ids := []string{
		"call_1", "a/b", "a|b", "a.b", "..", "/", "|", "fc_0+=~@-_", strings.Repeat("x", 2048),
		strings.Repeat("/", 2048), "run", "done", "0", "-1",
	}
	h := start(t, "run")
	s.mustProject(t, h.all(0))
	for _, id := range ids {
		h.reserve(id)
		s.mustProject(t, h.all(h.run().Sequence-1))
	}
	s.wantRun(t, h.at(h.run().Sequence))
	for _, id := range ids {
		h.settle(id)
	}
	s.mustProject(t, h.all(uint64(1+len(ids))))
	s.wantAll(t, h)
}

func impossibleIDs(t *testing.T, s Subject) {
	h := start(t, "run")
	s.mustProject(t, h.all(0))
	for _, id := range []string{" ", "a b", "a\n", "{a}", "a*", "ä", strings.Repeat("x", 2049)} {
		s.wantNoRecord(t, "run", id)
		loaded, err := s.Store.Load(t.Context(), []store.Ref{{RunID: "run", ToolCallID: id}})
		if err != nil || loaded[0] != (store.Loaded{RunSequence: 1}) {
			t.Errorf("%.20q: got %+v, %v, want no record and fact 1", id, loaded, err)
		}
	}
}

func prefixIDs(t *testing.T, s Subject) {
	h := start(t, "run")
	h.reserve("a")
	h.reserve("a.b")
	h.settle("a.b")
	s.mustProject(t, h.all(0))
	s.wantAll(t, h)
}

func runNames(t *testing.T, s Subject) {
	for _, name := range []string{"run", "done", "a", "A", "-", "_", "0", strings.Repeat("r", 128)} {
		h := eventful(t, name)
		s.mustProject(t, h.all(0))
		s.wantAll(t, h)
	}
}

func impossibleRuns(t *testing.T, s Subject) {
	h := start(t, "run")
	s.mustProject(t, h.all(0))
	runs, errs := s.Store.LoadRuns(t.Context(), []string{"a b", "run", "{x}", ""})
	for _, i := range []int{0, 2, 3} {
		wantConflict(t, errs[i])
	}
	if errs[1] != nil || runs[1] == nil {
		t.Errorf("the other run: %v, %v", runs[1], errs[1])
	}
}

func sameIDElsewhere(t *testing.T, s Subject) {
	one, two := start(t, "one"), start(t, "two")
	one.reserve("a")
	two.refuse()
	two.reserve("a")
	two.settle("a")
	s.mustProject(t, one.all(0))
	s.mustProject(t, two.all(0))
	s.wantAll(t, one)
	s.wantAll(t, two)
}

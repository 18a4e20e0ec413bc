package demo

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runledger/client"
)

func TestReportIsWrongAtFirst(t *testing.T) {
	found := &client.Result{ToolCallID: "c1", Tool: "look", Evidence: client.EvidenceFound}
	nothing := &client.Result{ToolCallID: "c2", Tool: "search", Evidence: client.NoEvidence}
	looked := client.Claim{Text: "look found what was asked for", Supports: []string{"c1"}}
	searched := client.Claim{Text: "search found what was asked for", Supports: []string{"c2"}}
	invented := client.Claim{Text: "everything else is in order", Supports: []string{"never-made"}}
	for _, c := range []struct {
		results []*client.Result
		want    []client.Claim
	}{
		{nil, []client.Claim{invented}},
		{[]*client.Result{found}, []client.Claim{looked, invented}},
		{[]*client.Result{found, nothing}, []client.Claim{looked, searched}},
		{slices.Repeat([]*client.Result{found}, 40), append(slices.Repeat([]client.Claim{looked}, 31), invented)},
	} {
		want := client.Report{Step: 1, Final: true, Claims: c.want}
		if diff := cmp.Diff(want, hastyReport(c.results)); diff != "" {
			t.Errorf("%d results (-want +got):\n%s", len(c.results), diff)
		}
	}
}

func TestRepairMendsWhatIsNamedAndNothingElse(t *testing.T) {
	claims := make([]client.Claim, 4)
	for i := range claims {
		claims[i] = client.Claim{Text: fmt.Sprint("look ", i, " found what was asked for"), Supports: []string{fmt.Sprint("c", i)}}
	}
	got := repaired(claims, []client.Violation{
		{Code: client.ViolationNoEvidence, Claim: 1, ToolCallID: "c1"},
		{Code: client.ViolationUnknownCall, Claim: 2, ToolCallID: "c2"},
		{Code: client.ViolationStep, Claim: -1},
		{Code: client.ViolationUnknownCall, Claim: 9},
	})
	want := []client.Claim{
		{Text: "look 0 found what was asked for", Supports: []string{"c0"}},
		{Text: "look 1 found nothing of what was asked for", Negative: true, Supports: []string{"c1"}},
		{Text: "look 3 found what was asked for", Supports: []string{"c3"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if claims[1].Negative {
		t.Error("the report that was wrong has been changed")
	}
}

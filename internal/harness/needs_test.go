package harness_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runledger/internal/events"
	"runledger/internal/harness"
)

func TestNeedsNamesTheRecordsThatAStepLooksAt(t *testing.T) {
	running := func() *harness.Run {
		return newChain(t).mustApply(reserved("open", 1)).state.Run
	}
	ended := newChain(t).mustApply(ending).state.Run
	endingWithCalls := newChain(t).mustApply(reserved("open", 1), ending).state.Run
	told := newChain(t).mustApply(ending, progress).state.Run
	call := func(id string) *events.Inbound { return &events.Inbound{Payload: &events.ToolCall{ToolCallID: id}} }
	result := func(id string) *events.Inbound { return &events.Inbound{Payload: &events.ToolResult{ToolCallID: id}} }
	model := func(id string) *events.Inbound { return &events.Inbound{Payload: &events.ModelCall{OperationID: id}} }
	modelReport := func(id string) *events.Inbound { return &events.Inbound{Payload: &events.ModelReport{OperationID: id}} }
	report := func(supports ...[]string) *events.Inbound {
		p := &events.ProgressReport{}
		for _, ids := range supports {
			p.Claims = append(p.Claims, events.Claim{Supports: ids})
		}
		return &events.Inbound{Payload: p}
	}
	for name, c := range map[string]struct {
		run  *harness.Run
		in   *events.Inbound
		want harness.Need
	}{
		"a model call":             {running(), model("o1"), harness.Need{OperationID: "o1"}},
		"a model call of no id":    {running(), model(""), harness.Need{}},
		"one of an unsafe id":      {running(), model("o 1"), harness.Need{}},
		"a model report":           {ended, modelReport("o:1"), harness.Need{OperationID: "o:1"}},
		"a report of an unsafe id": {ended, modelReport("o{1}"), harness.Need{}},
		"a model call of no run":   {nil, model("o1"), harness.Need{}},
		"a progress report":        {running(), report([]string{"c1", "open", "c2"}, nil, []string{"c2", "", "c{3}", "c4"}), harness.Need{ToolCallIDs: []string{"c1", "c2", "c4"}}},
		"a report without claims":  {running(), report(), harness.Need{}},
		"no run":                   {nil, call("c1"), harness.Need{}},
		"no run, due":              {nil, nil, harness.Need{}},
		"a new call":               {running(), call("c1"), harness.Need{ToolCallIDs: []string{"c1"}}},
		"a call that is open":      {running(), call("open"), harness.Need{}},
		"a call of no id":          {running(), call(""), harness.Need{}},
		"a call of an unsafe id":   {running(), call("c{*}"), harness.Need{}},
		"a call with a colon":      {running(), call("f:0"), harness.Need{ToolCallIDs: []string{"f:0"}}},
		"a call of 2048 bytes":     {running(), call(strings.Repeat("c", 2048)), harness.Need{ToolCallIDs: []string{strings.Repeat("c", 2048)}}},
		"a call of 2049 bytes":     {running(), call(strings.Repeat("c", 2049)), harness.Need{}},
		"a result":                 {ended, result("c1"), harness.Need{ToolCallIDs: []string{"c1"}}},
		"a result of an open call": {running(), result("open"), harness.Need{}},
		"a result of an unsafe id": {running(), result("c 1"), harness.Need{}},
		"data that do not fit":     {running(), &events.Inbound{}, harness.Need{}},
		"a finish":                 {running(), &events.Inbound{Payload: &events.RunFinish{}}, harness.Need{}},
		"due while running":        {running(), nil, harness.Need{}},
		"due while calls are open": {endingWithCalls, nil, harness.Need{}},
		"due before progress":      {ended, nil, harness.Need{Completed: true}},
		"due after progress":       {told, nil, harness.Need{}},
	} {
		got := harness.Needs(c.run, c.in)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if empty := len(c.want.ToolCallIDs) == 0 && c.want.OperationID == "" && !c.want.Completed; got.Empty() != empty {
			t.Errorf("%s: told empty %v, want %v", name, got.Empty(), empty)
		}
	}
}

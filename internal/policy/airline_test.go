package policy_test

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/policy"
)

var airlineReadOnly = []string{
	"calculate", "get_reservation_details", "get_user_details", "list_all_airports", "search_direct_flight", "search_onestop_flight", "think",
}

var airlineOthers = []string{
	"book_reservation", "cancel_reservation", "send_certificate", "transfer_to_human_agents",
	"update_reservation_baggages", "update_reservation_flights", "update_reservation_passengers",
}

func airline(t testing.TB) *harness.Policy {
	t.Helper()
	p, err := policy.Parse(policy.AirlineName, policy.Airline())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheAirlinePolicyLetsAgentsReadAndNothingElse(t *testing.T) {
	p := airline(t)
	if want := len(airlineReadOnly) + len(airlineOthers); len(p.Tools) != want {
		t.Errorf("got %d tools, want %d", len(p.Tools), want)
	}
	for _, name := range slices.Concat(airlineReadOnly, airlineOthers) {
		tool, ok := p.Tools[name]
		if !ok || tool.ReadOnly != slices.Contains(airlineReadOnly, name) || tool.Executor != "airline" || tool.Input == nil {
			t.Errorf("%s: got %+v, declared %t", name, tool, ok)
		}
		if !p.Granted("anybody", name) {
			t.Errorf("%s is not granted", name)
		}
	}
	if got := policy.Executors(p); !slices.Equal(got, []string{"airline"}) {
		t.Errorf("executors %q", got)
	}
}

// recordedCall is one line of testdata/airline-calls.jsonl.
type recordedCall struct {
	Run       string `json:"run"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
	Content   string `json:"content"`
}

// rawResponse is how an executor publishes recorded content: the JSON that it
// is, or a JSON string.
func rawResponse(t *testing.T, content string) []byte {
	t.Helper()
	if value := jsontext.Value(content); value.IsValid() {
		return value
	}
	quoted, err := jsontext.AppendQuote(nil, content)
	if err != nil {
		t.Fatal(err)
	}
	return quoted
}

func TestRecordedAirlineCallsFitTheirSchemasAndProject(t *testing.T) {
	p := airline(t)
	data, err := os.ReadFile("testdata/airline-calls.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[events.Evidence]int{}
	calls := map[string]int{}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var call recordedCall
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		calls[call.Tool]++
		tool := p.Tools[call.Tool]
		if err := tool.Input.Check([]byte(call.Arguments)); err != nil {
			t.Errorf("%s %s: %v", call.Tool, call.Arguments, err)
		}
		if !tool.ReadOnly {
			continue
		}
		projection, err := tool.Projector.Project(rawResponse(t, call.Content))
		if err != nil {
			t.Errorf("%s: %v\n%s", call.Tool, err, call.Content)
			continue
		}
		counts[projection.Evidence]++
		empty := slices.Contains([]string{"", "[]", "{}", "null"}, call.Content)
		if empty != (projection.Evidence == events.EvidenceNone) {
			t.Errorf("%s: %s of %q", call.Tool, projection.Evidence, call.Content)
		}
	}
	for _, name := range slices.Concat(airlineReadOnly, airlineOthers) {
		if calls[name] == 0 {
			t.Errorf("no recorded call of %s", name)
		}
	}
	if counts[events.EvidenceFound] != 15 || counts[events.EvidenceNone] != 6 {
		t.Errorf("got %v, want 15 EVIDENCE_FOUND and 6 NO_EVIDENCE", counts)
	}
}

func TestTheAirlineAgentSeesNoPersonalDataOfAUser(t *testing.T) {
	raw := `{"name":{"first_name":"A","last_name":"B"},"address":{"zip":"1"},"email":"a@example.com","dob":"1990-01-01",` +
		`"payment_methods":{"c1":{"source":"credit_card","brand":"visa","last_four":"7447","id":"c1"}},` +
		`"saved_passengers":[{"first_name":"C","last_name":"D","dob":"1991-01-01"}],"membership":"gold","reservations":["X1"]}`
	want := `{"result":{"name":{"first_name":"A","last_name":"B"},"payment_methods":{"c1":{"source":"credit_card","id":"c1"}},` +
		`"saved_passengers":[{"first_name":"C","last_name":"D"}],"membership":"gold","reservations":["X1"]},"left_out":{"paths":6}}`
	projection, err := airline(t).Tools["get_user_details"].Projector.Project([]byte(raw))
	if err != nil || string(projection.Result) != want {
		t.Errorf("got  %s %v\nwant %s", projection.Result, err, want)
	}
}

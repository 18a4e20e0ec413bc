package policy_test

import (
	"testing"

	"runledger/internal/events"
)

const everyProjector = `version: 1
tools:
  - name: query
    executor: db
    read_only: true
    timeout: 10s
    projector:
      name: rows
      rows: data.records
      total: data.count
      keep: [id, state]
      scope: [data.table]
      max_rows: 2
      evidence: size(result.data.records) > 0
  - name: logs
    executor: db
    timeout: 10s
    projector: {name: log, max_samples: 1, max_string: 100}
  - name: search
    executor: db
    timeout: 10s
    projector:
      name: passages
      scope: [query]
      max_passages: 1
      evidence: >
        has(result.passages) &&
        result.passages.exists(p, p.score >= 0.5)
  - name: weather
    executor: db
    timeout: 10s
    projector: {name: mcp, keep: [temperature, {path: unit_of_measure, as: unit}]}
  - name: note
    executor: db
    timeout: 10s
    projector: {name: text, text: note.body, max_string: 4}
  - name: user
    executor: db
    timeout: 10s
    projector: {name: json, keep: [{path: user.user_id, as: id}]}
grants: [{agent: "*", tools: ["*"]}]
`

func TestEachToolHasTheProjectorThatThePolicyNames(t *testing.T) {
	p := parse(t, everyProjector)
	for _, test := range []struct {
		tool, raw, want string
		evidence        events.Evidence
	}{
		{"query", `{"data":{"table":"orders","records":[{"id":1,"state":"x","pin":9},{"id":2},{"id":3}],"count":40}}`,
			`{"rows":[{"id":1,"state":"x"},{"id":2}],"total":40,"scope":{"data":{"table":"orders"}},"left_out":{"rows":1,"columns":1}}`, events.EvidenceFound},
		{"query", `{"data":{"table":"orders","records":[],"count":0}}`, `{"rows":[],"total":0,"scope":{"data":{"table":"orders"}}}`, events.EvidenceNone},
		{"logs", `"INFO a\nERROR b\nINFO c\nINFO d"`,
			`{"lines":4,"levels":{"ERROR":1,"INFO":3},"first":{"line":1,"level":"INFO","text":"INFO a"},"last":{"line":4,"level":"INFO","text":"INFO d"},"samples":[{"line":2,"level":"ERROR","text":"ERROR b"}],"left_out":{"lines":1}}`, events.EvidenceFound},
		{"search", `{"query":"q","passages":[{"text":"a","source":"s","score":0.4},{"text":"b","score":0.3}]}`,
			`{"passages":[{"source":"s","score":0.4,"text":"a"}],"total":2,"scope":{"query":"q"},"left_out":{"passages":1}}`, events.EvidenceNone},
		{"weather", `{"content":[{"type":"text","text":"22"}],"structuredContent":{"temperature":22,"unit_of_measure":"C","station":7}}`,
			`{"structuredContent":{"temperature":22,"unit":"C"},"content":[],"left_out":{"paths":1,"content":1}}`, events.EvidenceFound},
		{"note", `{"note":{"body":"abcé"}}`, `{"text":"abc","left_out":{"bytes":2}}`, events.EvidenceFound},
		{"user", `{"user":{"user_id":7}}`, `{"result":{"user":{"id":7}}}`, events.EvidenceFound},
	} {
		got, err := p.Tools[test.tool].Projector.Project([]byte(test.raw))
		if err != nil || string(got.Result) != test.want || got.Evidence != test.evidence {
			t.Errorf("%s: got\n%s %s %v\nwant\n%s %s", test.tool, got.Result, got.Evidence, err, test.want, test.evidence)
		}
	}
}

func TestAProjectorTakesAsMuchAsARawResponseMayHaveUnlessItSaysLess(t *testing.T) {
	raw := []byte(`"0123456789"`) // 12 bytes
	for limit, fits := range map[string]bool{"bytes: {raw_response: 11}": false, "bytes: {raw_response: 12}": true, "bytes: {raw_response: 13}": true} {
		_, err := parse(t, smallest+limit+"\n").Tools["look"].Projector.Project(raw)
		if (err == nil) != fits {
			t.Errorf("%s: %v", limit, err)
		}
	}
	less := parse(t, tool("    projector: {name: text, max_input: 11B}\n"))
	if _, err := less.Tools["look"].Projector.Project(raw); err == nil {
		t.Error("max_input 11: 12 bytes were taken")
	}
}

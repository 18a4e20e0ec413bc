package bench

import (
	"encoding/json"
	"time"

	"runledger/internal/events"
)

// policyText is the policy of a measurement: one tool, whose result is reduced
// to a few bytes, and limits that nothing reaches. A call's timeout is far away,
// so that a run needs one timer and no tick comes in between.
const policyText = `version: 1
tools:
  - name: lookup
    executor: bench
    read_only: true
    timeout: 20m
    input_schema:
      type: object
      required: [account]
      properties:
        account: {type: string, minLength: 1, maxLength: 64}
        include: {type: array, maxItems: 10, items: {type: string, maxLength: 64}}
        note: {type: string, maxLength: 200000}
      additionalProperties: false
    projector: {name: json, keep: [account, balance], max_bytes: 4KiB}
grants:
  - {agent: bench, tools: [lookup]}
ceilings:
  model_calls: 1000000000
  tool_calls: 1000000000
  calls_per_tool: 1000000000
  input_tokens: 1000000000
  output_tokens: 1000000000
  total_tokens: 1000000000
  run_bytes: 1000000MiB
bytes:
  raw_response: 1MiB
  record: 2MiB
longest_run: 4h
`

// runStartData is the data of a run.start.
func runStartData(run string, now time.Time) []byte {
	const plenty = 1_000_000_000
	data, _ := json.Marshal(events.RunStart{ // a struct of ours always encodes
		RunID: run, SessionID: "bench", Deadline: now.Add(3 * time.Hour).UTC().Truncate(time.Millisecond),
		Limits: events.Limits{
			ModelCalls: plenty, ToolCalls: plenty, CallsPerTool: plenty,
			InputTokens: plenty, OutputTokens: plenty, TotalTokens: plenty, RunBytes: 1000 * plenty,
		},
	})
	return data
}

// Package policy reads the one YAML file that says what agents may do, and
// compiles it into the rules that a run keeps from its start to its end.
//
// A policy is content-addressed: its digest covers the bytes of the file, and
// those bytes are what is kept, so that every process can compile the very same
// policy again. Compiling depends on nothing but the bytes.
//
//	version: 1                       # of this form
//	tools:                           # what there is; anything else is TOOL_NOT_FOUND
//	  - name: get_user_details       # as agents call it, 1 to 256 bytes
//	    executor: airline            # who runs it
//	    read_only: true              # default false: such a tool is never run
//	    timeout: 10s                 # of one call, 1ms to 24h
//	    input_schema:                # JSON Schema 2020-12; default any object
//	      {type: object, required: [user_id], properties: {user_id: {type: string}}}
//	    projector:                   # what agents see of the result; default json
//	      {name: json, keep: [name, "reservations[]", {path: user.id, as: user}], max_items: 50, max_bytes: 8KiB}
//	grants:                          # who may call what; nothing else is allowed
//	  - agent: "*"                   # an agent, or all
//	    tools: ["*"]                 # declared tools, or all
//	ceilings:                        # what a run may ask for at most; the defaults
//	  {model_calls: 1000, tool_calls: 1000, calls_per_tool: 1000, input_tokens: 10000000,
//	   output_tokens: 1000000, total_tokens: 11000000, run_bytes: 64MiB}
//	bytes:                           # of one call; the defaults
//	  {request: 256KiB, raw_response: 768KiB, record: 1MiB, agent_result: 32KiB}
//	longest_run: 1h                  # from start to deadline, default 1h, at most 14 days
//	ttl: 24h                         # of records after the deadline, default 24h, at most 14 days
//	allow_colon_in_tool_call_ids: false
//	observed: 100                    # calls that run.progress lists at most, default 100
//	progress:                        # how long a run may go on without progress; the defaults
//	  max_repairs: 3                 # wrong progress reports, 1 to 1000; one more releases the run
//	  max_repeats: 10                # times that one call may come to the same result; once more releases the run
//	  grace: 30s                     # for a released run to finish, 1ms to 1h
//
// Projectors and their own options, with the defaults; see package projector:
//
//	{name: json, keep: (everything), max_items: 100, no_evidence_when_empty: (none)}
//	{name: rows, rows: rows, columns: columns, total: (the rows there are), keep: (all columns), max_rows: 100, max_columns: 50}
//	{name: log, lines: lines, max_samples: 20}
//	{name: passages, passages: passages, text: (the usual names), source: (likewise), score: (likewise), max_passages: 20}
//	{name: mcp, keep: (everything), max_items: 100}
//	{name: text, text: text}
//
// and the options of all of them:
//
//	max_bytes: 16KiB    # of the result; at most bytes.agent_result
//	max_string: 4KiB    # of every string (rows 1KiB, log 500, passages 2KiB, text 8KiB)
//	max_depth: 32       # levels of what is kept as JSON
//	max_input: …        # of the raw response; default bytes.raw_response
//	max_cost: 10000000  # steps; what costs more is PROJECTION_FAILED
//	parse_text: false   # look into a response that is a string which holds JSON
//	scope: []           # what was searched: paths that the result repeats, also when nothing was found
//	evidence: "size(result.rows) > 0 && result.error == null"   # CEL; default the projector's own rule
//
// An evidence expression is checked when the policy is read: what it calls must
// be there, and it must be true or false. One that fails when it is evaluated
// is PROJECTION_FAILED, never evidence.
//
// Sizes are numbers of bytes, or have B, KiB, MiB or GiB behind them; durations
// are like 500ms, 10s, 1h30m. The file is plain YAML: one document, no anchors,
// aliases, merge keys or tags.
//
// Reading is strict. A file that is wrong in any place is refused whole, with
// every fault that was found, in the order of the file, each with its line and
// column, what is wanted and what came: see [Error].
package policy

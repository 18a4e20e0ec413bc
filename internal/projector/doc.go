// Package projector reduces the raw response of a tool to a bounded result
// that is safe for the agent, and says whether there is evidence in it.
//
// A projector is chosen by name in the policy, one for each tool:
//
//	json      any JSON: paths that are kept and renamed, lists and strings capped
//	rows      results of queries: rows, columns, cells, the total
//	log       log lines: counts, levels, the first and the last, samples
//	passages  retrieved passages with their sources and scores
//	mcp       tool results of the Model Context Protocol
//	text      one text
//
// To add one, write a file with its Config and its [harness.Projector], and
// enter it in the registry. What every projector keeps to:
//
//   - It is pure: the same raw response gives the same result whenever it is
//     replayed. It is bounded in input, depth, items, bytes and counted cost,
//     never by time.
//   - Nothing is left out in silence: the result says how much was. What does
//     not fit although all was left out that may be is an error.
//   - What it cannot read is an error, never evidence and never the lack of it.
//     So are a response in which a tool reports its own failure (isError of mcp)
//     and an expression that fails: an error message is no proof that nothing
//     was found. The harness makes PROJECTION_FAILED of it and keeps the raw
//     response.
//   - A negative result keeps its scope: where the policy names it (the option
//     scope), what was searched stands in the result, and must be there.
//   - Its errors hold nothing of the response.
//
// Evidence is what the option evidence says, a CEL expression over the raw
// response, or else what the projector's own rule for an empty response says.
package projector

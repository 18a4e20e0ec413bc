// Package projector reduces the raw response of a tool to a bounded result
// that is safe for the agent, and says whether there is evidence in it.
//
// A projector is chosen by name in the policy, one for each tool. To add one,
// write a file with its Config and its [harness.Projector], and enter it in
// the registry. What every projector keeps to:
//
//   - It is pure: the same raw response gives the same result whenever it is
//     replayed. It is bounded by sizes and counts, never by time.
//   - Nothing is left out in silence: the result says how much was. What does
//     not fit although all was left out that may be is an error.
//   - What it cannot read is an error, never evidence and never the lack of it.
//   - Its errors hold nothing of the response.
package projector

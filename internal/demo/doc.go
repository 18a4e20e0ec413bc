// Package demo plays recorded agent runs through the whole system and shows
// what came of them: an agent and an executor made of transcripts ([Play]), a
// few runs as timelines ([FetchTimeline]) and the figures ([WriteSummary]).
//
// The transcripts tell of the agent's messages and tool calls; the model calls
// that messages come from, what they used, and the progress report at the end of
// each run are made up here, the same every time.
//
// Nothing here decides anything, and no figure comes from what the player
// believes: they are counted from the streams by the audit package.
package demo
